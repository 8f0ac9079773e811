// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <string.h>

#include "base/array.h"
#include "base/terminal.h"
#include "top_fixture.h"

static const struct fixture_row rows[] = {
	{ "shop::Cart::add at /srv/shop/src/cart.cc:31", 1500000, 200, 600000, LEAK_SURE, 9 },
	{ "日本語日本語日本語日本語日本語日本語 at /srv/日本/日本語日本語.cc:1", 400000, 90, -6000, LEAK_KIND_NR, 0 },
	{ "evil\x1b[31m\xe2\x80\xae" "etalbat\ra\x9b\n at \x07/x.c:1", 90000, 9, 0, LEAK_LIKELY, 1 },
	{ "tiny", 1, 1, 0, LEAK_KIND_NR, 0 },
};

static struct top_screen draw(struct top_model *model, unsigned int width, unsigned int height)
{
	struct top_screen screen;

	cr_assert_eq(top_layout_draw(model, width, height, &screen), 0);
	return screen;
}

/* Each line fits, and no byte of it can steer a terminal. */
static void expect_fits(const struct top_screen *screen, unsigned int width, unsigned int height)
{
	cr_expect_eq(screen->line_nr, height, "%zu lines at %ux%u", screen->line_nr, width, height);
	for (size_t i = 0; i < screen->line_nr; i++) {
		const char *text = screen->line[i].text;

		cr_expect_leq(text_columns(text), width, "%s", text);
		for (; *text; text++)
			cr_expect((unsigned char)*text >= 0x20 && *text != 0x7f);
		cr_expect_null(strstr(screen->line[i].text, "\xe2\x80\xae"), "a mark of direction");
	}
}

static const struct top_screen_line *line_with(const struct top_screen *screen, const char *text)
{
	for (size_t i = 0; i < screen->line_nr; i++)
		if (strstr(screen->line[i].text, text))
			return &screen->line[i];
	return NULL;
}

Test(top_layout, fits_terminals_of_all_sizes)
{
	static const enum top_page pages[] = { TOP_PAGE_ROWS, TOP_PAGE_OPENED, TOP_PAGE_HELP, TOP_PAGE_PROCESSES };

	for (unsigned int width = 1; width < 220; width += width < 70 ? 1 : 7)
		for (unsigned int height = 1; height < 50; height += 4)
			for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
				struct top_model model = fixture_model(rows, ARRAY_SIZE(rows));
				struct top_screen screen;

				model.page = pages[i];
				screen = draw(&model, width, height);
				expect_fits(&screen, width, height);
				top_screen_release(&screen);
				top_model_release(&model);
			}
}

Test(top_layout, has_the_same_columns_under_wide_characters)
{
	struct top_model model = fixture_model(rows, ARRAY_SIZE(rows));
	struct top_screen screen = draw(&model, 100, 30);
	const struct top_screen_line *head = line_with(&screen, "VERDICT"), *sure = line_with(&screen, "shop::Cart");

	cr_assert(head && sure);
	cr_expect_eq(strstr(head->text, "VERDICT") - head->text, strstr(sure->text, "LEAKS") - sure->text);
	cr_expect_eq(strstr(head->text, "LINE") - head->text, strstr(sure->text, "shop::") - sure->text);
	cr_expect(strstr(sure->text, " 1465 KiB       200    +586 KiB  LEAKS "), "%s", sure->text);
	top_screen_release(&screen);
	top_model_release(&model);
}

Test(top_layout, marks_rows_in_words_and_styles)
{
	struct top_model model = fixture_model(rows, ARRAY_SIZE(rows));
	struct top_screen screen = draw(&model, 100, 30);

	cr_expect_eq(line_with(&screen, "shop::Cart")->style, TOP_STYLE_SELECTED);
	cr_expect_eq(line_with(&screen, "MAY LEAK")->style, TOP_STYLE_LIKELY);
	cr_expect_eq(line_with(&screen, "tiny")->style, TOP_STYLE_PLAIN);
	top_screen_release(&screen);
	model.row_cursor.selected = 3;
	screen = draw(&model, 100, 30);
	cr_expect_eq(line_with(&screen, "shop::Cart")->style, TOP_STYLE_SURE);
	top_screen_release(&screen);
	top_model_release(&model);
}

