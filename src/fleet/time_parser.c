// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/time_parser.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
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
	char *end;
	int64_t seconds = strtoll(text, &end, 10);
	const char *at = end;
	int err = seconds == INT64_MAX ? -ERANGE : range_of(seconds, seconds + 1, ret);

	return err ?: parse_fraction(&at, ret) ?: *at ? -EINVAL : 0;
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

static const struct date_form {
	const char *format;
	size_t last; /* the member that one unit is added to */
} date_forms[] = {
	{ "%Y-%m-%dT%H:%M:%S", offsetof(struct tm, tm_sec) },
	{ "%Y-%m-%dT%H:%M", offsetof(struct tm, tm_min) },
	{ "%Y-%m-%dT%H", offsetof(struct tm, tm_hour) },
	{ "%Y-%m-%d", offsetof(struct tm, tm_mday) },
	{ "%Y-%m", offsetof(struct tm, tm_mon) },
	{ "%Y", offsetof(struct tm, tm_year) },
};
#define HOUR_FORM 2

/* Returns the row of the form, or -EINVAL. */
static int parse_calendar(const char **text, struct tm *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(date_forms); i++) {
		struct tm tm = { .tm_mday = 1 };
		const char *end = strptime(*text, date_forms[i].format, &tm);

		if (!end)
			continue;
		*text = end;
		*ret = tm;
		return i;
	}
	return -EINVAL;
}

static bool is_day(const struct tm *tm)
{
	struct tm day = { .tm_year = tm->tm_year, .tm_mon = tm->tm_mon, .tm_mday = tm->tm_mday };

	timegm(&day);
	return day.tm_mday == tm->tm_mday;
}

static int parse_date(const char *text, struct when *ret)
{
	struct tm tm, first, zone = {};
	int form = parse_calendar(&text, &tm), err;
	int64_t first_s, offset_ns;

	if (form < 0 || !is_day(&tm))
		return -EINVAL;
	first = tm;
	first_s = timegm(&first);
	++*(int *)((char *)&tm + date_forms[form].last);
	err = range_of(first_s, timegm(&tm), ret);
	if (!err && form == 0)
		err = parse_fraction(&text, ret);
	if (!err && form < HOUR_FORM && *text)
		text = strptime(text, "%z", &zone);
	if (err || !text || *text)
		return err ?: -EINVAL;
	offset_ns = zone.tm_gmtoff * SECOND_NS;
	return __builtin_sub_overflow(ret->first_ns, offset_ns, &ret->first_ns) ||
	       __builtin_sub_overflow(ret->last_ns, offset_ns, &ret->last_ns) ? -ERANGE : 0;
}

/* ---- the whole ---------------------------------------------------------------------------------- */

int time_range_parse(const char *text, int64_t now_ns, struct when *ret)
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
