#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Runs the fuzzers: run.sh test|long DIR NAME…
#
#	test	the inputs that once failed, then a fixed number of runs from a fixed seed
#	long	FUZZ_SECONDS each, with what earlier runs found worth keeping; stops nowhere
#
# DIR holds fuzz-NAME and seeds/NAME; corpora and crashing inputs go there.
set -u
mode=$1
dir=$2
shift 2
tests=$(dirname "$0")

# An allocation that is too large fails, as it may, and is no finding; memory that stays in use is.
export ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=512:quarantine_size_mb=16
export UBSAN_OPTIONS=print_stacktrace=1

# How many seconds an input may take, in real time. The tests run beside others on slow machines.
case $mode in
test) timeout=120 ;;
long) timeout=10 ;;
esac

runs_of() {
	case $1 in
	snapshot) echo 4000 ;;
	json) echo 40000 ;;
	filter) echo 30000 ;;
	cfi) echo 60000 ;;
	elf) echo 10000 ;;
	answer) echo 10000 ;;
	user_allocators) echo 200000 ;;
	profile) echo 40000 ;;
	go_table) echo 4000 ;;
	perf_map) echo 20000 ;;
	go_profile) echo 10000 ;;
	java_samples) echo 3000 ;;
	esac
}

# limits NAME: the longest input in bytes, and the words of the format.
limits_of() {
	case $1 in
	snapshot) echo "-max_len=16384" ;;
	json) echo "-max_len=4096 -dict=$tests/json.dict" ;;
	filter) echo "-max_len=256 -dict=$tests/filter.dict" ;;
	cfi) echo "-max_len=2048" ;;
	elf) echo "-max_len=16384" ;;
	answer) echo "-max_len=4096" ;;
	user_allocators) echo "-max_len=512 -dict=$tests/user_allocators.dict" ;;
	profile) echo "-max_len=8192 -dict=$tests/profile.dict" ;;
	go_table) echo "-max_len=16384" ;;
	perf_map) echo "-max_len=512" ;;
	go_profile) echo "-max_len=8192" ;;
	esac
}

# Prints the folders of seeds; they are only read.
seeds_of() {
	for seeds in "$tests/corpus/$1" "$tests/regressions/$1" "$dir/seeds/$1"; do
		[ ! -d "$seeds" ] || echo "$seeds"
	done
}

# fuzz NAME OPTION…: into DIR/corpus/NAME; the log is kept, and shown where it failed.
fuzz() {
	name=$1
	shift
	mkdir -p "$dir/corpus/$name" "$dir/crashes"
	# shellcheck disable=SC2046 # words
	"$dir/fuzz-$name" -rss_limit_mb=2560 -timeout="$timeout" -artifact_prefix="$dir/crashes/$name-" \
		$(limits_of "$name") "$@" >"$dir/$name.log" 2>&1
}

passed=0
failed=0

# count STATUS WHAT: one test; its log where it failed.
count() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	echo "fuzz: $2 failed:"
	tail -n 40 "$dir/$name.log"
}

test_one() {
	for input in "$tests/regressions/$1"/*; do
		[ -f "$input" ] || continue
		fuzz "$1" "$input"
		count $? "$input"
	done
	rm -rf "$dir/corpus/$1"
	# shellcheck disable=SC2046 # folders
	fuzz "$1" -runs="$(runs_of "$1")" -seed=1 "$dir/corpus/$1" $(seeds_of "$1")
	count $? "$1"
}

long_one() {
	echo "fuzz: $1 for $FUZZ_SECONDS s"
	# shellcheck disable=SC2046 # folders
	fuzz "$1" -max_total_time="$FUZZ_SECONDS" -print_final_stats=1 "$dir/corpus/$1" $(seeds_of "$1")
	count $? "$1"
	grep -E '^stat::|DONE' "$dir/$1.log" | tail -n 6
}

for fuzzer; do
	"${mode}_one" "$fuzzer"
done
echo "fuzz: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
