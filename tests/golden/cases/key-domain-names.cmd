allocsnap stats pooled.snap -g domain; allocsnap stats pooled.snap -g domain --json | tr "}" "\n" | grep -o "\"key\".*"
