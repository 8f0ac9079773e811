allocsnap leaks leaks-java
