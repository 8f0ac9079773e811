#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Every suite, one after the other, and what they counted; make check runs it. The last line is
# "allocsnap: N passed, M failed, K skipped". A suite that did not run, or that failed without
# saying which test, is a failed test.
set -u
cd "$(dirname "$0")/.." || exit 1

passed=0 failed=0 skipped=0
lines=()
make="make -j$(nproc)" # what is built for a suite; each runs by itself
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# sum WORD…: adds up the numbers in the log that match; prints nothing if there are none
sum() {
	grep -oE "$1" "$log" | grep -oE '[0-9]+' | awk '{ n += $1 } END { if (NR) print n }'
}

# What the suite in the log says of itself, into p, f, k: Criterion's summaries, or our own lines.
count_criterion() {
	p=$(sum 'Passing: *[0-9]+')
	f=$(sum '(Failing|Crashing): *[0-9]+')
	k=$(grep -c '^skipped, because' "$log")
}

count_lines() {
	grep -E "^$1: [0-9]+ passed" "$log" | tail -1 >"$log.last"
	mv "$log.last" "$log"
	p=$(sum '[0-9]+ passed')
	f=$(sum '[0-9]+ failed')
	k=$(sum '[0-9]+ skipped')
}

# suite NAME COUNTER COMMAND…
suite() {
	local name=$1 counter=$2 status p f k begun=$SECONDS
	shift 2
	echo "== $name: $*"
	"$@" 2>&1 | tee "$log"
	status=${PIPESTATUS[0]}
	sed -i 's/\x1b\[[0-9;]*m//g' "$log"
	"$counter" "$name"
	p=${p:-0} f=${f:-0} k=${k:-0}
	if [ "$f" = 0 ] && { [ "$status" != 0 ] || [ "$p" = 0 ]; }; then
		f=1
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + k))
	lines+=("$(printf '%-8s %s passed, %s failed, %s skipped (%d s)' "$name" "$p" "$f" "$k" \
		$((SECONDS - begun)))")
}

suite unit count_criterion $make test-unit
suite san count_criterion $make SAN=1 test-unit
suite golden count_lines $make test-golden
suite oracle count_lines $make test-oracle
suite mutants count_lines $make test-mutants
suite example count_lines make test-example
suite live count_lines $make test-live
suite fuzz count_lines $make test-fuzz
suite damage count_lines $make test-damage
suite fleet count_lines $make test-fleet
suite unwind count_lines $make test-unwind
suite placement count_lines $make test-placement
suite builds count_lines $make test-builds
suite musl count_lines $make test-musl

echo
printf '%s\n' "${lines[@]}"
echo "allocsnap: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
