mkdir man && allocsnap --man man && ls man
for page in man/*.1; do
	command=$(basename "$page" .1 | sed 's/^allocsnap-*//; s/-/ /')
	allocsnap $command --help >by-option && allocsnap help $command | cmp - by-option
	sed 's/[^ -~]\{1,\}/x/g' by-option | awk -v command="$command" 'length > 80 { print command ": " $0 }'
	[ "$(tail -n 2 by-option | head -n 1)" = Example: ] || echo "$command: no example at the end"
done
