#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Checks that the tables of docs/rules.md name existing tests and mutants.
set -eu
cd "$(dirname "$0")/.."

known=$(mktemp)
trap 'rm -f "$known"' EXIT
{
	sed -nE 's/^BOOK_TEST\(([a-z_]+), ([a-z0-9_]+).*/\1\/\2/p' tests/fake_bpf/*.c
	sed -nE 's/^def (test_[a-z0-9_]+).*/\1/p' tests/live/*.py
	sed -nE 's/^    "(.*)": \(.*/\1/p' tests/fake_bpf/mutants*.py
} >"$known"

bad=0
column() {
	grep '^| ' docs/rules.md | cut -d'|' -f"$1" | grep -oE '`[^`]+`' | tr -d '`' || true
}
# check COLUMN SUFFIX: each name there, with SUFFIX behind it, is a known line
check() {
	column "$1" >"$known.names"
	while read -r name; do
		pattern=$(printf '%s' "$name" | sed 's/[()]/\\&/g; s/\*/.*/g')
		if ! grep -qE "^$pattern$2" "$known"; then
			echo "check-rules: docs/rules.md names $name, which is none" >&2
			bad=1
		fi
	done <"$known.names"
	rm -f "$known.names"
}

check 3 '$'
check 4 '$'
check 5 ''
exit $bad
