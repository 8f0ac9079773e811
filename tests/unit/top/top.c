// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "base/terminal.h"
#include "cpu_limit.h"
#include "engine/leak_report.h"
#include "engine_data.h"
#include "snapshot.h"
#include "top/analyst.h"
#include "top/answer.h"
#include "top/layout.h"
#include "top/model.h"

#define CART { "cart.c", 31, "cart_new" }
#define SERVE { "serve.c", 9, "serve" }
#define MAIN { "main.c", 1, "main" }

static const struct data_trace before[] = {
	{ 100, { CART, MAIN }, .domain = 0, .thread = 7 },
};

static const struct data_trace after[] = {
	{ 100, { CART, MAIN }, .times = 3, .domain = 0, .thread = 7 },
	{ 50, { CART, SERVE, MAIN }, .domain = 5, .thread = 8 },
	{ 20, { SERVE, MAIN }, .domain = 0, .thread = 8 },
};

static const char *const metadata[] = { "comm", "shop", "pid", "12", "monotonic_ns", "90000000000", NULL };

static struct top_answer *answer_of(enum key_type key_type, const char *open, const struct snapshot *base,
				    const struct snapshot *newest)
{
	static const struct engine_options engine;
	const struct top_question question = { .engine = &engine, .key_type = key_type, .open = open };
	struct top_answer *answer = NULL;
	struct reason why = {};

	cr_assert_eq(top_answer_make(&question, base, newest, &answer, &why), 0, "%s", why.text);
	if (open)
		cr_assert_eq(top_answer_open(answer, &question, newest, &why), 0, "%s", why.text);
	return answer;
}

static const char *lines_of(const struct top_answer *answer)
{
	static char text[4096];

	*text = '\0';
	for (size_t i = 0; i < answer->line_nr; i++)
		strcat(strcat(text, answer->line[i]), "\n");
	return text;
}

Test(top_answer, has_rows_and_growth)
{
	struct data_snapshot base = data_snapshot_with(before, ARRAY_SIZE(before), metadata),
			     newest = data_snapshot_with(after, ARRAY_SIZE(after), metadata);
	struct top_answer *answer = answer_of(KEY_LINENO, NULL, base.snapshot, newest.snapshot);

	cr_assert_eq(answer->row_nr, 2);
	cr_expect_str_eq(answer->row[0].name, "cart_new at cart.c:31");
	cr_expect_eq(answer->row[0].cost.size, 350);
	cr_expect_eq(answer->row[0].cost.count, 4);
	cr_expect_eq(answer->row[0].diff.size, 250);
	cr_expect_eq(answer->row[0].kind, LEAK_KIND_NR);
	cr_expect_eq(answer->total_diff.size, 270);
	cr_expect_str_eq(answer->process.comm, "shop");
	cr_expect_eq(answer->process.pid, 12);
	top_answer_free(answer);
	data_release(&base);
	data_release(&newest);
}

/* The blocks of the tracebacks of each row add up to the row, whatever the key. */
Test(top_answer, opens_rows_of_each_key)
{
	struct data_snapshot newest = data_snapshot_with(after, ARRAY_SIZE(after), metadata);
	static const enum key_type keys[] = { KEY_LINENO, KEY_FILENAME, KEY_TRACEBACK, KEY_FUNCTION, KEY_OBJECT,
					      KEY_DOMAIN, KEY_THREAD };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		struct top_answer *all = answer_of(keys[i], NULL, NULL, newest.snapshot);

		cr_expect_gt(all->row_nr, 0);
		for (size_t k = 0; k < all->row_nr; k++) {
			struct top_answer *answer = answer_of(keys[i], all->row[k].identity, NULL, newest.snapshot);
			int64_t bytes = 0;

			for (size_t at = 0; at < answer->line_nr; at++)
				if (!strncmp(answer->line[at], "size=", 5))
					bytes += atoll(answer->line[at] + 5);
			cr_expect_eq(bytes, all->row[k].cost.size, "%s of key %d: %s", all->row[k].name, keys[i], lines_of(answer));
			top_answer_free(answer);
		}
		top_answer_free(all);
	}
	data_release(&newest);
}

