allocsnap convert plain.snap -o never.snap --min-age 1s; echo $?; test ! -e never.snap
