allocsnap diff pooled.snap renamed.snap -g domain --top 2
