allocsnap leaks leaks-python
