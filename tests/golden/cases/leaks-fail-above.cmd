for rate in 0 1K/s 60M/min; do allocsnap leaks leaks --fail-above $rate >out; echo $?; done; allocsnap leaks leaks --fail-above 1K; echo $?
