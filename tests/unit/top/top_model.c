// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <string.h>

#include "base/array.h"
#include "top_fixture.h"

static const struct fixture_row rows[] = {
	{ "big", 900, 1, 0, LEAK_KIND_NR, 0 },
	{ "busy", 500, 9, 300, LEAK_KIND_NR, 0 },
	{ "leak", 40, 4, 10, LEAK_SURE, 2 },
	{ "worse", 30, 3, 20, LEAK_SURE, 5 },
	{ "maybe", 20, 2, 200, LEAK_LIKELY, 90 },
};

static struct top_model make(void)
{
	return fixture_model(rows, ARRAY_SIZE(rows));
}

Test(top_model, shows_leaks_first)
{
	struct top_model model = make();

	cr_expect_str_eq(fixture_shown(&model), "maybe worse leak busy big");
	top_model_release(&model);
}

Test(top_model, sorts_by_each_order_in_turn)
{
	static const char *const orders[] = {
		"busy maybe worse leak big", "big busy leak worse maybe", "busy leak worse maybe big",
		"big busy leak maybe worse", "maybe worse leak busy big",
	};
	struct top_model model = make();

	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		cr_expect_eq(fixture_press(&model, "s"), TOP_ACTION_NONE);
		cr_expect_str_eq(fixture_shown(&model), orders[i]);
	}
	top_model_release(&model);
}

Test(top_model, filters_by_names_while_it_is_typed)
{
	struct top_model model = make();

	fixture_press(&model, "/B");
	cr_expect_str_eq(fixture_shown(&model), "maybe busy big", "upper and lower case are the same");
	fixture_press(&model, "usq");
	cr_expect_str_eq(fixture_shown(&model), "", "q is a letter here");
	top_model_press(&model, TOP_KEY_ERASE);
	cr_expect_str_eq(fixture_shown(&model), "busy");
	top_model_press(&model, TOP_KEY_ENTER);
	cr_expect_not(model.is_editing);
	cr_expect_str_eq(model.filter, "Bus");
	top_model_press(&model, TOP_KEY_BACK);
	cr_expect_str_eq(fixture_shown(&model), "maybe worse leak busy big");
	top_model_release(&model);
}

Test(top_model, drops_a_filter_that_is_given_up)
{
	struct top_model model = make();

	fixture_press(&model, "/bi");
	top_model_press(&model, TOP_KEY_BACK);
	cr_expect_str_eq(fixture_shown(&model), "maybe worse leak busy big");
	top_model_release(&model);
}

Test(top_model, takes_whole_characters_of_utf8)
{
	struct top_model model = make();

	fixture_press(&model, "/");
	top_model_press(&model, 0x65e5);
	top_model_press(&model, 0xe9);
	cr_expect_str_eq(model.filter, "日é");
	top_model_press(&model, TOP_KEY_ERASE);
	cr_expect_str_eq(model.filter, "日");
	top_model_press(&model, TOP_KEY_UP);
	top_model_press(&model, 7);
	cr_expect_str_eq(model.filter, "日", "neither arrows nor control characters");
	top_model_release(&model);
}

Test(top_model, follows_the_selected_row)
{
	static const struct fixture_row later[] = {
		{ "busy", 5000, 9, 3000, LEAK_SURE, 99 }, { "leak", 40, 4, 10, LEAK_SURE, 2 },
		{ "worse", 30, 3, 20, LEAK_SURE, 5 },
	};
	struct top_model model = make();

	fixture_press(&model, "jj");
	cr_expect_str_eq(top_model_row(&model)->name, "leak");
	cr_assert_eq(top_model_set_answer(&model, fixture_answer(later, ARRAY_SIZE(later))), 0);
	cr_expect_str_eq(fixture_shown(&model), "busy worse leak");
	cr_expect_str_eq(top_model_row(&model)->name, "leak");
	top_model_release(&model);
}

Test(top_model, stays_on_the_first_row)
{
	static const struct fixture_row later[] = {
		{ "new", 5000, 9, 3000, LEAK_SURE, 99 }, { "worse", 1, 1, 1, LEAK_SURE, 5 },
	};
	struct top_model model = make();

	cr_assert_eq(top_model_set_answer(&model, fixture_answer(later, ARRAY_SIZE(later))), 0);
	cr_expect_str_eq(top_model_row(&model)->name, "new");
	cr_assert_eq(top_model_set_answer(&model, NULL), 0);
	cr_expect_null(top_model_row(&model));
	top_model_release(&model);
}

Test(top_model, moves_within_the_rows)
{
	struct top_model model = make();

	model.page_rows = 2;
	top_model_press(&model, TOP_KEY_UP);
	cr_expect_eq(model.row_cursor.selected, 0);
	top_model_press(&model, TOP_KEY_PAGE_DOWN);
	cr_expect_eq(model.row_cursor.selected, 2);
	top_model_press(&model, TOP_KEY_END);
	top_model_press(&model, TOP_KEY_DOWN);
	cr_expect_eq(model.row_cursor.selected, 4);
	top_model_press(&model, TOP_KEY_HOME);
	cr_expect_eq(model.row_cursor.selected, 0);
	top_model_release(&model);
}