Test(top_layout, says_what_was_lost_and_missed)
{
	struct top_model model = fixture_model(rows, ARRAY_SIZE(rows));
	struct top_screen screen;

	model.answer->losses = strdup("7 blocks_dropped");
	model.answer->gaps = strdup("2 gaps, 3 s together");
	model.answer->unjudged_growth = strdup("nothing was recorded for 3 s");
	screen = draw(&model, 100, 30);
	cr_assert(line_with(&screen, "7 blocks_dropped; 2 gaps, 3 s together"));
	cr_expect_eq(line_with(&screen, "7 blocks_dropped")->style, TOP_STYLE_WARNING);
	cr_expect(line_with(&screen, "growth cannot be judged: nothing was recorded for 3 s"));
	cr_expect(line_with(&screen, "2.2 % of one core; allocsnap itself: 1.0 %"));
	top_screen_release(&screen);
	top_model_release(&model);
}

Test(top_layout, says_that_the_process_has_ended_or_is_paused)
{
	struct top_model model = fixture_model(rows, ARRAY_SIZE(rows));
	struct top_screen screen;

	model.is_paused = true;
	screen = draw(&model, 100, 30);
	cr_expect(strstr(screen.line[0].text, "PAUSED"));
	top_screen_release(&screen);
	model.answer->process.has_ended = true;
	screen = draw(&model, 100, 30);
	cr_expect(strstr(screen.line[0].text, "ENDED"));
	top_screen_release(&screen);
	top_model_release(&model);
}

Test(top_layout, says_that_a_snapshot_takes_long)
{
	struct top_model model = fixture_model(rows, ARRAY_SIZE(rows));
	struct top_screen screen;

	model.is_asked = true;
	model.asked_ns = model.now_ns;
	model.now_ns += 12000000000;
	screen = draw(&model, 120, 30);
	cr_expect(strstr(screen.line[0].text, "next snapshot under way, 12 s"), "%s", screen.line[0].text);
	cr_expect(line_with(&screen, "as of 12 s ago"));
	top_screen_release(&screen);
	top_model_release(&model);
}

Test(top_layout, always_says_how_to_leave)
{
	for (unsigned int width = 24; width < 120; width++) {
		struct top_model model = fixture_model(rows, ARRAY_SIZE(rows));
		struct top_screen screen = draw(&model, width, 20);
		const char *foot = screen.line[screen.line_nr - 1].text;

		cr_expect(strstr(foot, "? help") && strstr(foot, "q quit"), "%u: %s", width, foot);
		top_screen_release(&screen);
		top_model_release(&model);
	}
}

Test(top_layout, text_without_end_has_all_rows_uncut)
{
	struct top_model model = fixture_model(rows, ARRAY_SIZE(rows));
	struct top_screen screen = draw(&model, 0, 0);

	cr_expect(line_with(&screen, "日本語日本語日本語日本語日本語日本語 at /srv/日本/日本語日本語.cc:1"));
	cr_expect(line_with(&screen, "evil\\x1b[31m"));
	top_screen_release(&screen);
	model.top = 1;
	screen = draw(&model, 0, 0);
	cr_expect(line_with(&screen, "3 more rows"));
	top_screen_release(&screen);
	top_model_release(&model);
}

Test(top_layout, sums_up_processes)
{
	struct top_process one = { .pid = 1, .comm = "a\x1b[2J", .bytes = 1024, .blocks = 3, .has_rate = true,
				   .bytes_per_s = 10 };
	struct top_process two = { .pid = 22, .comm = "b", .bytes = 2048, .blocks = 4, .has_rate = true,
				   .bytes_per_s = 20 };
	struct top_model model = { .is_live = true, .has_list = true, .own_share = -1 };
	struct top_screen screen;
	const struct top_screen_line *sum;

	cr_assert_not(array_push(&model, process, one));
	cr_assert_not(array_push(&model, process, two));
	screen = draw(&model, 100, 10);
	sum = line_with(&screen, "sum");
	cr_assert(sum);
	cr_expect(strstr(sum->text, "all     3072 B         7     +1800 B"), "%s", sum->text);
	cr_expect(line_with(&screen, "a\\x1b[2J"));
	expect_fits(&screen, 100, 10);
	top_screen_release(&screen);
	top_model_release(&model);
}
