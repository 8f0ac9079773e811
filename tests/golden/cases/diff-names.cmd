allocsnap diff with-names.snap with-names.snap; allocsnap diff without-names.snap with-names.snap -g traceback; allocsnap diff with-names.snap without-names.snap --json
