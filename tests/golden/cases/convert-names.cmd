for out in a.json b.snap c.txt .json d.json.snap; do allocsnap convert plain.snap -o $out; head -c 8 $out; echo; done
