// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"

static const char *const unit_names[] = { "B", "KiB", "MiB", "GiB", "TiB" };

static bool has_decimal(double value, size_t unit)
{
	return fabs(value) < 100 && unit > 0;
}

/* Returns the unit for so many bytes, and their number in it. */
static size_t choose_size_unit(double bytes, double *ret_value)
{
	size_t unit = 0;

	for (; !has_decimal(bytes, unit) && fabs(bytes) >= 10 * 1024 && unit + 1 < ARRAY_SIZE(unit_names); unit++)
		bytes /= 1024;
	*ret_value = bytes;
	return unit;
}

/* The program that embeds this library may use a locale with decimal commas; Python's text has none. */
static void put_size(char text[UNIT_TEXT_MAX], double value, size_t unit, bool with_sign)
{
	locale_t plain = newlocale(LC_ALL_MASK, "C", NULL);
	locale_t before = plain ? uselocale(plain) : NULL;

	snprintf(text, UNIT_TEXT_MAX, with_sign ? "%+.*f %s" : "%.*f %s", has_decimal(value, unit) ? 1 : 0, value,
		 unit_names[unit]);
	if (plain) {
		uselocale(before);
		freelocale(plain);
	}
}

const char *format_size(char text[UNIT_TEXT_MAX], double bytes, bool with_sign)
{
	double value;
	size_t unit = choose_size_unit(bytes, &value);

	put_size(text, value, unit, with_sign);
	return text;
}

#define VALUE_LEAST 0.1 /* that a decimal shows */

void format_two_sizes(char more_text[UNIT_TEXT_MAX], double more, char less_text[UNIT_TEXT_MAX], double less)
{
	double value, in_unit = less;
	size_t unit = choose_size_unit(more, &value);

	put_size(more_text, value, unit, false);
	for (size_t i = 0; i < unit; i++)
		in_unit /= 1024;
	if (in_unit < VALUE_LEAST)
		format_size(less_text, less, false);
	else
		put_size(less_text, in_unit, unit, false);
}

const char *format_seconds(char text[UNIT_TEXT_MAX], uint64_t ns)
{
	double ms = ns / 1e6;

	if (ms < 999.5)
		snprintf(text, UNIT_TEXT_MAX, "%.*f ms", ms < 9.95, ms);
	else
		snprintf(text, UNIT_TEXT_MAX, "%.*f s", ms < 9995 ? 2 : ms < 99950, ms / 1000);
	return text;
}

const char *format_core_share(char text[UNIT_TEXT_MAX], uint64_t cpu_ns, uint64_t wall_ns)
{
	double percent = wall_ns ? 100.0 * cpu_ns / wall_ns : 0;

	if (cpu_ns && percent < 0.05)
		snprintf(text, UNIT_TEXT_MAX, "below 0.1 %% of one core");
	else
		snprintf(text, UNIT_TEXT_MAX, "%.*f %% of one core", percent < 9.95, percent);
	return text;
}

static const struct {
	const char *suffix;
	double ns;
} duration_units[] = {
	{ "", 1e9 }, { "ms", 1e6 }, { "s", 1e9 }, { "m", 60e9 }, { "h", 3600e9 },
	{ "d", 86400e9 },
};

int parse_duration(const char *text, uint64_t *ret_ns)
{
	char *suffix;
	double value;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	value = strtod(text, &suffix);
	for (size_t i = 0; i < ARRAY_SIZE(duration_units); i++) {
		if (strcmp(suffix, duration_units[i].suffix))
			continue;
		value *= duration_units[i].ns;
		if (!(value >= 1 && value < 9e18))
			return -EINVAL;
		*ret_ns = value;
		return 0;
	}
	return -EINVAL;
}

int parse_count(const char *text, uint64_t least, uint64_t most, uint64_t *ret_count)
{
	unsigned long long value;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno || value < least || value > most)
		return -ERANGE;
	*ret_count = value;
	return 0;
}

size_t utf8_len(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t len = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 :
		     s[0] < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

/* C0, DEL and C1 (U+0080–U+009F): a terminal may obey them as commands. */
static bool is_control(const unsigned char *s)
{
	return s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
}

static uint32_t code_point(const unsigned char *s, size_t len)
{
	uint32_t code = len == 1 ? s[0] : s[0] & (0x7f >> len);

	for (size_t i = 1; i < len; i++)
		code = code << 6 | (s[i] & 0x3f);
	return code;
}

/*
 * Invisible characters, which make one name look like another: Unicode's
 * Default_Ignorable_Code_Point (zero-width characters, marks of direction), line separators, and
 * annotation marks.
 */
static bool is_invisible(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0xad, 0xad },	      { 0x34f, 0x34f },	    { 0x61c, 0x61c },	  { 0x115f, 0x1160 },
		{ 0x17b4, 0x17b5 },   { 0x180b, 0x180f },   { 0x200b, 0x200f },	  { 0x2028, 0x202e },
		{ 0x2060, 0x206f },   { 0x3164, 0x3164 },   { 0xfe00, 0xfe0f },	  { 0xfeff, 0xfeff },
		{ 0xffa0, 0xffa0 },   { 0xfff0, 0xfffb },   { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
		{ 0xe0000, 0xe0fff },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	return false;
}

const char *clean_text(char *clean, size_t room, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t out = 0;

	while (*s) {
		size_t len = utf8_len((const char *)s);
		bool escape = !len || is_control(s) || (len > 1 && is_invisible(code_point(s, len)));

		if (out + (escape ? 4 : len) >= room)
			break;
		if (escape) {
			out += snprintf(clean + out, room - out, "\\x%02x", *s++);
			continue;
		}
		memcpy(clean + out, s, len);
		out += len;
		s += len;
	}
	clean[out] = '\0';
	return clean;
}

const char *path_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

const char *clean_path(char *clean, size_t room, const char *path)
{
	size_t shown = room - 16, len = strlen(path);

	return clean_text(clean, room, len > shown ? path + len - shown : path);
}

static const struct {
	const char *suffix;
	unsigned int shift;
} size_units[] = {
	{ "", 0 }, { "K", 10 }, { "KiB", 10 }, { "M", 20 }, { "MiB", 20 },
	{ "G", 30 }, { "GiB", 30 }, { "T", 40 }, { "TiB", 40 },
};

static bool find_shift(const char *suffix, unsigned int *ret_shift)
{
	for (size_t i = 0; i < ARRAY_SIZE(size_units); i++) {
		if (strcasecmp(suffix, size_units[i].suffix))
			continue;
		*ret_shift = size_units[i].shift;
		return true;
	}
	return false;
}

int parse_size(const char *text, uint64_t *ret_bytes)
{
	unsigned long long value;
	unsigned int shift;
	char *suffix;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &suffix, 10);
	if (!find_shift(suffix, &shift))
		return -EINVAL;
	if (errno || value > UINT64_MAX >> shift)
		return -ERANGE;
	*ret_bytes = value << shift;
	return 0;
}

void clean_file_name(char *name)
{
	if (*name == '.')
		*name = '_';
	for (name += strspn(name, FILE_NAME_BYTES); *name; name += strspn(name, FILE_NAME_BYTES))
		*name = '_';
}
