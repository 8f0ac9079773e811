// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Patterns; every answer is CPython 3.11's fnmatch.fnmatchcase() of the same two strings. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "cpu_limit.h"
#include "engine/pattern.h"

static const struct {
	const char *pattern, *name;
	bool matches;
} cases[] = {
	/* literals, ? and * */
	{ "", "", true }, { "", "a", false }, { "a", "", false }, { "a", "a", true },
	{ "a", "A", false }, { "a.c", "a.c", true }, { "a.c", "axc", false },
	{ "a\\b", "a\\b", true }, { "\\*", "\\x", true }, { "\\*", "*", false },
	{ "?", "", false }, { "?", "a", true }, { "?", "/", true }, { "?", "\n", true },
	{ "?", "é", true }, { "??", "é", false }, { "?", "€", true }, { "?", "😀", true },
	{ "*", "", true }, { "*", "a/b\nc", true }, { "**", "a", true },
	{ "a*", "a", true }, { "*a", "ba/a", true }, { "a*b*c", "abxbc", true },
	{ "a*b*c", "abxb", false }, { "*.c", "/x/.c", true }, { "*ab", "aab", true },
	{ "*a?c*", "xabacd", false }, { "*a*a*a*", "aa", false },
	{ "src/*.c", "src/x/y.c", true }, { "*é", "cafÃé", true },

	/* bytes that are not UTF-8 */
	{ "?", "\xff", true }, { "??", "\xff\xfe", true }, { "?", "\xc3", true },
	{ "??", "\xe2\x82", true }, { "?", "\xe2\x82", false },
	{ "???", "\xed\xa0\x80", true }, { "??", "\xc0\x80", true },
	{ "????", "\xf4\x90\x80\x80", true }, { "\xff", "\xff", true },
	{ "[\x80-\xff]", "\xc3", true }, { "[\x80-\xff]", "é", false },
	{ "[\x80-\xff]", "€", false }, { "[\xff-\x80]", "\x90", false },
	{ "[!\x80]", "\x81", true },

	/* sets */
	{ "[abc]", "b", true }, { "[abc]", "d", false }, { "[abc]", "", false },
	{ "[abc]", "ab", false }, { "[!abc]", "d", true }, { "[!abc]", "a", false },
	{ "[!abc]", "", false }, { "[!a]", "\n", true }, { "[!a]", "/", true },
	{ "[^a]", "^", true }, { "[^a]", "a", true }, { "[^a]", "b", false },
	{ "[!^a]", "^", false }, { "[!^a]", "b", true }, { "[a^]", "^", true },
	{ "[*]", "*", true }, { "[*]", "a", false }, { "[?]", "?", true },
	{ "[[]", "[", true }, { "[\\]", "\\", true }, { "[\\]]", "\\]", true },
	{ "[\\]]", "]", false }, { "[é€]", "€", true }, { "[é€]", "ä", false },
	{ "[a!]", "!", true }, { "[&&a]", "&", true }, { "[a||b]", "|", true },
	{ "[a~~b]", "~", true }, { "[a--b]", "a", false }, { "x[/]y", "x/y", true },

	/* ] in front */
	{ "[]]", "]", true }, { "[]a]", "a", true }, { "[]a]", "]", true },
	{ "[]a]", "b", false }, { "[!]]", "a", true }, { "[!]]", "]", false },
	{ "[!]a]", "a", false }, { "[!]a]", "b", true }, { "[]", "[]", true },
	{ "[!]", "[!]", true }, { "[!", "[!", true }, { "[]-a]", "^", true },
	{ "[]-a]", "-", false }, { "[!]-a]", "_", false }, { "[]-]", "-", true },

	/* no end */
	{ "[", "[", true }, { "[a", "[a", true }, { "[a", "a", false },
	{ "a[", "a[", true }, { "[[a]", "[", true }, { "*[a", "x[a", true },
	{ "[!]a", "[!]a", true }, { "[a[", "[a[", true }, { "[]a", "[]a", true },

	/* ranges */
	{ "[a-c]", "b", true }, { "[a-c]", "d", false }, { "[a-c]", "-", false },
	{ "[!a-c]", "b", false }, { "[!a-c]", "-", true }, { "[a-a]", "a", true },
	{ "[a-]", "-", true }, { "[a-]", "a", true }, { "[-a]", "-", true },
	{ "[-]", "-", true }, { "[--]", "-", true }, { "[---]", "-", true },
	{ "[--0]", ".", true }, { "[--0]", "1", false }, { "[!--0]", ".", false },
	{ "[!--0]", "1", true }, { "[!-]", "-", false }, { "[!-]", "a", true },
	{ "[!-a]", "-", false }, { "[!-a]", "b", true }, { "[a-c-e]", "d", false },
	{ "[a-c-e]", "-", true }, { "[a-c-e]", "e", true }, { "[a-ce-g]", "f", true },
	{ "[a-c--e]", "-", true }, { "[+--]", ",", true }, { "[ -~]", "é", false },
	{ "[à-ÿ]", "é", true }, { "[\\-a]", "]", true }, { "[a-\\]", "b", false },
	{ "[Z-\\]", "[", true }, { "[*-/]", "/", true },

	/* empty ranges */
	{ "[b-a]", "a", false }, { "[b-a]", "b", false }, { "[b-a]", "-", false },
	{ "[!b-a]", "b", true }, { "[!b-a]", "\n", true }, { "[!b-a]", "", false },
	{ "[b-ac]", "c", true }, { "[b-ac]", "a", false }, { "[b-ac-d]", "d", true },
	{ "[cb-a]", "c", true }, { "[cb-a]", "b", false }, { "[!cb-a]", "c", false },
	{ "[!cb-a]", "b", true }, { "[b-a-c]", "-", true }, { "[b-a-c]", "c", true },
	{ "[b-a-c]", "b", false }, { "[b-a!x]", "x", false }, { "[b-a!x]", "y", true },
	{ "[b-a!]", "z", true }, { "[b-a!-x]", "!", true }, { "[b-a!-x]", "-", false },
	{ "[b-a!-x]", "x", false }, { "[b-a!-x]", "k", true }, { "[b-a!--x]", "-", false },
	{ "[b-a!-x-z]", "y", true }, { "[b-a!-x-z]", "z", false }, { "[b-a^x]", "^", true },
	{ "[b-a^x]", "a", false }, { "[]-[!a]", "a", false }, { "[]-[!a]", "b", true },
	{ "[]-[]", "]", false }, { "[é-a]", "c", false }, { "[a-é]", "z", true },
	{ "[!z-a!]", "!", false },
};