Test(top_answer, shows_callers_of_an_opened_row)
{
	struct data_snapshot newest = data_snapshot_with(after, ARRAY_SIZE(after), metadata);
	struct top_answer *answer = answer_of(KEY_FUNCTION, "serve", NULL, newest.snapshot);

	cr_expect_str_eq(lines_of(answer), "size=20 B, count=1\n    serve at serve.c:9\n    main at main.c:1\n");
	top_answer_free(answer);
	answer = answer_of(KEY_FUNCTION, "gone", NULL, newest.snapshot);
	cr_expect_str_eq(lines_of(answer), "no live blocks now\n");
	top_answer_free(answer);
	answer = answer_of(KEY_SIZE_CLASS, "[64 B, 128 B)", NULL, newest.snapshot);
	cr_expect(strstr(lines_of(answer), "tracebacks belong to"));
	top_answer_free(answer);
	data_release(&newest);
}

/* ---- verdicts --------------------------------------------------------------------------------- */

#define MANY_ROWS 100000

static struct snapshot *snapshot_of_rows(void)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct snapshot *snapshot;

	for (uint32_t i = 0; i < MANY_ROWS; i++) {
		struct snap_frame frame = { .lineno = 1 + i };
		struct snap_trace trace = { .size = 8 + i };
		uint32_t id;

		cr_assert_eq(snapshot_builder__string(builder, "cart.c", &frame.filename), 0);
		cr_assert_eq(snapshot_builder__frame(builder, &frame, &id), 0);
		cr_assert_eq(snapshot_builder__traceback(builder, &id, 1, 1, 0, &trace.traceback), 0);
		cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	}
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

/* Each traceback of the snapshot is a line; every other one leaks, as many bytes a second as its own number says. */
static void fill_leaks(struct leaks *leaks, struct snapshot *last)
{
	const struct snapshot_tables *tables = snapshot__tables(last);

	*leaks = (struct leaks){ .last = last, .window = { .span_ns = 60000000000, .snapshot_nr = 12 } };
	for (uint32_t i = 1; i < tables->traceback_nr; i++) {
		struct leak_verdict verdict = { .kind = i % 2 ? LEAK_SURE : LEAK_FREED, .bytes_per_s = i };

		cr_assert_eq(array_push(leaks, line, ((struct leak_line){
			.verdict = verdict, .first = leaks->caller_nr, .caller_nr = 1 })), 0);
		cr_assert_eq(array_push(leaks, caller, ((struct leak_caller){ .verdict = verdict, .traceback = i })), 0);
	}
}

/* A search through all rows for each line takes longer. */
Test(top_answer, finds_the_rows_of_many_lines_that_leak)
{
	struct snapshot *newest = snapshot_of_rows();
	struct top_answer *answer = answer_of(KEY_TRACEBACK, NULL, NULL, newest);
	size_t sure = 0, wrong = 0;
	struct leaks leaks;

	limit_cpu_seconds(60);
	fill_leaks(&leaks, newest);
	cr_assert_eq(top_answer_judge(answer, &leaks), 0);
	cr_assert_eq(answer->row_nr, MANY_ROWS);
	for (size_t i = 0; i < answer->row_nr; i++) {
		const struct top_row *row = &answer->row[i];
		uint32_t number = row->cost.size - 8 + 1; /* of its traceback: 0 is none */

		sure += row->kind == LEAK_SURE;
		wrong += row->kind != (number % 2 ? LEAK_SURE : LEAK_KIND_NR) ||
			 row->leak_bytes_per_s != (number % 2 ? number : 0);
	}
	cr_expect_eq(sure, MANY_ROWS / 2);
	cr_expect_eq(wrong, 0);
	top_answer_free(answer);
	free(leaks.line);
	free(leaks.caller);
	snapshot__close(newest);
}

