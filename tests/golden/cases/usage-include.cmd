for spec in "" file= line=x "line=5,domain=y" lines=5 "domain=-1" "function=a,file" "src/a.c,line=1" all-frames; do allocsnap stats --include "$spec" new.snap; echo $?; done
