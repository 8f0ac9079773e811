for text in old.snap latest first prog@first prog@-2; do allocsnap diff $text; done
