for order in abs growth shrink; do allocsnap diff old.snap mixed.snap --sort $order --top 3 2>/dev/null; done
