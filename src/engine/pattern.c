// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/pattern.h"
#include "base/text_stream.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct text {
	const unsigned char *at, *end;
};

static struct text make_text(const char *string)
{
	const unsigned char *at = (const unsigned char *)string;

	return (struct text){ .at = at, .end = at + strlen(string) };
}

/* ---- code points -------------------------------------------------------------------------- */

static const struct sequence {
	uint8_t mask, lead; /* of the first byte */
	uint8_t len;
	uint32_t least; /* a smaller code fits a shorter sequence, so it is not UTF-8 */
} sequences[] = {
	{ 0x80, 0x00, 1, 0 },
	{ 0xe0, 0xc0, 2, 0x80 },
	{ 0xf0, 0xe0, 3, 0x800 },
	{ 0xf8, 0xf0, 4, 0x10000 },
	{ 0x00, 0x00, 0, 0 },
};

static bool is_scalar(uint32_t code)
{
	return code < 0xd800 || (code > 0xdfff && code < 0x110000);
}

static bool decode_utf8_sequence(const struct text *text, const struct sequence *row, uint32_t *ret_code)
{
	uint32_t code = text->at[0] & (uint8_t)~row->mask;

	if (!row->len || text->end - text->at < row->len)
		return false;
	for (int i = 1; i < row->len; i++) {
		if ((text->at[i] & 0xc0) != 0x80)
			return false;
		code = code << 6 | (text->at[i] & 0x3f);
	}
	*ret_code = code;
	return code >= row->least && is_scalar(code);
}

/* Takes the next code point. The text must not be at its end. */
static uint32_t take_code_point(struct text *text)
{
	const struct sequence *row = sequences;
	uint32_t code = *text->at;

	if (code < 0x80) {
		text->at++;
		return code;
	}
	while ((*text->at & row->mask) != row->lead)
		row++;
	if (decode_utf8_sequence(text, row, &code)) {
		text->at += row->len;
		return code;
	}
	return 0xdc00 + *text->at++;
}

static bool starts_with(const struct text *text, char c)
{
	return text->at < text->end && *text->at == c;
}

/* ---- [sets] ------------------------------------------------------------------------------- */

struct range {
	uint32_t first, last;
};

/* Takes one code point, or three if the second is a hyphen. The set must not be at its end. */
static struct range take_range(struct text *set)
{
	uint32_t first = take_code_point(set);
	struct range range = { first, first };

	if (starts_with(set, '-') && set->end - set->at > 1) {
		set->at++;
		range.last = take_code_point(set);
	}
	return range;
}

static bool is_empty_range(const struct range *range)
{
	return range->first > range->last;
}

static bool range_has_code(const struct range *range, uint32_t code)
{
	return range->first <= code && code <= range->last;
}

/*
 * Python first drops empty ranges and then looks at the start of the set. So [b-a!x] is [!x]. In
 * [b-a!-x], where ! would begin a range, the hyphen and the x are members.
 */
static bool set_has(struct text set, uint32_t code)
{
	bool negated = starts_with(&set, '!'), is_front = !negated, found = false;

	set.at += negated;
	while (set.at < set.end) {
		const unsigned char *before = set.at;
		struct range range = take_range(&set);

		if (is_empty_range(&range))
			continue;
		if (is_front && range.first == '!') {
			negated = true;
			if (set.at - before > 1)
				found |= code == '-' || code == range.last;
		} else {
			found |= range_has_code(&range, code);
		}
		is_front = false;
	}
	return found != negated;
}

/* Takes the text between the brackets; returns false if there is no closing bracket. */
static bool take_set(struct text *pattern, struct text *ret_set)
{
	const unsigned char *close = pattern->at;

	close += close < pattern->end && *close == '!';
	close += close < pattern->end && *close == ']';
	close = memchr(close, ']', pattern->end - close);
	if (!close)
		return false;
	*ret_set = (struct text){ .at = pattern->at, .end = close };
	pattern->at = close + 1;
	return true;
}

/* ---- the whole ---------------------------------------------------------------------------- */

enum step {
	STEP_FAILS,
	STEP_TAKES, /* matches one code point of the name */
	STEP_STAR,
};

/* Takes one element of the pattern, which must not be at its end, and the text that it matches. */
static enum step step(struct text *pattern, struct text *name)
{
	uint32_t element = take_code_point(pattern);
	struct text set;
	bool matches;

	if (element == '*')
		return STEP_STAR;
	if (name->at == name->end)
		return STEP_FAILS;
	if (element == '?')
		matches = take_code_point(name) > 0;
	else if (element == '[' && take_set(pattern, &set))
		matches = set_has(set, take_code_point(name));
	else
		matches = take_code_point(name) == element;
	return matches ? STEP_TAKES : STEP_FAILS;
}

