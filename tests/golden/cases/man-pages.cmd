mkdir man && allocsnap --man man
! command -v groff >/dev/null || for page in man/*.1; do groff -man -Tutf8 -ww -z "$page"; done
