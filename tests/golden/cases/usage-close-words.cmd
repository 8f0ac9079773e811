for words in statz "fleet indx /srv" "stats --top-rows 3" "stats --groupby file new.snap" "help atach" "record --exclude-com x"; do
	allocsnap $words; echo $?
done
