#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The five longest files and the five longest functions. Limits: 400 lines a file, 80 a function.
set -eu
cd "$(dirname "$0")/.."

files=$(find src bpf include tests -name '*.[ch]' -o -name '*.cc' -o -name '*.py' | sort)

echo 'longest files (limit 400 lines)'
# shellcheck disable=SC2086 # a list
wc -l $files | grep -v ' total$' | sort -rn | head -5

echo 'longest C functions (limit 80 lines)'
# A function's name stands at the start of a line, its body between { and } at the start of one.
# shellcheck disable=SC2046 # a list
awk '
	/^[A-Za-z_].*\(/ { head = $0; first = FNR }
	/^\{/ { inside = 1 }
	/^\}/ && inside {
		name = head
		sub(/\(.*/, "", name)
		sub(/.*[ *]/, "", name)
		printf "%7d %s:%d %s\n", FNR - first + 1, FILENAME, first, name
		inside = 0
	}
' $(echo "$files" | grep '\.[ch]c*$') | sort -rn | head -5
