// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/moment.h"
#include "base/progress.h"
#include "base/terminal.h"
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

Test(base_units, two_sizes_have_one_unit)
{
	static const struct {
		double more, less;
		const char *want_more, *want_less;
	} pairs[] = {
		{ 10.1 * 1024 * 1024, 10144 * 1024, "10.1 MiB", "9.9 MiB" },
		{ 31.9 * 1024, 9818, "31.9 KiB", "9.6 KiB" },
		{ 2234 * 1024, 397, "2234 KiB", "0.4 KiB" },
		{ 2234 * 1024, 97, "2234 KiB", "97 B" },
		{ 397, 16, "397 B", "16 B" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		char more[UNIT_TEXT_MAX], less[UNIT_TEXT_MAX];

		format_two_sizes(more, pairs[i].more, less, pairs[i].less);
		cr_expect_str_eq(more, pairs[i].want_more);
		cr_expect_str_eq(less, pairs[i].want_less);
	}
}

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

#define HOUR_NS 3600000000000ULL

static const struct moment_order order = { .item_size = sizeof(struct moment) };

/* Sorts any permutation into the order in which the moments are given. */
static void expect_order(const struct moment *moment, size_t nr)
{
	struct moment shuffled[64];

	srand(1);
	for (int round = 0; round < 200; round++) {
		memcpy(shuffled, moment, nr * sizeof(*moment));
		for (size_t i = nr - 1; i > 0; i--) {
			size_t k = rand() % (i + 1);
			struct moment other = shuffled[i];

			shuffled[i] = shuffled[k];
			shuffled[k] = other;
		}
		cr_assert_eq(moments_sort(shuffled, nr, &order), 0);
		cr_assert_arr_eq(shuffled, moment, nr * sizeof(*moment), "round %d", round);
	}
}

Test(moment, of_one_boot_are_in_the_order_of_its_monotonic_clock)
{
	const struct moment moments[] = {
		{ 9 * HOUR_NS, 1, 7, 1 }, { 5 * HOUR_NS, 2, 7, 1 }, { 7 * HOUR_NS, 3, 7, 1 }, { 7 * HOUR_NS, 3, 7, 2 },
		{ 7 * HOUR_NS, 3, 7, 10 }, { 0, 4, 7, 1 }, { 6 * HOUR_NS, 5, 7, 1 },
	};

	expect_order(moments, ARRAY_SIZE(moments));
}

/* By pairs this would be a circle: a before b, b before another boot, and that one before a. */
Test(moment, of_several_boots_have_one_order)
{
	const struct moment moments[] = {
		{ 10 * HOUR_NS, 1 * HOUR_NS, 7, 1 }, { 5 * HOUR_NS, 2 * HOUR_NS, 7, 1 }, { 7 * HOUR_NS, 1, 8, 1 },
	};

	expect_order(moments, ARRAY_SIZE(moments));
	cr_expect_lt(moment_compare(&moments[0], &moments[1], NULL), 0);
	cr_expect_lt(moment_compare(&moments[1], &moments[2], NULL), 0);
	cr_expect_lt(moment_compare(&moments[2], &moments[0], NULL), 0);
}

Test(moment, without_a_boot_are_in_the_order_of_the_wall_clock)
{
	const struct moment moments[] = {
		{ 1 * HOUR_NS, 9, 0, 1 }, { 2 * HOUR_NS, 8, 0, 1 }, { 3 * HOUR_NS, 1, 7, 1 }, { 4 * HOUR_NS, 7, 0, 1 },
	};

	expect_order(moments, ARRAY_SIZE(moments));
}

/* Files may say anything: numbers must not wrap around, or there is no order. */
Test(moment, have_one_order_whatever_the_numbers)
{
	static const uint64_t numbers[] = { 0, 1, HOUR_NS, INT64_MAX, 1ULL << 63, UINT64_MAX - 1, UINT64_MAX };
	struct moment first[64], again[64];

	srand(2);
	for (int round = 0; round < 500; round++) {
		for (size_t i = 0; i < 64; i++)
			first[i] = (struct moment){ numbers[rand() % 7], numbers[rand() % 7], rand() % 5, 1 + i };
		cr_assert_eq(moments_sort(first, 64, &order), 0);
		for (size_t i = 0; i < 64; i++)
			again[i] = first[(i * 13 + round) % 64];
		cr_assert_eq(moments_sort(again, 64, &order), 0);
		cr_assert_arr_eq(first, again, sizeof(first));
	}
}

Test(text_columns, counts_wide_characters_twice_in_any_locale)
{
	setlocale(LC_ALL, "C");
	cr_expect_eq(text_columns(""), 0);
	cr_expect_eq(text_columns("cart.c:31"), 9);
	cr_expect_eq(text_columns("日本語.c"), 8);
	cr_expect_eq(text_columns("e\xcc\x81t"), 2, "a combining accent takes no column");
	cr_expect_eq(text_columns("naïve…"), 6);
	cr_expect_eq(text_columns("\xff\xfe"), 2, "bytes that are no text");
}

Test(text_columns, never_cuts_a_wide_character_in_two)
{
	const char *text = "a日本b";

	cr_expect_eq(text_after_columns(text, 0) - text, 0);
	cr_expect_eq(text_after_columns(text, 2) - text, 1, "half of a wide character is left out");
	cr_expect_eq(text_after_columns(text, 3) - text, 4);
	cr_expect_eq(text_after_columns(text, 99) - text, 8);
	cr_expect_str_eq(text_last_columns(text, 2), "b");
	cr_expect_str_eq(text_last_columns(text, 3), "本b");
	cr_expect_str_eq(text_last_columns(text, 99), text);
}

Test(text_columns, keeps_marks_with_their_character)
{
	const char *text = "e\xcc\x81t";

	cr_expect_eq(text_after_columns(text, 1) - text, 3);
	cr_expect_str_eq(text_last_columns(text, 1), "t");
}

Test(text_columns, replaces_what_has_no_width)
{
	char text[] = "a\xff" "b\xf0\x9f\xbf\xbf" "c日";

	text_replace_unknown(text);
	cr_expect_str_eq(text, "a?b?c日");
}

/* How far a work is, as a text. */

static void expect_text(const char *unit, uint64_t all, uint64_t done, uint64_t spent_ns, const char *want)
{
	struct progress progress = progress_begin("reading", unit, all);
	char text[PROGRESS_TEXT_MAX];

	cr_expect_str_eq(progress_text(text, &progress, done, spent_ns), want);
}

Test(progress, has_part_whole_rate_and_end)
{
	expect_text("files", 4000, 120, 3 * SECOND_NS, "reading: 120 of 4000 files (3 %), 40/s, 97 s left");
	expect_text("files", 40, 1, 4 * SECOND_NS, "reading: 1 of 40 files (2 %), 0.2/s, 156 s left");
	expect_text(NULL, 64 << 20, 16 << 20, 2 * SECOND_NS,
		    "reading: 16.0 MiB of 64.0 MiB (25 %), 8192 KiB/s, 6 s left");
}

Test(progress, makes_up_no_end)
{
	expect_text("files", 0, 120, 3 * SECOND_NS, "reading: 120 files, 40/s");
	expect_text("files", 100, 120, 3 * SECOND_NS, "reading: 120 files, 40/s");
	expect_text("files", 40, 0, 3 * SECOND_NS, "reading: 0 of 40 files (0 %), 0.0/s");
	expect_text("files", 40, 0, 0, "reading: 0 of 40 files (0 %), 0.0/s");
}
