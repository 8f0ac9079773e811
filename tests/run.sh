#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# run.sh test|check|check-long: the suites of a tier, three lanes side by side, and what they counted. The last line is
# "allocsnap: N passed, M failed, K skipped". A suite that did not run, or that failed without saying which test, is a
# failed test. The first lane runs the suites that record programs: it has the processors first. The second lane runs
# suites that wait for programs, the third one those that only compute: they get what it leaves. A lane that is done helps the
# others.
set -u
cd "$(dirname "$0")/.." || exit 1

tier=${1:-check}
make="make -j$(nproc)" # what is built for a suite; each suite runs by itself
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
orders='' san_orders='' san_tests='' rounds='' fleet_hosts='' formats='' inject='INJECT_ARGS=--long' unit_modes=all san_modes=all
if [ "$tier" = check ]; then
	orders=30000 san_orders=3000 san_tests="UNIT_ARGS=\"--filter '!(estimates/*)'\""
	rounds=75 fleet_hosts=25 formats=--quick inject='' unit_modes=rest san_modes=one
fi

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
	[ "$f" = 0 ] || failures_of "$name" "$log" >>"$logs/failures.$lane"
	echo "$name $p $f $k $((SECONDS - begun))" >>"$logs/results.$lane"
}

# failures_of NAME LOG: what the suite said of its failed tests, for the end of a long log; all is above, in its place.
failures_of() {
	sed 's/\x1b\[[0-9;]*m//g' "$2" | grep -E '^(FAIL|failed of|not ok|--- .* expected)|^[a-z ]+: .*failed:|^make.*\*\*\*' |
		cut -c1-300 | head -20 | sed "s/^/$1: /"
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
		;;
	check-long)
		suite live count_lines $make test-live LIVE_ARGS=--long
		suite mutants-python count_lines make mutants-python
		suite mutants-rooms count_lines make test-mistakes
		suite unwind count_lines $make test-unwind
		suite placement count_lines $make test-placement
		suite answers count_lines $make test-answers
		;;
	esac
}

# Suites that start programs and wait for them, the longest early.
waiting_suites() {
	if [ "$tier" = test ]; then
		cat <<-END
			report count_lines make test-report
			leaks count_lines make test-leaks
			terminal count_lines make test-terminal
		END
		return
	fi
	if [ "$tier" = check ]; then
		echo "answers count_lines $make test-answers ANSWERS_ARGS=--quick"
	fi
	cat <<-END
		inject count_lines make test-inject $inject
		fleet count_lines make test-fleet ${fleet_hosts:+FLEET_HOSTS=$fleet_hosts}
		sampler count_lines make test-sampler
		terminal count_lines make test-terminal
		page count_lines make test-page
		formats count_lines make test-formats FORMATS_ARGS=$formats
		leaks count_lines make test-leaks
		example count_lines make test-example
		report count_lines make test-report
	END
	if [ "$tier" = check-long ]; then
		cat <<-END
			mutants-leaks count_lines make mutants-leaks
			kernels count_lines make test-kernels
		END
	fi
}

# Suites that only compute, the longest early. `check` runs each mode of the unit tests once, and draws the orders of a
# snapshot's steps, fewer with sanitizers, which make them slow; and it judges estimates without sanitizers.
computing_suites() {
	if [ "$tier" = test ]; then
		cat <<-END
			unit count_criterion make test-unit UNIT_MODES=one
			golden count_lines make test-golden
			json count_lines make test-json
			oracle count_lines make test-oracle ORACLE_ARGS="--seeds 1-20"
		END
		return
	fi
	cat <<-END
		san count_criterion ${san_orders:+env ORDERS=$san_orders} $make SAN=1 test-unit UNIT_MODES=$san_modes $san_tests
		fuzz count_lines $make test-fuzz
		golden count_lines make test-golden
		unit count_criterion ${orders:+env ORDERS=$orders} make test-unit UNIT_MODES=$unit_modes ${rounds:+PARSER_ROUNDS=$rounds}
		oracle count_lines make test-oracle
		damage count_lines make test-damage
		musl count_lines $make test-musl
		json count_lines make test-json
	END
	if [ "$tier" = check-long ]; then
		echo "mutants-oracle count_lines make mutants-oracle"
		echo "mutants-unwind count_lines make mutants-unwind"
	fi
}

# run_suites: runs those of standard input that no other lane has taken.
run_suites() {
	local line

	while read -r line <&3; do
		mkdir "$logs/taken.${line%% *}" 2>/dev/null && eval "suite $line" </dev/null 3<&-
	done 3<&0
}

# run_lane NAME NICE FUNCTION…: runs the suites that these functions print, in their order.
run_lane() {
	lane=$1
	renice -n "$2" "$BASHPID" >/dev/null
	shift 2
	for list in "$@"; do "$list"; done >"$logs/list.$lane"
	run_suites <"$logs/list.$lane"
}

# Programs of several suites are built before the lanes begin: they do not build the same file at a time.
$make test-programs || exit 1
(run_lane second 10 waiting_suites computing_suites) &
(run_lane third 10 computing_suites waiting_suites) &
lane=first
first_lane
run_lane first 0 waiting_suites computing_suites
wait
if [ "$tier" = check-long ]; then
	suite builds count_lines make test-builds # alone: it builds what others build
fi

echo
cat "$logs"/results.* | while read -r name p f k seconds; do
	printf '%-9s %s passed, %s failed, %s skipped (%d s)\n' "$name" "$p" "$f" "$k" "$seconds"
done
cat "$logs"/failures.* 2>/dev/null
read -r passed failed skipped < <(cat "$logs"/results.* | awk '{ p += $2; f += $3; k += $4 } END { print p, f, k }')
echo "allocsnap: $passed passed, $failed failed, $skipped skipped ($SECONDS s)"
[ "$failed" = 0 ]
