// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <locale.h>
#include <string.h>

#include "base/text_columns.h"

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