/* Two tracebacks of one row: one leaks, the other one may. */
Test(top_answer, has_the_verdict_of_the_larger_part)
{
	static const struct {
		double sure, likely;
		enum leak_kind kind;
	} rates[] = { { 10, 90, LEAK_LIKELY }, { 90, 10, LEAK_SURE }, { 50, 50, LEAK_SURE } };
	struct data_snapshot newest = data_snapshot_with(after, ARRAY_SIZE(after), metadata);

	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		struct leak_verdict sure = { .kind = LEAK_SURE, .bytes_per_s = rates[i].sure, .survivors = 99 },
				    likely = { .kind = LEAK_LIKELY, .bytes_per_s = rates[i].likely, .survivors = 5 };
		struct leak_line line[] = { { .verdict = sure, .first = 0, .caller_nr = 1 },
					    { .verdict = likely, .first = 1, .caller_nr = 1 } };
		struct leak_caller caller[] = { { .verdict = sure, .traceback = 1 }, { .verdict = likely, .traceback = 2 } };
		struct leaks leaks = { .last = newest.snapshot, .window = { .span_ns = 60000000000, .snapshot_nr = 12 },
				       .line = line, .line_nr = 2, .caller = caller, .caller_nr = 2 };
		struct top_answer *answer = answer_of(KEY_FILENAME, NULL, NULL, newest.snapshot);
		const struct top_row *row = &answer->row[0];

		cr_assert_eq(top_answer_judge(answer, &leaks), 0);
		cr_expect_str_eq(row->name, "cart.c");
		cr_expect_eq(row->kind, rates[i].kind, "%g, %g", rates[i].sure, rates[i].likely);
		cr_expect_eq(row->leak_bytes_per_s, 100);
		cr_expect(strstr(row->reason, rates[i].kind == LEAK_SURE ? "99 of" : "5 of"), "%s", row->reason);
		top_answer_free(answer);
	}
	data_release(&newest);
}

/* ---- series --------------------------------------------------------------------------------- */

/* Adds an empty file and a snapshot of that second; returns the path. */
static void add_second(struct top_series *series, uint64_t second, const char *clears)
{
	char now[32], path[] = "/tmp/allocsnap-series.XXXXXX";
	const char *const facts[] = { "monotonic_ns", now, "recording_start_monotonic_ns", "1000000000", "clear_count", clears,
				      NULL };
	struct data_snapshot snapshot;
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	close(fd);
	snprintf(now, sizeof(now), "%llu", (unsigned long long)second * 1000000000);
	snapshot = data_snapshot_with(before, ARRAY_SIZE(before), facts);
	cr_assert_eq(top_series_add(series, path, snapshot.snapshot), 0);
	data_release(&snapshot);
}

Test(top_series, keeps_few_snapshots_evenly)
{
	struct top_series series = {};
	const struct leak_times *times = &series.recording.times;
	char *first;

	add_second(&series, 2, "0");
	first = strdup(series.point[0].path);
	for (uint64_t second = 3; second <= 400; second++)
		add_second(&series, second, "0");
	cr_expect_eq(times->snapshot_nr, SERIES_MOST);
	cr_expect_eq(times->begin_ns, 1000000000);
	cr_expect_eq(times->now_ns[0], 2000000000);
	cr_expect_eq(times->now_ns[SERIES_MOST - 1], 400000000000);
	for (uint32_t i = 1; i < SERIES_MOST; i++)
		cr_expect_lt(times->now_ns[i] - times->now_ns[i - 1], 80000000000, "no hole");
	cr_expect_eq(access(first, F_OK), 0);
	top_series_remove(&series);
	cr_expect_neq(access(first, F_OK), 0, "the files are removed");
	free(first);
}

Test(top_series, begins_anew_when_traces_are_cleared)
{
	struct top_series series = {};

	for (uint64_t second = 2; second < 8; second++)
		add_second(&series, second, "0");
	add_second(&series, 9, "1");
	cr_expect_eq(series.recording.times.snapshot_nr, 1);
	cr_expect_eq(series.recording.times.begin_ns, 7000000000);
	cr_expect(series.recording.times.is_part);
	top_series_remove(&series);
}

Test(top_series, measures_growth_from_a_minute_ago)
{
	struct top_series series = {};

	cr_expect_eq(top_series_find_base(&series, 60000000000), 0);
	for (uint64_t second = 10; second <= 100; second += 10)
		add_second(&series, second, "0");
	cr_expect_eq(series.recording.times.now_ns[top_series_find_base(&series, 60000000000)], 40000000000);
	cr_expect_eq(top_series_find_base(&series, 600000000000), 0);
	top_series_remove(&series);
}

/* ---- answers without snapshots, and keys as a text ---- */

struct fixture_row {
	const char *name;
	int64_t bytes, blocks, growth;
	enum leak_kind kind; /* LEAK_KIND_NR: none */
	double leak_rate;
};

static struct top_answer *fixture_answer(const struct fixture_row *row, size_t nr)
{
	struct top_answer *answer = calloc(1, sizeof(*answer));

