#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# criterion.sh PROGRAM [ARGUMENT…]: runs a program made with Criterion; shows failures, the summary, the failures once
# more, and the ten slowest tests. The exit status is the program's.
set -u
log=$(mktemp)
trap 'rm -f "$log"' EXIT

ASAN_OPTIONS=abort_on_error=1 "$@" --verbose=1 >"$log" 2>&1
status=$?
grep -vE '^\[(PASS|RUN |SKIP)\]|^\[====\] Running|^\[----\] Criterion v' "$log"
sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -A3 -E '^\[FAIL\]|^\[----\] .*\.c:[0-9]+:' |
	grep -vE '^--$|^\[(----\] *$|====|PASS|RUN |SKIP)' | cut -c1-300 | head -20 | sed "s/^/failed of $(basename "$1"): /"
printf 'slowest of %s: ' "$(basename "$1")"
sed -nE 's/^\[(PASS|FAIL)\] (.*): \(([0-9.]+)s\)$/\3 \2/p' "$log" | sort -rn | head -10 |
	awk '{ printf "%s%s %.1f s", (NR > 1 ? ", " : ""), $2, $1 } END { print "" }'
exit $status
