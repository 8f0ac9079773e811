// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"

/* Results of CPython 3.11's tracemalloc._format_size(size, False) and (size, True). */
static const struct {
	double bytes;
	const char *plain;
	const char *with_sign;
} sizes[] = {
	{ 0.0, "0 B", "+0 B" },
	{ 1.0, "1 B", "+1 B" },
	{ -1.0, "-1 B", "-1 B" },
	{ 66.0, "66 B", "+66 B" },
	{ 99.0, "99 B", "+99 B" },
	{ 100.0, "100 B", "+100 B" },
	{ 1023.0, "1023 B", "+1023 B" },
	{ 1024.0, "1024 B", "+1024 B" },
	{ 9999.0, "9999 B", "+9999 B" },
	{ 10239.0, "10239 B", "+10239 B" },
	{ 10240.0, "10.0 KiB", "+10.0 KiB" },
	{ 10241.0, "10.0 KiB", "+10.0 KiB" },
	{ -10239.0, "-10239 B", "-10239 B" },
	{ -10240.0, "-10.0 KiB", "-10.0 KiB" },
	{ 12345.0, "12.1 KiB", "+12.1 KiB" },
	{ 102399.0, "100.0 KiB", "+100.0 KiB" },
	{ 102400.0, "100 KiB", "+100 KiB" },
	{ 102401.0, "100 KiB", "+100 KiB" },
	{ 103000.0, "101 KiB", "+101 KiB" },
	{ 1048575.0, "1024 KiB", "+1024 KiB" },
	{ 1048576.0, "1024 KiB", "+1024 KiB" },
	{ 10485759.0, "10240 KiB", "+10240 KiB" },
	{ 10485760.0, "10.0 MiB", "+10.0 MiB" },
	{ 69206016.0, "66.0 MiB", "+66.0 MiB" },
	{ 104857599.0, "100.0 MiB", "+100.0 MiB" },
	{ 104857600.0, "100 MiB", "+100 MiB" },
	{ 1073741824.0, "1024 MiB", "+1024 MiB" },
	{ 10737418239.0, "10240 MiB", "+10240 MiB" },
	{ 10737418240.0, "10.0 GiB", "+10.0 GiB" },
	{ 10995116277759.0, "10240 GiB", "+10240 GiB" },
	{ 10995116277760.0, "10.0 TiB", "+10.0 TiB" },
	{ 109951162777600.0, "100 TiB", "+100 TiB" },
	{ 1125899906842624.0, "1024 TiB", "+1024 TiB" },
	{ 1.152921504606847e+18, "1048576 TiB", "+1048576 TiB" },
	{ 9.223372036854776e+18, "8388608 TiB", "+8388608 TiB" },
	{ -9.223372036854776e+18, "-8388608 TiB", "-8388608 TiB" },
	{ 0.5, "0 B", "+0 B" },
	{ 1.5, "2 B", "+2 B" },
	{ 2.5, "2 B", "+2 B" },
	{ 2501.0, "2501 B", "+2501 B" },
	{ 10239.5, "10240 B", "+10240 B" },
	{ 10240.5, "10.0 KiB", "+10.0 KiB" },
	{ 33.333333, "33 B", "+33 B" },
};

Test(base_units, format_size_matches_tracemalloc)
{
	char text[UNIT_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		cr_expect_str_eq(format_size(text, sizes[i].bytes, false), sizes[i].plain);
		cr_expect_str_eq(format_size(text, sizes[i].bytes, true), sizes[i].with_sign);
	}
}

