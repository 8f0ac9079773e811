#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Each include of src/ is one that scripts/arrows allows, and each arrow there is one that an include needs.
set -eu
cd "$(dirname "$0")/.."

find src -name '*.[ch]' | sort | xargs grep -HnE '^#include [<"]' | awk -F: -v headers="$(ls src/arch/x86)" '
BEGIN {
	n = split(headers, names, "\n")
	for (i = 1; i <= n; i++)
		of_machine[names[i]] = 1
}
FILENAME == "scripts/arrows" {
	if ($0 ~ /^#/ || !NF)
		next
	line++
	order[$1] = line
	n = split($2, rooms, " ")
	for (i = 1; i <= n; i++) {
		allowed[$1, rooms[i]] = 1
		if (rooms[i] != "libbpf" && !(rooms[i] in order)) {
			print "check-arrows: scripts/arrows: " $1 " stands above " rooms[i] | "cat >&2"
			bad = 1
		}
	}
	next
}
{
	path = $1
	room = path
	sub(/^src\//, "", room)
	if (!sub(/\/[^\/]*$/, "", room))
		sub(/\.[ch]$/, "", room)
	sub(/^arch\/.*/, "arch", room)
	name = $0
	is_own = name ~ /#include "/
	sub(/^[^<"]*[<"]/, "", name)
	sub(/[>"].*$/, "", name)
	if (name ~ /^(bpf|linux\/bpf)/ || name ~ /\.(skel|types)\.h$/)
		to = "libbpf"
	else if (!is_own || name ~ /^shared\//)
		next
	else if (name ~ /\//)
		to = substr(name, 1, match(name, /\/[^\/]*$/) - 1)
	else if (name == "reason.h")
		to = "base"
	else if (name in of_machine)
		to = "arch"
	else {
		to = name
		sub(/\.h$/, "", to)
	}
	used[room, to] = 1
	if (!(room in order)) {
		print "check-arrows: src/" room " is not in scripts/arrows" | "cat >&2"
		bad = 1
	} else if (to != room && !((room, to) in allowed)) {
		print "check-arrows: " path ":" $2 ": " room " must not include " name | "cat >&2"
		bad = 1
	}
}
END {
	for (arrow in allowed) {
		if (arrow in used)
			continue
		split(arrow, ends, SUBSEP)
		print "check-arrows: scripts/arrows: no file of " ends[1] " includes from " ends[2] | "cat >&2"
		bad = 1
	}
	exit bad
}' scripts/arrows -
