allocsnap leaks leaks-python --json
