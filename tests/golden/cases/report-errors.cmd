# One clear line each, and no file.
allocsnap report new.snap
allocsnap report -o page.html
allocsnap report text.snap -o page.html
allocsnap report nowhere.snap -o page.html
allocsnap report new.snap -o nowhere/page.html
allocsnap report new.snap old.snap other.snap -o page.html
allocsnap report new.snap --source nowhere -o page.html
allocsnap report new.snap --include 'nothing*' -o page.html
allocsnap report new.snap --include 'line=x' -o page.html
allocsnap report strangers -o page.html
allocsnap fleet report
allocsnap fleet report --baseline host=a -o page.html
ls page.html
