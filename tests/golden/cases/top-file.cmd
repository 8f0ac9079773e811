allocsnap top leaks-one.snap --group-by function --sort size --top 3
