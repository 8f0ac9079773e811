// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/when.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/units.h"

#define SECOND_NS 1000000000ll

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int range_of(int64_t first_s, int64_t end_s, struct when *ret)
{
	if (__builtin_mul_overflow(first_s, SECOND_NS, &ret->first_ns) ||
	    __builtin_mul_overflow(end_s, SECOND_NS, &ret->last_ns))
		return -ERANGE;
	ret->last_ns--;
	return 0;
}

/* Parses ".5" after whole seconds. The last digit gives the length of the range. Digits below 1 ns are ignored. */
static int parse_fraction(const char **text, struct when *when)
{
	int64_t unit_ns = SECOND_NS;

	if (**text != '.')
		return 0;
	if (!is_digit(*++*text))
		return -EINVAL;
	for (; is_digit(**text); ++*text) {
		if (unit_ns == 1)
			continue;
		unit_ns /= 10;
		when->first_ns += (**text - '0') * unit_ns;
	}
	when->last_ns = when->first_ns + unit_ns - 1;
	return 0;
}

/* ---- seconds, and ago ----------------------------------------------------------------------- */

static int parse_seconds(const char *text, struct when *ret)
{
	int64_t seconds = 0;
	int err;

	for (; is_digit(*text); text++)
		if (__builtin_mul_overflow(seconds, 10, &seconds) ||
		    __builtin_add_overflow(seconds, *text - '0', &seconds))
			return -ERANGE;
	err = seconds == INT64_MAX ? -ERANGE : range_of(seconds, seconds + 1, ret);
	return err ?: parse_fraction(&text, ret) ?: *text ? -EINVAL : 0;
}

static int parse_ago(const char *text, int64_t now_ns, struct when *ret)
{
	uint64_t ago_ns;

	if (parse_duration(text, &ago_ns))
		return -EINVAL;
	if (__builtin_sub_overflow(now_ns, ago_ns, &ret->first_ns))
		return -ERANGE;
	ret->last_ns = ret->first_ns;
	ret->is_ago = true;
	return 0;
}

/* ---- dates ------------------------------------------------------------------------------------ */

static const struct date_field {
	char before[3]; /* one of these characters stands in front */
	unsigned int digits;
	int least, most;
} date_fields[] = {
	{ "", 4, 1, 9999 }, { "-", 2, 1, 12 },	{ "-", 2, 1, 31 },
	{ "Tt", 2, 0, 23 }, { ":", 2, 0, 59 },	{ ":", 2, 0, 60 },
};

#define DATE_FIELD_NR ARRAY_SIZE(date_fields)
#define MINUTE_FIELD 4

static int parse_date_number(const char **text, unsigned int digits, int least, int most, int *ret)
{
	int number = 0;

	for (unsigned int i = 0; i < digits; i++, ++*text) {
		if (!is_digit(**text))
			return -EINVAL;
		number = number * 10 + (**text - '0');
	}
	*ret = number;
	return number >= least && number <= most ? 0 : -EINVAL;
}

/* Returns the number of fields, or -EINVAL. */
static int parse_date_fields(const char **text, int field[DATE_FIELD_NR])
{
	int nr = 0, err = 0;

	for (; nr < (int)DATE_FIELD_NR && !err; nr++) {
		const struct date_field *row = &date_fields[nr];

		if (nr && (!**text || !strchr(row->before, **text)))
			break;
		*text += !!nr;
		err = parse_date_number(text, row->digits, row->least, row->most, &field[nr]);
	}
	return err ?: nr;
}

static int parse_zone(const char **text, int64_t *ret_offset_s)
{
	int sign = **text == '-' ? -1 : 1, hours, minutes;

	*ret_offset_s = 0;
	if (**text == 'Z' || **text == 'z') {
		++*text;
		return 0;
	}
	if (**text != '+' && **text != '-')
		return 0;
	++*text;
	if (parse_date_number(text, 2, 0, 23, &hours) || *(*text)++ != ':' ||
	    parse_date_number(text, 2, 0, 59, &minutes))
		return -EINVAL;
	*ret_offset_s = sign * (hours * 3600ll + minutes * 60);
	return 0;
}

static int64_t seconds_of(const int field[DATE_FIELD_NR])
{
	struct tm tm = {
		.tm_year = field[0] - 1900, .tm_mon = field[1] - 1, .tm_mday = field[2],
		.tm_hour = field[3], .tm_min = field[4], .tm_sec = field[5],
	};

	return timegm(&tm);
}

static bool is_day(const int field[DATE_FIELD_NR])
{
	struct tm tm = { .tm_year = field[0] - 1900, .tm_mon = field[1] - 1, .tm_mday = field[2] };

	timegm(&tm);
	return tm.tm_mday == field[2];
}

static int parse_date(const char *text, struct when *ret)
{
	int field[DATE_FIELD_NR] = { 1, 1, 1 }, nr = parse_date_fields(&text, field), err;
	int64_t offset_s = 0, first_s;

	if (nr < 0 || !is_day(field))
		return -EINVAL;
	first_s = seconds_of(field);
	field[nr - 1]++;
	err = range_of(first_s, seconds_of(field), ret);
	if (!err && nr == DATE_FIELD_NR)
		err = parse_fraction(&text, ret);
	if (!err && nr > MINUTE_FIELD)
		err = parse_zone(&text, &offset_s);
	if (err || *text)
		return err ?: -EINVAL;
	return __builtin_sub_overflow(ret->first_ns, offset_s * SECOND_NS, &ret->first_ns) ||
	       __builtin_sub_overflow(ret->last_ns, offset_s * SECOND_NS, &ret->last_ns) ? -ERANGE : 0;
}

/* ---- the whole ---------------------------------------------------------------------------------- */

int when_parse(const char *text, int64_t now_ns, struct when *ret)
{
	size_t digits = strspn(text, "0123456789");
	struct when when = {};
	int err;

	if (*text == '-')
		err = parse_ago(text + 1, now_ns, &when);
	else if (digits == 4 && text[4] != '.')
		err = parse_date(text, &when);
	else
		err = digits ? parse_seconds(text, &when) : -EINVAL;
	if (!err)
		*ret = when;
	return err;
}