Test(base_units, parse_duration_accepts_units_and_refuses_the_rest)
{
	static const struct {
		const char *text;
		uint64_t ns; /* 0: refused */
	} cases[] = {
		{ "250ms", 250000000 },	    { "10s", 10000000000 },   { "10", 10000000000 },
		{ "5m", 300000000000 },	    { "2h", 7200000000000 },  { "1.5s", 1500000000 },
		{ "0.5ms", 500000 },	    { "", 0 },		      { "s", 0 },
		{ "0", 0 },		    { "0s", 0 },	      { "-1s", 0 },
		{ "+1s", 0 },		    { " 1s", 0 },	      { "1 s", 0 },
		{ "2d", 172800000000000 },  { "1D", 0 },	      { "1S", 0 },	      { "1sm", 0 },
		{ "10000000000000h", 0 },   { "1e400", 0 },	      { "nan", 0 },
		{ "infs", 0 },		    { "1s;", 0 },	      { "\xff", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ns = 1;
		int err = parse_duration(cases[i].text, &ns);

		cr_expect_eq(err, cases[i].ns ? 0 : -EINVAL, "%s: %d", cases[i].text, err);
		cr_expect_eq(ns, cases[i].ns ?: 1, "%s: %ju", cases[i].text, (uintmax_t)ns);
	}
}

Test(base_units, parse_count_accepts_decimal_numbers_in_range)
{
	static const struct {
		const char *text;
		int err;
		uint64_t count;
	} cases[] = {
		{ "1", 0, 1 },	      { "100", 0, 100 },    { "0100", 0, 100 },
		{ "0", -ERANGE, 0 },  { "101", -ERANGE, 0 }, { "99999999999999999999", -ERANGE, 0 },
		{ "", -EINVAL, 0 },   { "-1", -EINVAL, 0 }, { "1x", -EINVAL, 0 },
		{ "0x1", -EINVAL, 0 }, { " 1", -EINVAL, 0 }, { "+1", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t count = 0;
		int err = parse_count(cases[i].text, 1, 100, &count);

		cr_expect_eq(err, cases[i].err, "%s: %d", cases[i].text, err);
		cr_expect_eq(count, cases[i].count, "%s", cases[i].text);
	}
}

Test(base_units, clean_text_escapes_control_characters_and_invalid_utf8)
{
	static const struct {
		const char *text;
		const char *clean;
	} cases[] = {
		{ "", "" },
		{ "operator new(unsigned long)", "operator new(unsigned long)" },
		{ "größe λ 漢 😀", "größe λ 漢 😀" },
		{ "a\tb\nc\r", "a\\x09b\\x0ac\\x0d" },
		{ "\033[31mred", "\\x1b[31mred" },
		{ "\x7f", "\\x7f" },
		{ "\xc2\x9b"
		  "31m",
		  "\\xc2\\x9b31m" },	    /* U+009B: CSI in one character */
		{ "\xc2\xa0", "\xc2\xa0" }, /* U+00A0, the first after C1 */
		{ "\xff\xfe", "\\xff\\xfe" },
		{ "\x80", "\\x80" },
		{ "\xc0\xaf", "\\xc0\\xaf" }, /* overlong '/' */
		{ "\xe0\x80\xaf", "\\xe0\\x80\\xaf" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },		/* a surrogate */
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" }, /* above U+10FFFF */
		{ "\xf0\x9f\x98", "\\xf0\\x9f\\x98" },		/* cut */
		{ "\xe2\x82"
		  "a",
		  "\\xe2\\x82a" },
		{ "a\u202e.c", "a\\xe2\\x80\\xae.c" }, /* right to left from here on */
		{ "\u2066a\u2069", "\\xe2\\x81\\xa6a\\xe2\\x81\\xa9" },
		{ "\u061c", "\\xd8\\x9c" },
		{ "ma\u200bin", "ma\\xe2\\x80\\x8bin" }, /* a space without width */
		{ "\u200d\ufeff", "\\xe2\\x80\\x8d\\xef\\xbb\\xbf" },
		{ "so\u00adft", "so\\xc2\\xadft" },
		{ "a\u2028b", "a\\xe2\\x80\\xa8b" },			    /* a line's end */
		{ "\U000e0041", "\\xf3\\xa0\\x81\\x81" },		    /* the tag A */
		{ "\u200a\u2010\u2027\u202f", "\u200a\u2010\u2027\u202f" }, /* their neighbours */
		{ "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
		  "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627" },
		{ "e\u0301\U000dffff", "e\u0301\U000dffff" },
	};
	char clean[128];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(clean_text(clean, sizeof(clean), cases[i].text), cases[i].clean);
}

Test(base_units, clean_text_cuts_between_characters)
{
	char clean[8];

	cr_expect_str_eq(clean_text(clean, 1, "abc"), "");
	cr_expect_str_eq(clean_text(clean, 3, "abc"), "ab");
	cr_expect_str_eq(clean_text(clean, 3, "a\u00fcb"), "a");
	cr_expect_str_eq(clean_text(clean, 4, "\033"), "");
	cr_expect_str_eq(clean_text(clean, 5, "\033"), "\\x1b");
}

Test(base_units, seconds_have_three_digits)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0.0 ms" }, { 420000, "0.4 ms" }, { 9940000, "9.9 ms" }, { 64700000, "65 ms" }, { 999400000, "999 ms" },
		{ 999600000, "1.00 s" }, { 1243000000, "1.24 s" }, { 25060000000, "25.1 s" }, { 600000000000, "600 s" },
	};
	char text[UNIT_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(format_seconds(text, cases[i].ns), cases[i].text);
}

Test(base_units, shares_are_of_one_core)
{
	static const struct {
		uint64_t cpu_ns, wall_ns;
		const char *text;
	} cases[] = {
		{ 0, 0, "0.0 % of one core" }, { 0, 1000000000, "0.0 % of one core" },
		{ 400000, 1000000000, "below 0.1 % of one core" }, { 1240000000, 25000000000, "5.0 % of one core" },
		{ 163000000, 1000000000, "16 % of one core" }, { 2300000000, 1000000000, "230 % of one core" },
	};
	char text[UNIT_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(format_core_share(text, cases[i].cpu_ns, cases[i].wall_ns), cases[i].text);
}
