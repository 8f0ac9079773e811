// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/json_bytes.h"

#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define SPELLED_MOST 5 /* the length of \\xNN in JSON */

static bool is_surrogate(int unit, int first)
{
	return unit >= first && unit < first + 0x400;
}

/* The number of a \uNNNN at this place, or -1. */
static int read_escape(const char *at, const char *end)
{
	char digits[5] = "";

	if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
		return -1;
	memcpy(digits, at + 2, 4);
	return strspn(digits, "0123456789abcdefABCDEF") == 4 ? (int)strtol(digits, NULL, 16) : -1;
}

static char *spell_byte(char *to, unsigned int byte)
{
	return to + sprintf(to, "\\\\x%02x", byte & 0xff);
}

/* Python's surrogateescape has 0xdc00 and the byte. */
static char *spell_surrogate(char *to, int unit)
{
	if (unit >= 0xdc80 && unit <= 0xdcff)
		return spell_byte(to, unit - 0xdc00);
	to = spell_byte(to, 0xe0 | unit >> 12);
	to = spell_byte(to, 0x80 | (unit >> 6 & 0x3f));
	return spell_byte(to, 0x80 | (unit & 0x3f));
}

/* How many bytes stay as they are; 0: what is here must be spelled. */
static size_t kept_bytes(const char *at, const char *end)
{
	int unit = read_escape(at, end);
	char character[5] = "";

	if (is_surrogate(unit, 0xd800) && is_surrogate(read_escape(at + 6, end), 0xdc00))
		return 12;
	if (unit >= 0)
		return is_surrogate(unit, 0xd800) || is_surrogate(unit, 0xdc00) ? 0 : 6;
	if (*at == '\\')
		return end - at > 1 && isascii(at[1]) ? 2 : 1;
	memcpy(character, at, end - at < 4 ? end - at : 4);
	return isascii(*at) ? 1 : utf8_len(character);
}

bool json_has_bytes(const char *text, size_t len)
{
	const char *at = text, *end = text + len;
	size_t kept = 1;

	for (; at < end && kept; at += kept)
		kept = kept_bytes(at, end);
	return !kept;
}

/* Takes a character of a string. 0: it is not of ASCII, or there is none. */
static char take_ascii(const char **at, const char *end)
{
	const char *was = *at;
	int unit = read_escape(was, end);
	ptrdiff_t len = unit >= 0 ? 6 : was < end && *was == '\\' ? 2 : 1;

	if (end - was < len)
		return 0;
	*at += len;
	if (unit >= 0)
		return isascii(unit) ? unit : 0;
	return len == 1 ? *was : was[1] == '\\' ? '\\' : 0;
}

/* Whether a backslash, however it is written, would look as if it spelled a byte. */
static bool looks_spelled(const char *at, const char *end)
{
	char text[5] = "";

	if (*at != '\\')
		return false;
	for (int i = 0; i < 4; i++)
		text[i] = take_ascii(&at, end);
	return text[0] == '\\' && text[1] == 'x' && strspn(text + 2, "0123456789abcdef") == 2 &&
	       (text[2] >= '8' || !strcmp(text + 2, "00") || !strcmp(text + 2, "5c"));
}

bool json_spell_bytes(const char *text, size_t len, char **ret_text, size_t *ret_len)
{
	const char *at = text, *end = text + len;
	bool is_spelled = false;
	char *spelled, *to;

	*ret_text = NULL;
	spelled = to = malloc(len * SPELLED_MOST + 1);
	while (spelled && at < end) {
		size_t kept = kept_bytes(at, end);
		bool is_backslash = kept && looks_spelled(at, end);

		is_spelled |= !kept || is_backslash;
		if (is_backslash) {
			to = spell_byte(to, '\\');
			at += kept;
		} else if (kept) {
			to = mempcpy(to, at, kept);
			at += kept;
		} else if (*at == '\\') {
			to = spell_surrogate(to, read_escape(at, end));
			at += 6;
		} else {
			to = spell_byte(to, (unsigned char)*at++);
		}
	}
	if (is_spelled) {
		*ret_text = spelled;
		*ret_len = to - spelled;
	} else {
		free(spelled);
	}
	return is_spelled;
}
