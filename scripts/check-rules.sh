#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Checks that the tables of docs/rules.md name existing tests and mutants. A mutant may be named by its beginning.
set -eu
cd "$(dirname "$0")/.."

awk '
FILENAME ~ /\.c$/ && sub(/^ACCOUNT_TEST\(/, "") { split($0, part, /[, )]+/); known[part[1] "/" part[2]] }
FILENAME ~ /\.c$/ && sub(/^CONSISTENT_WHEN\(/, "") { sub(/,.*/, ""); known["cut/is_consistent_when_" $0] }
FILENAME ~ /live/ && /^@harness\.(rows|for_each|in_modes)/ { has_rows = 1; delete row }
FILENAME ~ /live/ && has_rows && /^    "[a-z0-9_]+": / { split($0, part, "\""); row[part[2]] }
FILENAME ~ /live/ && sub(/^def test_/, "test_") {
	sub(/\(.*/, "")
	known[$0 (has_rows ? "_*" : "")]
	for (name in row)
		known[$0 "_" name]
	has_rows = 0
	delete row
}
FILENAME ~ /mutants/ && sub(/^    "/, "") && sub(/": \(.*/, "") { known[$0] }
FILENAME != "docs/rules.md" || !/^\| / { next }

# is_known NAME, IS_BEGINNING: * in NAME stands for anything
function is_known(name, is_beginning,	one) {
	if (name in known)
		return 1
	if (name !~ /\*/ && !is_beginning)
		return 0
	gsub(/[()]/, "[&]", name) # a dot stands for a character that a name in the table cannot have
	gsub(/\*/, ".*", name)
	name = "^" name (is_beginning ? "" : "$")
	for (one in known)
		if (one ~ name)
			return 1
	return 0
}
{
	n = split($0, column, "|")
	for (i = 3; i <= 5; i++)
		for (rest = column[i]; match(rest, /`[^`]+`/); rest = substr(rest, RSTART + RLENGTH)) {
			name = substr(rest, RSTART + 1, RLENGTH - 2)
			if (!is_known(name, i == 5)) {
				print "check-rules: docs/rules.md names " name ", which does not exist" | "cat >&2"
				bad = 1
			}
		}
}
END { exit bad }' tests/fake_bpf/*.c tests/live/*.py tests/fake_bpf/mutants*.py docs/rules.md
