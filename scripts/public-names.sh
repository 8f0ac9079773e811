#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The functions that headers declare, one a line:
#
#	scripts/public-names.sh HEADER…
#
# A name in front of the first parenthesis of a declaration at the top level, without comments,
# preprocessor lines, attributes and what is in braces except extern "C"'s; typedefs declare
# no function.
set -eu
[ $# -gt 0 ] || { echo "public-names: which headers?" >&2; exit 1; }

awk '
	{ text = text $0 "\n" }

	# Cuts all text from an opening to its closing; pairs inside may not nest.
	function cut(opens, closes, from, rest) {
		while (from = index(text, opens)) {
			rest = substr(text, from + length(opens))
			to = index(rest, closes)
			text = substr(text, 1, from - 1) " " (to ? substr(rest, to + length(closes)) : "")
		}
	}

	END {
		cut("/*", "*/")
		gsub(/\/\/[^\n]*/, "", text)
		while (gsub(/\\\n/, " ", text)) ;
		text = "\n" text
		gsub(/\n[ \t]*#[^\n]*/, "", text)
		gsub(/extern "C" \{/, " ", text)
		while (gsub(/\{[^{}]*\}/, " ", text)) ;
		while (gsub(/__attribute__[ \t\n]*\(\(([^()]|\([^()]*\))*\)\)/, " ", text)) ;
		nr = split(text, declaration, ";")
		for (i = 1; i <= nr; i++) {
			if (declaration[i] ~ /^[ \t\n]*(typedef|_Static_assert)/ || !(at = index(declaration[i], "(")))
				continue
			head = substr(declaration[i], 1, at - 1)
			sub(/[ \t\n]+$/, "", head)
			if (match(head, /[A-Za-z_][A-Za-z0-9_]*$/))
				print substr(head, RSTART)
		}
	}
' "$@" | LC_ALL=C sort -u