/*
 * Gives the last star one code point more; false: the name has no more. A star at the pattern's end takes all. If an
 * ASCII character follows the star, it takes all up to the next such byte, which no longer sequence has.
 */
static bool lengthen_star(const struct text *pattern, struct text *name)
{
	if (name->at == name->end)
		return false;
	take_code_point(name);
	if (pattern->at == pattern->end)
		name->at = name->end;
	else if (*pattern->at < 0x80 && !strchr("*?[", *pattern->at))
		name->at = memchr(name->at, *pattern->at, name->end - name->at) ?: name->end;
	return true;
}

/*
 * Backtracks only to the last star, which gets one code point more. Earlier stars need no other
 * try, because the last one can match whatever they would leave.
 */
static bool matches_pattern(struct text pattern, struct text name)
{
	struct text star = {}, star_name = {}; /* the pattern after the last star, and the name where that star began */

	for (;;) {
		bool at_end = pattern.at == pattern.end;
		enum step taken = at_end ? STEP_FAILS : step(&pattern, &name);

		if (at_end && name.at == name.end)
			return true;
		if (taken == STEP_STAR) {
			star = pattern;
			star_name = name;
		} else if (taken == STEP_FAILS) {
			if (!star.at || !lengthen_star(&star, &star_name))
				return false;
			pattern = star;
			name = star_name;
		}
	}
}

bool pattern_matches(const char *pattern, const char *name)
{
	return matches_pattern(make_text(pattern), make_text(name));
}

/* ---- as a regular expression --------------------------------------------------------------- */

bool pattern_is_plain(const char *pattern_)
{
	struct text pattern = make_text(pattern_), set;

	while (pattern.at < pattern.end) {
		uint32_t element = take_code_point(&pattern);

		if (element == '*' || element == '?' || (element == '[' && take_set(&pattern, &set)))
			return false;
	}
	return true;
}

static int write_regex_code(uint32_t code, FILE *out)
{
	if (!is_scalar(code))
		return -EILSEQ;
	if (code < 0x80 && isalnum((int)code))
		putc((int)code, out);
	else
		fprintf(out, "\\x{%x}", code);
	return 0;
}

static int write_regex_range(const struct range *range, FILE *out)
{
	int err = write_regex_code(range->first, out);

	putc('-', out);
	return err ?: write_regex_code(range->last, out);
}

/* As set_has() reads it. */
static int write_regex_set(struct text set, FILE *out)
{
	static const struct range hyphen = { '-', '-' }, all = { 0, 0x10ffff };
	bool negated = starts_with(&set, '!'), is_front = !negated, is_empty = true;
	char *members = NULL;
	size_t len;
	FILE *in = open_memstream(&members, &len);
	int err = in ? 0 : -ENOMEM;

	set.at += negated;
	while (set.at < set.end && !err) {
		const unsigned char *before = set.at;
		struct range range = take_range(&set);
		bool negates = is_front && range.first == '!', is_range = set.at - before > 1;

		if (is_empty_range(&range))
			continue;
		negated |= negates;
		is_front = false;
		if (negates && is_range)
			err = write_regex_range(&hyphen, in) ?: write_regex_code(range.last, in);
		else if (!negates)
			err = write_regex_range(&range, in);
		is_empty &= negates && !is_range;
	}
	if (!err && is_empty)
		err = write_regex_range(&all, in);
	if (in)
		err = text_stream_close(in, &members) ?: err;
	if (!err)
		fprintf(out, "[%s%s]", negated != is_empty ? "^" : "", members);
	free(members);
	return err;
}

/* A byte that is no UTF-8 matches only * here: the server's expressions are of code points. */
int pattern_write_regex(const char *pattern_, FILE *out)
{
	struct text pattern = make_text(pattern_), set;
	int err = 0;

	fputs("^(?s:", out);
	while (pattern.at < pattern.end && !err) {
		uint32_t element = take_code_point(&pattern);

		if (element == '*')
			fputs("\\C*", out);
		else if (element == '?')
			putc('.', out);
		else if (element == '[' && take_set(&pattern, &set))
			err = write_regex_set(set, out);
		else
			err = write_regex_code(element, out);
	}
	fputs(")$", out);
	return err;
}

/* ---- files and folders --------------------------------------------------------------------- */

static struct text filename_of(const char *string)
{
	struct text text = make_text(string);

	if (text.end - text.at >= 4 && !memcmp(text.end - 4, ".pyc", 4))
		text.end--;
	return text;
}

bool pattern_matches_filename(const char *pattern, const char *filename)
{
	return matches_pattern(filename_of(pattern), filename_of(filename));
}

bool pattern_matches_folder(const char *pattern, const char *path)
{
	const struct text whole = make_text(pattern);

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		struct text folder = make_text(path);

		folder.end = (const unsigned char *)slash;
		if (slash > path && matches_pattern(whole, folder))
			return true;
	}
	return false;
}