Test(top_model, clears_traces_only_when_asked_twice)
{
	struct top_model model = make();

	cr_expect_eq(fixture_press(&model, "r"), TOP_ACTION_NONE);
	cr_expect(strstr(model.message, "r again"));
	cr_expect_eq(fixture_press(&model, "j"), TOP_ACTION_NONE);
	cr_expect_eq(fixture_press(&model, "r"), TOP_ACTION_NONE, "another key came between");
	cr_expect_eq(fixture_press(&model, "r"), TOP_ACTION_RESET);
	top_model_release(&model);
}

Test(top_model, asks_again_for_another_grouping)
{
	struct top_model model = make();

	for (int i = 0; i < KEY_TYPE_NR; i++) {
		cr_expect_eq(fixture_press(&model, "g"), TOP_ACTION_ASK);
		cr_expect_neq(model.key_type, KEY_PROCESS, "a view has one process");
	}
	cr_expect_eq(model.key_type, KEY_FILENAME);
	cr_expect_eq(fixture_press(&model, "G"), TOP_ACTION_ASK);
	cr_expect_eq(model.key_type, KEY_LINENO);
	top_model_release(&model);
}

Test(top_model, opens_and_goes_back)
{
	struct top_model model = make();

	model.has_list = true;
	cr_expect_eq(top_model_press(&model, TOP_KEY_ENTER), TOP_ACTION_ASK);
	cr_expect_eq(model.page, TOP_PAGE_OPENED);
	cr_expect_eq(top_model_press(&model, TOP_KEY_BACK), TOP_ACTION_NONE);
	cr_expect_eq(top_model_press(&model, TOP_KEY_BACK), TOP_ACTION_CLOSE_PROCESS);
	cr_expect_eq(model.page, TOP_PAGE_PROCESSES);
	cr_expect_eq(top_model_press(&model, TOP_KEY_ENTER), TOP_ACTION_NONE, "there is no process");
	cr_expect_eq(fixture_press(&model, "?"), TOP_ACTION_NONE);
	cr_expect_eq(model.page, TOP_PAGE_HELP);
	fixture_press(&model, "x");
	cr_expect_eq(model.page, TOP_PAGE_PROCESSES);
	cr_expect_eq(fixture_press(&model, "q"), TOP_ACTION_QUIT);
	top_model_release(&model);
}

Test(top_model, records_nothing_of_files)
{
	struct top_model model = make();

	model.is_live = false;
	for (const char *key = "prw"; *key; key++) {
		cr_expect_eq(top_model_press(&model, *key), TOP_ACTION_NONE);
		cr_expect(strstr(model.message, "nothing is recorded"));
	}
	cr_expect_not(model.is_paused);
	top_model_release(&model);
}

Test(top_model, keeps_a_last_snapshot_when_the_process_has_ended)
{
	struct top_model model = make();

	model.is_over = true;
	cr_expect_eq(fixture_press(&model, "p"), TOP_ACTION_NONE);
	cr_expect_not(model.is_paused);
	cr_expect_eq(fixture_press(&model, "w"), TOP_ACTION_SAVE);
	top_model_release(&model);
}

Test(top_model, sorts_processes_and_follows_the_selected_one)
{
	struct top_process small = { .pid = 1, .bytes = 10 }, large = { .pid = 2, .bytes = 20 },
			   ended = { .pid = 3, .bytes = 90, .has_ended = true };
	struct top_model model = { .is_live = true, .page = TOP_PAGE_PROCESSES };

	cr_assert_not(array_push(&model, process, ended));
	cr_assert_not(array_push(&model, process, small));
	cr_assert_not(array_push(&model, process, large));
	model.process_cursor.selected = 1;
	top_model_sort_processes(&model);
	cr_expect_eq(model.process[0].pid, 2);
	cr_expect_eq(model.process[2].pid, 3, "processes that have ended are last");
	cr_expect_eq(top_model_process(&model)->pid, 1);
	top_model_release(&model);
}

Test(top_cursor, shows_what_is_selected)
{
	struct top_cursor cursor = { .selected = 30 };

	top_cursor_fit(&cursor, 100, 10);
	cr_expect_eq(cursor.first, 21);
	cursor.selected = 5;
	top_cursor_fit(&cursor, 100, 10);
	cr_expect_eq(cursor.first, 5);
	cursor = (struct top_cursor){ .selected = 9, .first = 5 };
	top_cursor_fit(&cursor, 8, 20);
	cr_expect_eq(cursor.selected, 7);
	cr_expect_eq(cursor.first, 0, "a larger terminal shows all");
	top_cursor_fit(&cursor, 0, 20);
	cr_expect_eq(cursor.selected, 0);
}
