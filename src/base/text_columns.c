// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/text_columns.h"

#include <locale.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#include "base/units.h"

static locale_t utf8_locale;

static void open_locale(void)
{
	utf8_locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* The locale is made once and stays until the program ends. (locale_t)0: the C library has none. */
static locale_t find_locale(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_locale);
	return utf8_locale;
}

static wchar_t decode_character(const char *text, size_t len)
{
	const unsigned char *byte = (const unsigned char *)text;
	static const unsigned char first_bits[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	uint32_t code = byte[0] & first_bits[len];

	for (size_t i = 1; i < len; i++)
		code = code << 6 | (byte[i] & 0x3f);
	return code;
}

/* -1: not known. Sets the length in bytes; a byte that is not UTF-8 is a character of its own. */
static int character_columns(const char *text, size_t *ret_len)
{
	size_t len = utf8_len(text);

	*ret_len = len ?: 1;
	if (!len)
		return -1;
	return len == 1 ? 1 : wcwidth(decode_character(text, len));
}

/* wcwidth() knows the characters of the thread's locale only. */
static locale_t enter_locale(void)
{
	locale_t locale = find_locale();

	return locale ? uselocale(locale) : (locale_t)0;
}

static void leave_locale(locale_t before)
{
	if (before)
		uselocale(before);
}

size_t text_columns(const char *text)
{
	locale_t before = enter_locale();
	size_t nr = 0, len;

	for (; *text; text += len) {
		int columns = character_columns(text, &len);

		nr += columns < 0 ? 1 : columns;
	}
	leave_locale(before);
	return nr;
}

const char *text_after_columns(const char *text, size_t nr)
{
	locale_t before = enter_locale();
	size_t len;

	for (; *text; text += len) {
		int columns = character_columns(text, &len);

		columns = columns < 0 ? 1 : columns;
		if ((size_t)columns > nr)
			break;
		nr -= columns;
	}
	leave_locale(before);
	return text;
}

const char *text_last_columns(const char *text, size_t nr)
{
	size_t all = text_columns(text), skipped = 0, len;
	locale_t before = enter_locale();

	while (*text && all - skipped > nr) {
		int columns = character_columns(text, &len);

		skipped += columns < 0 ? 1 : columns;
		text += len;
		while (*text && !character_columns(text, &len)) /* a mark without its character */
			text += len;
	}
	leave_locale(before);
	return text;
}

void text_replace_unknown(char *text)
{
	locale_t before = enter_locale();
	char *to = text;
	size_t len;

	for (; *text; text += len) {
		if (character_columns(text, &len) < 0) {
			*to++ = '?';
			continue;
		}
		memmove(to, text, len);
		to += len;
	}
	*to = '\0';
	leave_locale(before);
}
