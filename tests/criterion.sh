#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# criterion.sh PROGRAM [ARGUMENT…]: runs a program made with Criterion; shows failures, the summary and the ten slowest
# tests. The exit status is the program's.
set -u
log=$(mktemp)
trap 'rm -f "$log"' EXIT

ASAN_OPTIONS=abort_on_error=1 "$@" --verbose=1 >"$log" 2>&1
status=$?
grep -vE '^\[(PASS|RUN |SKIP)\]|^\[====\] Running|^\[----\] Criterion v' "$log"
printf 'slowest of %s: ' "$(basename "$1")"
sed -nE 's/^\[(PASS|FAIL)\] (.*): \(([0-9.]+)s\)$/\3 \2/p' "$log" | sort -rn | head -10 |
	awk '{ printf "%s%s %.1f s", (NR > 1 ? ", " : ""), $2, $1 } END { print "" }'
exit $status
