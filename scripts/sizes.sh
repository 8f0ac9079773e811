#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Prints the five longest files and the five longest C functions, and the lines of each room. Fails above a limit.
set -eu
cd "$(dirname "$0")/.."

FILE_LINES=800
FUNCTION_LINES=60
# All lines of src, bpf and include: it only goes down. A commit that raises it says what the lines are for.
ALL_LINES=158209

# "LINES NAME" on standard input, longest first.
report() {
	echo "longest $1 (limit $2 lines)"
	sort -rn | awk -v limit="$2" 'NR <= 5 || $1 > limit { print } $1 > limit { status = 1 } END { exit status }'
}

files=$(find src bpf include tests bench -name '*.[ch]' -o -name '*.cc' -o -name '*.py' | sort)
status=0

# shellcheck disable=SC2086 # a list
wc -l $files | grep -v ' total$' | report files $FILE_LINES || status=1

# A function's name stands at the start of a line, its body between { and } at the start of one.
# shellcheck disable=SC2046 # a list
awk '
	/^[A-Za-z_[].*\(/ { head = $0; first = FNR }
	/^\{/ { inside = 1 }
	/^\}/ && inside {
		name = head
		sub(/\(.*/, "", name)
		sub(/.*[ *]/, "", name)
		printf "%7d %s:%d %s\n", FNR - first + 1, FILENAME, first, name
		inside = 0
	}
' $(echo "$files" | grep '\.[ch]c*$') | report 'C functions' $FUNCTION_LINES || status=1

# A room is a folder of src, or one in collect, elf, fleet, report.
git ls-files src bpf include | xargs wc -l | awk -v limit="$ALL_LINES" '
	$2 == "total" { next }
	{
		room = $2
		sub(/\/[^\/]*$/, "", room)
		sub(/^src\//, "", room)
		sub(/^report\/page.*/, "report/page", room)
		lines[room] += $1
		sum += $1
	}
	END {
		for (room in lines)
			printf "%7d %s\n", lines[room], room | "sort -rn"
		close("sort -rn")
		printf "lines of src, bpf, include: %d of at most %d\n", sum, limit
		exit sum > limit
	}
' || status=1
exit $status