Test(engine_pattern, matches_like_pythons_fnmatch)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(pattern_matches(cases[i].pattern, cases[i].name), cases[i].matches,
			     "\"%s\", \"%s\"", cases[i].pattern, cases[i].name);
}

Test(engine_pattern, treats_pyc_as_py_only_in_file_names)
{
	static const struct {
		const char *pattern, *name;
		bool as_filename, as_text;
	} rows[] = {
		{ "a.py", "a.pyc", true, false },
		{ "a.pyc", "a.py", true, false },
		{ "a.pyc", "a.pyc", true, true },
		{ "*.pyc", "a.py", true, false },
		{ "*.py", "a.pyc", true, false },
		{ "*c", "a.pyc", false, true },
		{ ".py", ".pyc", true, false },
		{ "pyc", "py", false, false },
		{ "a.PY", "a.pyc", false, false },
		{ "a.PYC", "a.py", false, false },
		{ "a.py", "a.PYC", false, false },
		{ "a.py", "a.pyo", false, false },
		{ "a.py", "a.pycc", false, false },
		{ "a.pyc*", "a.pyc", false, true },
		{ "[a.pyc]", "y", true, true },
		{ "[a.pyc", "[a.py", true, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *pattern = rows[i].pattern, *name = rows[i].name;

		cr_expect_eq(pattern_matches_filename(pattern, name), rows[i].as_filename,
			     "\"%s\", \"%s\"", pattern, name);
		cr_expect_eq(pattern_matches(pattern, name), rows[i].as_text, "\"%s\", \"%s\"",
			     pattern, name);
	}
}

static char *repeat(const char *text, size_t nr, const char *end)
{
	size_t len = strlen(text);
	char *all = malloc(nr * len + strlen(end) + 1);

	for (size_t i = 0; i < nr; i++)
		memcpy(all + i * len, text, len);
	strcpy(all + nr * len, end);
	return all;
}

/* A backtracking matcher would need the age of the universe for these. */
Test(engine_pattern, matches_hostile_patterns_in_bounded_time)
{
	static const char *const parts[] = { "*a", "a*", "*?", "*[a-b]", "*[!b]", "[", "[!", "*[" };
	char *name = repeat("a", 5000, "x");

	limit_cpu_seconds(20);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		char *pattern = repeat(parts[i], 500, "y");

		cr_expect_not(pattern_matches(pattern, name), "%s…", parts[i]);
		free(pattern);
	}
	free(name);
}

/* NULL: the pattern is no UTF-8. */
static const struct {
	const char *pattern, *regex;
} regexes[] = {
	{ "", "^(?s:)$" },
	{ "a*", "^(?s:a\\C*)$" },
	{ "w?b-*[!0-3]", "^(?s:w.b\\x{2d}\\C*[^0-3])$" },
	{ "a[b", "^(?s:a\\x{5b}b)$" },
	{ "[]-]", "^(?s:[\\x{5d}-\\x{5d}\\x{2d}-\\x{2d}])$" },
	{ "[b-a!x]", "^(?s:[^x-x])$" },
	{ "[z-a]", "^(?s:[^\\x{0}-\\x{10ffff}])$" },
	{ "[!z-a]", "^(?s:[\\x{0}-\\x{10ffff}])$" },
	{ "ü.(", "^(?s:\\x{fc}\\x{2e}\\x{28})$" },
	{ "a\xff", NULL },
	{ "[\xff]", NULL },
};

Test(engine_pattern, is_written_as_a_regular_expression)
{
	for (size_t i = 0; i < ARRAY_SIZE(regexes); i++) {
		char *text = NULL;
		size_t len;
		FILE *out = open_memstream(&text, &len);
		int err = pattern_write_regex(regexes[i].pattern, out);

		fclose(out);
		cr_expect_eq(err, regexes[i].regex ? 0 : -EILSEQ, "%s: %d", regexes[i].pattern, err);
		if (regexes[i].regex)
			cr_expect_str_eq(text, regexes[i].regex, "%s: %s", regexes[i].pattern, text);
		free(text);
	}
	cr_expect(pattern_is_plain("a[b") && pattern_is_plain("") && !pattern_is_plain("a[b]"));
}
