// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "cpu_limit.h"
#include "engine/leak_report.h"
#include "engine_data.h"
#include "snapshot.h"
#include "top/answer.h"
#include "top/top_series.h"

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
