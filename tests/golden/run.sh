#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Runs each cases/NAME.cmd, a line of shell, in its own copy of the snapshots' directory and compares
# what it prints with NAME.out, NAME.err and NAME.exit (none: empty, 0). --update accepts instead.
#
#	ALLOCSNAP=…/allocsnap SNAPSHOTS=DIR tests/golden/run.sh [--update] [NAME…]
set -u
: "${ALLOCSNAP:?the program}" "${SNAPSHOTS:?the directory that make_snapshots filled}"
cases=$(cd "$(dirname "$0")" && pwd)/cases

update=
if [ "${1-}" = --update ]; then
	update=1
	shift
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LC_ALL=C
export LC_ALL
PATH=$(dirname "$ALLOCSNAP"):$PATH

# An expected file that does not exist is empty.
compare() {
	expected=$cases/$1.$2
	[ -e "$expected" ] || expected=/dev/null
	diff -u --label "$1.$2 expected" --label "$1.$2 got" "$expected" "$work/$2"
}

accept() {
	if [ -s "$work/$2" ]; then
		cp "$work/$2" "$cases/$1.$2"
	else
		rm -f "$cases/$1.$2"
	fi
}

run_case() {
	rm -rf "$work/snapshots"
	cp -R "$SNAPSHOTS" "$work/snapshots"
	(cd "$work/snapshots" && sh "$cases/$1.cmd") >"$work/out" 2>"$work/err" </dev/null
	status=$?
	: >"$work/exit"
	[ $status -eq 0 ] || echo $status >"$work/exit"
	for kind in out err exit; do
		if [ "$update" ]; then
			accept "$1" $kind
		elif ! compare "$1" $kind >"$work/diff"; then
			echo "golden: $1: $kind differs"
			cat "$work/diff"
			return 1
		fi
	done
}

[ $# -gt 0 ] || set -- $(cd "$cases" && ls ./*.cmd | sed 's|^\./||; s|\.cmd$||')
passed=0
failed=0
for name; do
	if run_case "$name"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
done
echo "golden: $passed passed, $failed failed"
[ $failed -eq 0 ]
