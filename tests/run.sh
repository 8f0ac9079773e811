#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# run.sh test|check|check-long: the suites of a tier, two lanes side by side, and what they counted. The last line is
# "allocsnap: N passed, M failed, K skipped". A suite that did not run, or that failed without saying which test, is a
# failed test. A suite of the first lane records programs: it has the processors first, and the second lane gets the rest.
set -u
cd "$(dirname "$0")/.." || exit 1

tier=${1:-check}
make="make -j$(nproc)" # what is built for a suite; each suite runs by itself
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# sum LOG WORD…: adds up the numbers in the log that match; prints nothing if there are none
sum() {
	sed 's/\x1b\[[0-9;]*m//g' "$1" | grep -oE "$2" | grep -oE '[0-9]+' | awk '{ n += $1 } END { if (NR) print n }'
}

# Reads the suite's own summary in the log into p, f, k: Criterion's lines, or those of our own suites.
count_criterion() {
	p=$(sum "$2" 'Passing: *[0-9]+')
	f=$(sum "$2" '(Failing|Crashing): *[0-9]+')
	k=$(grep -c '^skipped, because' "$2")
}

count_lines() {
	sed 's/\x1b\[[0-9;]*m//g' "$2" | grep -E "^$1: [0-9]+ passed" | tail -1 >"$2.last"
	p=$(sum "$2.last" '[0-9]+ passed')
	f=$(sum "$2.last" '[0-9]+ failed')
	k=$(sum "$2.last" '[0-9]+ skipped')
}

# suite NAME COUNTER COMMAND…
suite() {
	local name=$1 counter=$2 status p f k begun=$SECONDS log=$logs/$1.log
	shift 2
	if [ "$lane" = first ]; then
		echo "== $name: $*"
		"$@" 2>&1 | tee "$log"
		status=${PIPESTATUS[0]}
	else
		"$@" >"$log" 2>&1
		status=$?
		{ echo "== $name: $*" && cat "$log"; } >"$log.shown"
		cat "$log.shown"
	fi
	"$counter" "$name" "$log"
	p=${p:-0} f=${f:-0} k=${k:-0}
	if [ "$f" = 0 ] && { [ "$status" != 0 ] || [ "$p" = 0 ]; }; then
		f=1
	fi
	echo "$name $p $f $k $((SECONDS - begun))" >>"$logs/results.$lane"
}

# Suites that record programs run alone, as far as possible: they need the whole machine.
first_lane() {
	case $tier in
	test)
		suite live count_lines $make test-live LIVE_ARGS=--smoke
		;;
	check)
		suite live count_lines $make test-live
		suite unwind count_lines $make test-unwind
		suite answers count_lines $make test-answers ANSWERS_ARGS=--quick
		;;
	check-long)
		suite live count_lines $make test-live LIVE_ARGS=--long
		suite unwind count_lines $make test-unwind
		suite placement count_lines $make test-placement
		suite answers count_lines $make test-answers
		;;
	esac
}

second_lane() {
	if [ "$tier" = test ]; then
		suite unit count_criterion make test-unit UNIT_MODES=one
		suite golden count_lines make test-golden
		suite json count_lines make test-json
		suite report count_lines make test-report
		suite oracle count_lines make test-oracle ORACLE_ARGS="--seeds 1-20"
		suite leaks count_lines make test-leaks
		suite terminal count_lines make test-terminal
		return
	fi
	suite golden count_lines make test-golden
	suite json count_lines make test-json
	suite report count_lines make test-report
	suite unit count_criterion make test-unit
	suite san count_criterion make SAN=1 test-unit UNIT_MODES=one
	suite oracle count_lines make test-oracle
	suite leaks count_lines make test-leaks
	suite terminal count_lines make test-terminal
	suite formats count_lines make test-formats FORMATS_ARGS="$([ "$tier" = check ] && echo --quick)"
	suite fuzz count_lines make test-fuzz
	suite damage count_lines make test-damage
	suite example count_lines make test-example
	suite musl count_lines make test-musl
	suite page count_lines make test-page
	if [ "$tier" = check ]; then
		suite fleet count_lines make test-fleet FLEET_HOSTS=50
		return
	fi
	suite fleet count_lines make test-fleet
	suite sanmodes count_criterion make SAN=1 test-unit
	suite mutants count_lines make test-mutants
	suite leak-mutants count_lines make test-leak-mutants
	suite builds count_lines make test-builds
}

# All that both lanes need is built before they begin: they do not build the same file at a time.
$make all workloads .output/unit .output/unit-bpf || exit 1
(lane=second && renice -n 19 "$BASHPID" >/dev/null && second_lane) &
lane=first
first_lane
wait

echo
cat "$logs"/results.* | while read -r name p f k seconds; do
	printf '%-9s %s passed, %s failed, %s skipped (%d s)\n' "$name" "$p" "$f" "$k" "$seconds"
done
read -r passed failed skipped < <(cat "$logs"/results.* | awk '{ p += $2; f += $3; k += $4 } END { print p, f, k }')
echo "allocsnap: $passed passed, $failed failed, $skipped skipped ($SECONDS s)"
[ "$failed" = 0 ]