	answer->process = (struct top_process){
		.pid = 4711, .comm = "shop", .bytes = 2000000, .blocks = 300, .rss_bytes = 5000000, .peak_bytes = 2500000,
		.cost_ns = 2000000000, .cpu_ns = 10000000000, .recorded_ns = 92000000000, .cost_is_known = true,
	};
	answer->now_ns = 1000 * SECOND_NS;
	answer->window_ns = 60 * SECOND_NS;
	answer->row = calloc(nr + 1, sizeof(*answer->row));
	answer->row_nr = nr;
	for (size_t i = 0; i < nr; i++)
		answer->row[i] = (struct top_row){
			.name = strdup(row[i].name),
			.tail_at = strstr(row[i].name, " at ") ? (size_t)(strstr(row[i].name, " at ") - row[i].name) :
								   strlen(row[i].name),
			.identity = strdup(row[i].name),
			.cost = { row[i].bytes, row[i].blocks },
			.diff = { row[i].growth, 1 },
			.kind = row[i].kind,
			.leak_bytes_per_s = row[i].leak_rate,
		};
	return answer;
}

/* A model of a recording, with an answer of these rows; the window is a minute. */
static struct top_model fixture_model(const struct fixture_row *row, size_t nr)
{
	struct top_model model = { .is_live = true, .page = TOP_PAGE_ROWS, .now_ns = 1000 * SECOND_NS, .own_share = 0.01 };

	cr_assert_eq(top_model_set_answer(&model, fixture_answer(row, nr)), 0);
	return model;
}

/* The names of the shown rows, "a b c"; static memory. */
static const char *fixture_shown(const struct top_model *model)
{
	static char text[512];
	size_t len = 0;

	*text = '\0';
	for (size_t i = 0; i < model->shown_nr; i++)
		len += snprintf(text + len, sizeof(text) - len, "%s%s", i ? " " : "", model->answer->row[model->shown[i]].name);
	return text;
}

/* Presses the characters. */
static enum top_action fixture_press(struct top_model *model, const char *keys)
{
	enum top_action action = TOP_ACTION_NONE;

	for (; *keys; keys++)
		action = top_model_press(model, *keys);
	return action;
}

/* ---- model ---- */

static const struct fixture_row rows[] = {
	{ "big", 900, 1, 0, LEAK_KIND_NR, 0 },
	{ "busy", 500, 9, 300, LEAK_KIND_NR, 0 },
	{ "leak", 40, 4, 10, LEAK_SURE, 2 },
	{ "worse", 30, 3, 20, LEAK_SURE, 5 },
	{ "maybe", 20, 2, 200, LEAK_LIKELY, 90 },
};

static struct top_model model;

static void make_model(void)
{
	model = fixture_model(rows, ARRAY_SIZE(rows));
}

static void release_model(void)
{
	top_model_release(&model);
}

TestSuite(top_model, .init = make_model, .fini = release_model);

Test(top_model, shows_leaks_first)
{
	cr_expect_str_eq(fixture_shown(&model), "maybe worse leak busy big");
}

Test(top_model, sorts_by_each_order_in_turn)
{
	static const char *const orders[] = {
		"busy maybe worse leak big", "big busy leak worse maybe", "busy leak worse maybe big",
		"big busy leak maybe worse", "maybe worse leak busy big",
	};

	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		cr_expect_eq(fixture_press(&model, "s"), TOP_ACTION_NONE);
		cr_expect_str_eq(fixture_shown(&model), orders[i]);
	}
}

Test(top_model, filters_by_names_while_it_is_typed)
{
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
}

Test(top_model, drops_a_filter_that_is_given_up)
{
	fixture_press(&model, "/bi");
	top_model_press(&model, TOP_KEY_BACK);
	cr_expect_str_eq(fixture_shown(&model), "maybe worse leak busy big");
}

Test(top_model, takes_whole_characters_of_utf8)
{
	fixture_press(&model, "/");
	top_model_press(&model, 0x65e5);
	top_model_press(&model, 0xe9);
	cr_expect_str_eq(model.filter, "日é");
	top_model_press(&model, TOP_KEY_ERASE);
	cr_expect_str_eq(model.filter, "日");
	top_model_press(&model, TOP_KEY_UP);
	top_model_press(&model, 7);
	cr_expect_str_eq(model.filter, "日", "neither arrows nor control characters");
}

