allocsnap diff old.snap new.snap --format pprof; echo $?; allocsnap diff old.snap new.snap -f dhat
