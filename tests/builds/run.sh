#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds the programs of each target that make help names, and runs none: those that take long, or
# compare with what is not installed, would else be found broken only by who needs them.
#
#	MAKE=make tests/builds/run.sh [TARGET…]
set -u
cd "$(dirname "$0")/../.." || exit 1
: "${MAKE:=make}"

passed=0 failed=0
log=$(mktemp)
scratch=$(mktemp -d)
trap 'rm -rf "$log" "$scratch"' EXIT

count() { # STATUS NAME: what it said is in the log
	if [ "$1" = 0 ]; then
		echo "ok $2"
		passed=$((passed + 1))
	else
		tail -n 20 "$log"
		echo "FAIL $2"
		failed=$((failed + 1))
	fi
}

help_targets() {
	$MAKE -s help | awk '$1 == "make" { print $2 }'
}

# Few traces: the benchmark's data are files, which are made here, too.
build() {
	$MAKE BUILD_ONLY=1 BENCH_TRACES=1000 BENCH_PYTHON_TRACES=1000 "$@"
}

# A target that is not phony has a recipe that would run.
is_phony() {
	sed -n 's/^\.PHONY://p' Makefile scripts/install.mk scripts/package.mk tests/tests.mk tests/*/rules.mk bench/rules.mk bench/soak/rules.mk | tr ' ' '\n' | grep -qx -- "$1"
}

check_target() {
	if ! is_phony "$1"; then
		echo "$1 is not declared .PHONY" >"$log"
		count 1 "$1"
		return
	fi
	build "$1" >"$log" 2>&1
	count $? "$1"
}

# This tree's rules with the target "made", whose program is the text on stdin: what this script says of it.
check_in_copy() {
	rm -rf "$scratch/tree"
	mkdir -p "$scratch/tree"
	cp --parents Makefile VERSION scripts/install.mk scripts/package.mk tests/tests.mk tests/*/rules.mk bench/rules.mk bench/soak/rules.mk tests/builds/run.sh "$scratch/tree"
	cp -r tests/builds/made "$scratch/tree/tests"
	cat >"$scratch/tree/tests/made/program.c"
	env -u MAKEFLAGS -u MAKEOVERRIDES MAKE=make BUILDS_IN_COPY=1 "$scratch/tree/tests/builds/run.sh" made >"$log" 2>&1
}

# This check notices.
check_self() {
	echo 'int main(void) { return 0; }' | check_in_copy
	[ -x "$scratch/tree/.output/made" ] && [ ! -e "$scratch/tree/was-run" ] && grep -q '^builds: 1 passed, 0 failed' "$log"
	count $? "a program that builds is built and not run"
	! echo 'int main(void) { return no_such; }' | check_in_copy && grep -q "error: .*no_such" "$log" &&
		grep -q '^builds: 0 passed, 1 failed' "$log"
	count $? "a program that does not build fails the check"
}

# missing_packages WHAT…: what scripts/install-deps.sh would install where nothing is, with another suite's names.
missing_packages() {
	mkdir -p "$scratch/bin"
	printf '#!/bin/sh\nexit 1\n' >"$scratch/bin/dpkg-query"
	printf '#!/bin/sh\necho 1000\n' >"$scratch/bin/id"
	cat >"$scratch/bin/apt-cache" <<-'END'
		#!/bin/sh
		printf '%s\n  Depends: python3\n  Depends: %s\n' "$2" "$(echo "$2" | sed 's/^python3/&.99/; s/-dev$/-99&/')"
	END
	chmod +x "$scratch"/bin/*
	PATH=$scratch/bin:$PATH scripts/install-deps.sh "$@" 2>&1 | sed 's/.*run me as root to install://'
}

# has LIST NAME…: LIST has each NAME, but none of those after a "!"
has() {
	local list=" $1 " name
	shift
	for name in "$@"; do
		case $name in
		!*) [[ $list != *" ${name#!} "* ]] || return ;;
		*) [[ $list == *" $name "* ]] || return ;;
		esac
	done
}

check_packages() {
	missing_packages build demo >"$log"
	has "$(<"$log")" gcc bpftool libelf-dev sqlite3 g++ '!libcriterion-dev' '!redis-server'
	count $? "a demo installs what it needs, and nothing for tests"
	missing_packages build test >"$log"
	has "$(<"$log")" gcc g++ musl-dev python3.99-dbg libclang-rt-99-dev '!python3-dbg'
	count $? "packages with a version in their names are the suite's own"
}

targets=("$@")
if [ $# = 0 ]; then
	mapfile -t targets < <(help_targets)
	build -k "${targets[@]}" # all side by side; the loop below checks each of them
fi
for target in "${targets[@]}"; do
	check_target "$target"
done
if [ -z "${BUILDS_IN_COPY-}" ]; then
	check_self
	check_packages
fi

echo "builds: $passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