Test(top_model, follows_the_selected_row)
{
	static const struct fixture_row later[] = {
		{ "busy", 5000, 9, 3000, LEAK_SURE, 99 }, { "leak", 40, 4, 10, LEAK_SURE, 2 },
		{ "worse", 30, 3, 20, LEAK_SURE, 5 },
	};

	fixture_press(&model, "jj");
	cr_expect_str_eq(top_model_row(&model)->name, "leak");
	cr_assert_eq(top_model_set_answer(&model, fixture_answer(later, ARRAY_SIZE(later))), 0);
	cr_expect_str_eq(fixture_shown(&model), "busy worse leak");
	cr_expect_str_eq(top_model_row(&model)->name, "leak");
}

Test(top_model, stays_on_the_first_row)
{
	static const struct fixture_row later[] = {
		{ "new", 5000, 9, 3000, LEAK_SURE, 99 }, { "worse", 1, 1, 1, LEAK_SURE, 5 },
	};

	cr_assert_eq(top_model_set_answer(&model, fixture_answer(later, ARRAY_SIZE(later))), 0);
	cr_expect_str_eq(top_model_row(&model)->name, "new");
	cr_assert_eq(top_model_set_answer(&model, NULL), 0);
	cr_expect_null(top_model_row(&model));
}

Test(top_model, moves_within_the_rows)
{
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
}

Test(top_model, clears_traces_only_when_asked_twice)
{
	cr_expect_eq(fixture_press(&model, "r"), TOP_ACTION_NONE);
	cr_expect(strstr(model.message, "r again"));
	cr_expect_eq(fixture_press(&model, "j"), TOP_ACTION_NONE);
	cr_expect_eq(fixture_press(&model, "r"), TOP_ACTION_NONE, "another key came between");
	cr_expect_eq(fixture_press(&model, "r"), TOP_ACTION_RESET);
}

Test(top_model, asks_again_for_another_grouping)
{
	for (int i = 0; i < KEY_TYPE_NR; i++) {
		cr_expect_eq(fixture_press(&model, "g"), TOP_ACTION_ASK);
		cr_expect_neq(model.key_type, KEY_PROCESS, "a view has one process");
	}
	cr_expect_eq(model.key_type, KEY_FILENAME);
	cr_expect_eq(fixture_press(&model, "G"), TOP_ACTION_ASK);
	cr_expect_eq(model.key_type, KEY_LINENO);
}

Test(top_model, opens_and_goes_back)
{
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
}

Test(top_model, records_nothing_of_files)
{
	model.is_live = false;
	for (const char *key = "prw"; *key; key++) {
		cr_expect_eq(top_model_press(&model, *key), TOP_ACTION_NONE);
		cr_expect(strstr(model.message, "nothing is recorded"));
	}
	cr_expect_not(model.is_paused);
}

Test(top_model, keeps_a_last_snapshot_when_the_process_has_ended)
{
	model.is_over = true;
	cr_expect_eq(fixture_press(&model, "p"), TOP_ACTION_NONE);
	cr_expect_not(model.is_paused);
	cr_expect_eq(fixture_press(&model, "w"), TOP_ACTION_SAVE);
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

/* ---- layout ---- */

static const struct fixture_row drawn_rows[] = {
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
				struct top_model model = fixture_model(drawn_rows, ARRAY_SIZE(drawn_rows));
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
	struct top_model model = fixture_model(drawn_rows, ARRAY_SIZE(drawn_rows));
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
	struct top_model model = fixture_model(drawn_rows, ARRAY_SIZE(drawn_rows));
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
	struct top_model model = fixture_model(drawn_rows, ARRAY_SIZE(drawn_rows));
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
	struct top_model model = fixture_model(drawn_rows, ARRAY_SIZE(drawn_rows));
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
	struct top_model model = fixture_model(drawn_rows, ARRAY_SIZE(drawn_rows));
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
		struct top_model model = fixture_model(drawn_rows, ARRAY_SIZE(drawn_rows));
		struct top_screen screen = draw(&model, width, 20);
		const char *foot = screen.line[screen.line_nr - 1].text;

		cr_expect(strstr(foot, "? help") && strstr(foot, "q quit"), "%u: %s", width, foot);
		top_screen_release(&screen);
		top_model_release(&model);
	}
}

Test(top_layout, text_without_end_has_all_rows_uncut)
{
	struct top_model model = fixture_model(drawn_rows, ARRAY_SIZE(drawn_rows));
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
