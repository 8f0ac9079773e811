allocsnap stats buffer.snap --source nowhere; echo $?; : >file; allocsnap stats buffer.snap --source file
