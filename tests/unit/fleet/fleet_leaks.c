// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "fleet_files.h"

/* The fold with given verdicts instead of files. */
#define process_lines_find process_lines_told
#include "fleet/leaks.c"
#undef process_lines_find

#define GROUPS 4
#define LINES 3
#define NONE { GROUPS, 0, 0, 0 }

struct told_line {
	uint32_t group; /* GROUPS: no line */
	enum leak_kind kind;
	double bytes_per_s;
	uint32_t with; /* 0: it leaks alone; else the least group that it leaks with, + 1 */
};

/* A process; a host of 0 ends them. */
struct told_process {
	uint32_t host;
	enum fleet_unjudged unjudged;
	struct told_line line[LINES];
	double untraced_bytes;
};

static const struct told_process *told;

static struct process_line tell_line(const struct told_line *line, const struct fleet_snapshot *snapshot)
{
	struct process_line ret = {
		.group = line->group, .together = line->with ? line->with - 1 : line->group, .hints = 1u << line->group,
		.verdict = { .snapshot = snapshot, .window.span_ns = 1,
			     .verdict = { .kind = line->kind, .bytes_per_s = line->bytes_per_s, .late = 100, .live = 1 } },
	};

	/* A place is memory that must be freed once. */
	cr_assert(ret.verdict.place.caller = calloc(1, sizeof(*ret.verdict.place.caller)));
	ret.verdict.place.caller_nr = 1;
	ret.verdict.place.all_nr = snapshot->process;
	return ret;
}

int process_lines_told(const struct process_leaks_question *question, const struct line_groups *groups,
		       struct process_lines *ret)
{
	const struct fleet_snapshot *snapshot = question->snapshot[0];
	const struct told_process *process = &told[snapshot->process];

	(void)groups;
	*ret = (struct process_lines){ .unjudged = process->unjudged, .untraced.bytes = process->untraced_bytes };
	if (process->unjudged == FLEET_UNJUDGED_CHANGED)
		reason_set(&ret->why, 0, "process %u", snapshot->process);
	if (process->unjudged > FLEET_UNJUDGED_SNAPSHOTS)
		return 0;
	cr_assert_eq(question->snapshot_nr, 2);
	cr_assert(ret->line = calloc(LINES, sizeof(*ret->line)));
	for (uint32_t i = 0; i < LINES; i++)
		if (process->line[i].group != GROUPS)
			ret->line[ret->line_nr++] = tell_line(&process->line[i], snapshot);
	return 0;
}

static struct fleet_leaks ask_threads(const struct told_process *processes, unsigned int thread_nr)
{
	static struct fleet_snapshot snapshot[2048];
	static const struct fleet_snapshot *chosen[2048];
	static struct statistic key[GROUPS] = { { .key = "a" }, { .key = "b" }, { .key = "c" }, { .key = "d" } };
	struct groups groups = { .key = key, .key_nr = GROUPS };
	struct cohort cohort = { .snapshot = chosen };
	struct engine_options engine = {};
	struct line_groups lines = {};
	const struct fleet_leaks_question question = {
		.cohort = &cohort, .groups = &groups, .lines = &lines, .engine = &engine, .thread_nr = thread_nr,
	};
	struct fleet_leaks leaks;

	told = processes;
	for (; processes[cohort.snapshot_nr / 2].host; cohort.snapshot_nr++) {
		uint32_t process = cohort.snapshot_nr / 2; /* each has two snapshots */

		cr_assert_lt(cohort.snapshot_nr, 2048);
		snapshot[cohort.snapshot_nr] = (struct fleet_snapshot){
			.process = process, .host_nr = processes[process].host - 1, .path = "told.snap",
		};
		chosen[cohort.snapshot_nr] = &snapshot[cohort.snapshot_nr];
	}
	cr_assert_eq(fleet_find_leaks(&question, &leaks), 0);
	return leaks;
}

static struct fleet_leaks ask(const struct told_process *processes)
{
	return ask_threads(processes, 0);
}

static const struct fleet_leak *row_of(const struct fleet_leaks *leaks, uint32_t group)
{
	for (size_t i = 0; i < leaks->row_nr; i++)
		if (leaks->row[i].group == group)
			return &leaks->row[i];
	return NULL;
}

Test(fleet_find_leaks, add_up_the_processes_that_have_the_worst_verdict)
{
	struct fleet_leaks leaks = ask((const struct told_process[]){
		{ 1, FLEET_JUDGED, { { 0, LEAK_LIKELY, 50 }, NONE, NONE } },
		{ 1, FLEET_JUDGED, { { 0, LEAK_SURE, 10 }, NONE, NONE } },
		{ 1, FLEET_JUDGED, { { 0, LEAK_SURE, 30 }, NONE, NONE } },
		{ 2, FLEET_JUDGED, { { 0, LEAK_FREED, 0 }, NONE, NONE } },
		{ 3, FLEET_JUDGED, { { 0, LEAK_SURE, 20 }, NONE, NONE } },
		{ 4, FLEET_JUDGED, { NONE, NONE, NONE } },
		{},
	});
	const struct fleet_leak *row = row_of(&leaks, 0);

	cr_assert_eq(leaks.row_nr, 1);
	cr_expect_eq(row->kind, LEAK_SURE);
	cr_expect_eq(row->processes, 5);
	cr_expect_eq(row->hosts, 3);
	cr_expect_eq(row->kind_processes, 4);
	cr_expect_eq(row->kind_hosts, 2);
	cr_expect_eq(row->bytes_per_s, 110);
	cr_expect_eq(row->sure_bytes_per_s, 60);
	cr_expect_float_eq(row->least_bytes_per_s, leak_lower_bound(110, 400), 1e-9);
	cr_expect_eq(row->most.snapshot->process, 2);
	cr_expect_eq(leaks.kind_nr[LEAK_SURE], 1);
	cr_expect_float_eq(fleet_leaks_limited_rate(&leaks), leak_lower_bound(110, 400), 1e-9);
	fleet_leaks_release(&leaks);
}

Test(fleet_find_leaks, lose_no_traceback_of_a_line)
{
	struct fleet_leaks leaks = ask((const struct told_process[]){
		{ 1, FLEET_JUDGED, { { 0, LEAK_SURE, 12 }, { 0, LEAK_LIKELY, 3900 }, { 0, LEAK_SETTLED, 9 } } },
		{},
	});

	cr_assert_eq(leaks.row_nr, 1);
	cr_expect_eq(leaks.row[0].kind, LEAK_LIKELY);
	cr_expect_eq(leaks.row[0].bytes_per_s, 3912);
	cr_expect_eq(leaks.row[0].sure_bytes_per_s, 12);
	cr_expect_eq(leaks.bundle[0].sure_bytes_per_s, 12);
	fleet_leaks_release(&leaks);
}

Test(fleet_find_leaks, count_a_process_once)
{
	struct fleet_leaks leaks = ask((const struct told_process[]){
		{ 1, FLEET_JUDGED, { { 1, LEAK_SURE, 5 }, { 1, LEAK_SURE, 6 }, { 1, LEAK_LIKELY, 70 } } },
		{ 1, FLEET_JUDGED, { { 1, LEAK_SETTLED, 5 }, { 1, LEAK_FREED, 6 }, NONE } },
		{},
	});
	const struct fleet_leak *row = row_of(&leaks, 1);

	cr_assert_eq(leaks.row_nr, 1);
	cr_expect_eq(row->kind_processes, 1);
	cr_expect_eq(row->processes, 2);
	cr_expect_eq(row->hosts, 1);
	cr_expect_eq(row->bytes_per_s, 81);
	fleet_leaks_release(&leaks);
}

Test(fleet_find_leaks, are_ordered_by_verdict_and_rate)
{
	static const uint32_t order[] = { 3, 2, 0, 1 };
	struct fleet_leaks leaks = ask((const struct told_process[]){
		{ 1, FLEET_JUDGED, { { 0, LEAK_SURE, 5 }, { 1, LEAK_GROWS, 900 }, { 2, LEAK_SURE, 4 } } },
		{ 2, FLEET_JUDGED, { { 2, LEAK_SURE, 4 }, { 3, LEAK_LIKELY, 800 }, NONE } },
		{},
	});

	cr_assert_eq(leaks.row_nr, 4);
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(leaks.row[i].group, order[i], "row %zu is %u", i, leaks.row[i].group);
	fleet_leaks_release(&leaks);
}

/* With gaps and too few snapshots there are rows, and the process counts as not judged. */
Test(fleet_find_leaks, count_processes_that_cannot_be_judged)
{
	struct fleet_leaks leaks = ask((const struct told_process[]){
		{ 1, FLEET_UNJUDGED_GAPS, { { 0, LEAK_SURE, 5 }, NONE, NONE } },
		{ 1, FLEET_UNJUDGED_SNAPSHOTS, { { 0, LEAK_LIKELY, 5 }, NONE, NONE } },
		{ 1, FLEET_UNJUDGED_GONE, { { 0, LEAK_SURE, 5 }, NONE, NONE } },
		{ 1, FLEET_UNJUDGED_DROPPED, { { 0, LEAK_SURE, 5 }, NONE, NONE } },
		{ 1, FLEET_JUDGED, { NONE, NONE, NONE } },
		{},
	});

	cr_expect_eq(leaks.process_nr, 5);
	cr_expect_eq(fleet_leaks_unjudged(&leaks), 4);
	cr_expect_eq(leaks.unjudged_nr[FLEET_UNJUDGED_GAPS], 1);
	cr_expect_eq(leaks.unjudged[FLEET_UNJUDGED_GONE]->process, 2);
	cr_expect_eq(row_of(&leaks, 0)->processes, 2);
	cr_expect_float_eq(fleet_leaks_limited_rate(&leaks), leak_lower_bound(10, 200), 1e-9);
	fleet_leaks_release(&leaks);
}

/* The process that has most of it is kept, and of two with the same the first one. */
Test(fleet_find_leaks, name_a_process_of_the_growth_that_is_untraced)
{
	struct fleet_leaks leaks = ask((const struct told_process[]){
		{ 1, FLEET_UNJUDGED_UNTRACED, { NONE, NONE, NONE }, 3e6 },
		{ 1, FLEET_UNJUDGED_UNTRACED, { NONE, NONE, NONE }, 5e6 },
		{ 2, FLEET_UNJUDGED_UNTRACED, { NONE, NONE, NONE }, 5e6 },
		{ 2, FLEET_JUDGED, { NONE, NONE, NONE }, 9e6 },
		{},
	});

	cr_assert_eq(leaks.untraced_nr, 1);
	cr_expect_eq(leaks.untraced[0].process_nr, 3);
	cr_expect_eq(leaks.untraced[0].growth.bytes, 13e6);
	cr_expect_eq(leaks.untraced[0].most->process, 1);
	fleet_leaks_release(&leaks);
}

/* The answer has the first reason. */
Test(fleet_find_leaks, leave_out_a_process_whose_files_changed)
{
	struct fleet_leaks leaks = ask((const struct told_process[]){
		{ 1, FLEET_JUDGED, { { 1, LEAK_SURE, 3 }, NONE, NONE } },
		{ 1, FLEET_UNJUDGED_CHANGED, { NONE, NONE, NONE } },
		{ 1, FLEET_UNJUDGED_CHANGED, { NONE, NONE, NONE } },
		{},
	});

	cr_assert_eq(leaks.row_nr, 1);
	cr_expect_eq(leaks.row[0].group, 1);
	cr_expect_eq(leaks.row[0].bytes_per_s, 3);
	cr_expect_eq(leaks.unjudged_nr[FLEET_UNJUDGED_CHANGED], 2);
	cr_expect_str_eq(leaks.why.text, "process 1");
	fleet_leaks_release(&leaks);
}

/* A row has the callers of the process that it names, and the hints of all that have its verdict. */
Test(fleet_find_leaks, keep_the_place_of_the_highest_rate)
{
	struct fleet_leaks leaks = ask((const struct told_process[]){
		{ 1, FLEET_JUDGED, { { 0, LEAK_SETTLED, 900 }, NONE, NONE } },
		{ 1, FLEET_JUDGED, { { 0, LEAK_LIKELY, 40 }, NONE, NONE } },
		{ 1, FLEET_JUDGED, { { 0, LEAK_SURE, 30 }, { 0, LEAK_SURE, 1 }, { 0, LEAK_FREED, 1 } } },
		{ 2, FLEET_JUDGED, { { 0, LEAK_SURE, 20 }, NONE, NONE } },
		{},
	});

	cr_assert_eq(leaks.row_nr, 1);
	cr_expect_eq(leaks.row[0].most.snapshot->process, 2);
	cr_expect_eq(leaks.row[0].most.place.all_nr, 2);
	cr_expect_eq(leaks.row[0].hints, 1);
	cr_expect_eq(leaks.row[0].bytes_per_s, 91);
	fleet_leaks_release(&leaks);
}

/* ---- lines that leak together --------------------------------------------------------------- */

#define LEAK_WITH(host, with) \
	{ host, FLEET_JUDGED, { { 1, LEAK_SURE, 40, with }, { 2, LEAK_SURE, 50, with }, { 0, LEAK_SURE, 60, 0 } } }
#define TOGETHER(host) LEAK_WITH(host, 2)
#define APART(host) LEAK_WITH(host, 0)

Test(fleet_find_leaks, bundle_lines_that_leak_together)
{
	struct fleet_leaks leaks = ask((const struct told_process[]){ TOGETHER(1), TOGETHER(2), TOGETHER(3), {} });

	cr_assert_eq(leaks.row_nr, 3);
	cr_assert_eq(leaks.bundle_nr, 2);
	cr_expect_eq(leaks.bundle[0].first, 0);
	cr_expect_eq(leaks.bundle[0].nr, 2);
	cr_expect_eq(leaks.bundle[0].bytes_per_s, 270, "the sum puts them first");
	cr_expect_eq(leaks.row[0].group, 2, "the higher rate is first");
	cr_expect_eq(leaks.row[1].group, 1);
	cr_expect_eq(leaks.bundle[1].nr, 1);
	cr_expect_eq(leaks.row[2].group, 0);
	cr_expect_eq(leaks.kind_nr[LEAK_SURE], 3);
	cr_expect_eq(fleet_leaks_limited_rate(&leaks), 450);
	fleet_leaks_release(&leaks);
}

/* In a tenth of the processes chance may part them; in a half it is no chance. */
Test(fleet_find_leaks, bundle_lines_that_leak_together_nearly_everywhere)
{
	struct fleet_leaks nearly = ask((const struct told_process[]){
		APART(1), TOGETHER(1), TOGETHER(1), TOGETHER(1), TOGETHER(1),
		TOGETHER(2), TOGETHER(2), TOGETHER(2), TOGETHER(2), TOGETHER(2), {} });
	struct fleet_leaks half = ask((const struct told_process[]){
		TOGETHER(1), APART(1), TOGETHER(1), APART(1), TOGETHER(1), APART(2), TOGETHER(2), APART(2), {} });

	cr_expect_eq(nearly.bundle_nr, 2);
	cr_expect_eq(half.bundle_nr, 3);
	fleet_leaks_release(&nearly);
	fleet_leaks_release(&half);
}

/* A line that leaks with another one in a few processes, where that leaks in many, is a leak of its own. */
Test(fleet_find_leaks, bundle_no_lines_of_other_processes)
{
	struct fleet_leaks leaks = ask((const struct told_process[]){
		{ 1, FLEET_JUDGED, { { 1, LEAK_SURE, 40, 2 }, { 2, LEAK_SURE, 50, 2 }, NONE } },
		{ 1, FLEET_JUDGED, { { 1, LEAK_SURE, 40, 0 }, NONE, NONE } },
		{ 2, FLEET_JUDGED, { { 1, LEAK_SURE, 40, 0 }, NONE, NONE } },
		{},
	});

	cr_expect_eq(leaks.bundle_nr, 2);
	fleet_leaks_release(&leaks);
}

/* Only verdicts of the row's kind count, and lines of two kinds are no bundle. */
Test(fleet_find_leaks, bundle_no_lines_of_other_verdicts)
{
	struct fleet_leaks leaks = ask((const struct told_process[]){
		{ 1, FLEET_JUDGED, { { 1, LEAK_LIKELY, 40, 2 }, { 2, LEAK_LIKELY, 50, 2 }, NONE } },
		{ 1, FLEET_JUDGED, { { 1, LEAK_SURE, 40, 0 }, NONE, NONE } },
		{},
	});

	cr_assert_eq(leaks.bundle_nr, 2);
	cr_expect_eq(leaks.row[0].kind, LEAK_SURE);
	cr_expect_eq(leaks.row[1].kind, LEAK_LIKELY);
	fleet_leaks_release(&leaks);
}

/* Only their sum says which part is the larger one, also if most of the first line surely leaks. */
Test(fleet_find_leaks, bundle_has_the_verdict_of_its_larger_part)
{
	struct fleet_leaks likely = ask((const struct told_process[]){
		{ 1, FLEET_JUDGED, { { 1, LEAK_SURE, 9, 2 }, { 2, LEAK_SURE, 1, 2 }, NONE } },
		{ 1, FLEET_JUDGED, { { 1, LEAK_LIKELY, 3, 2 }, { 2, LEAK_LIKELY, 9, 2 }, NONE } },
		{},
	});
	struct fleet_leaks sure = ask((const struct told_process[]){
		{ 1, FLEET_JUDGED, { { 1, LEAK_SURE, 3, 2 }, { 2, LEAK_SURE, 9, 2 }, NONE } },
		{ 1, FLEET_JUDGED, { { 1, LEAK_LIKELY, 10, 2 }, { 2, LEAK_LIKELY, 1, 2 }, NONE } },
		{},
	});

	cr_assert_eq(likely.bundle_nr, 1);
	cr_expect_eq(likely.row[0].kind, LEAK_SURE);
	cr_expect_eq(likely.row[1].kind, LEAK_LIKELY);
	cr_expect_eq(likely.bundle[0].kind, LEAK_LIKELY, "10 of 22 surely");
	cr_assert_eq(sure.bundle_nr, 1);
	cr_expect_eq(sure.row[0].kind, LEAK_LIKELY);
	cr_expect_eq(sure.bundle[0].kind, LEAK_SURE, "12 of 23 surely");
	fleet_leaks_release(&likely);
	fleet_leaks_release(&sure);
}

/* ---- threads -------------------------------------------------------------------------------- */

/* Sums of doubles depend on their order: it must not depend on the threads. */
Test(fleet_find_leaks, are_the_same_with_any_number_of_threads)
{
	static struct told_process many[1001];
	struct fleet_leaks one, other;

	for (unsigned int i = 0; i < 1000; i++)
		many[i] = (struct told_process){ 1 + i / 3, FLEET_JUDGED, {
			{ i % 4, LEAK_SURE + i % 2, 1.0 / (i + 3), 0 }, { (i + 1) % 4, LEAK_SURE, 1e9 / (7 * i + 1), 0 }, NONE } };
	one = ask_threads(many, 1);
	other = ask_threads(many, 8);
	cr_assert_eq(one.row_nr, other.row_nr);
	for (size_t i = 0; i < one.row_nr; i++) {
		cr_expect_eq(one.row[i].group, other.row[i].group);
		cr_expect_eq(one.row[i].bytes_per_s, other.row[i].bytes_per_s);
		cr_expect_eq(one.row[i].least_bytes_per_s, other.row[i].least_bytes_per_s);
		cr_expect_eq(one.row[i].kind_hosts, other.row[i].kind_hosts);
		cr_expect_eq(one.row[i].most.snapshot, other.row[i].most.snapshot);
	}
	fleet_leaks_release(&one);
	fleet_leaks_release(&other);
}

/* ---- fleet endings ---- */

/* Whether processes live, as their snapshots and other processes' snapshots show. */

TestSuite(fleet_endings, .init = fleet_enter, .fini = fleet_leave, .timeout = 600);

static const struct fleet_snapshot *find_at(const struct fleet_facts *facts, int64_t time_ns)
{
	for (size_t i = 0; i < facts->snapshot_nr; i++)
		if (facts->snapshot[i].time_ns == time_ns)
			return &facts->snapshot[i];
	cr_assert_fail("no snapshot of %ld", time_ns);
	return NULL;
}

/* Writes the files, and reads what the catalogue has of them; it must be closed. */
static struct catalogue *facts_of(const struct fleet_file *file, size_t nr, struct fleet_facts *ret)
{
	struct catalogue *catalogue;

	for (size_t i = 0; i < nr; i++)
		fleet_write(&file[i]);
	fleet_index_d();
	catalogue = fleet_open();
	cr_assert_eq(catalogue__facts(catalogue, ret, NULL), 0);
	return catalogue;
}

/* The last snapshot of a process shows how it ended; others show that it went on. */
Test(fleet_endings, reports_how_each_process_ended)
{
	static const struct fleet_file files[] = {
		{ "d/1.snap", "a", "1", "10", .boot_id = "x", .start_ticks = "5", .end = "running" },
		{ "d/2.snap", "a", "1", "20", .boot_id = "x", .start_ticks = "5", .end = "exited 3" },
		{ "d/3.snap", "a", "2", "30", .boot_id = "x", .start_ticks = "5", .exec_count = "1", .end = "running" },
		{ "d/4.snap", "a", "2", "40", .boot_id = "x", .start_ticks = "5", .exec_count = "10", .end = "running" },
		{ "d/5.snap", "a", "2", "50", .boot_id = "x", .start_ticks = "6", .exec_count = "11", .end = "running" },
		{ "d/6.snap", "b", "1", "60", .boot_id = "x", .start_ticks = "5", .end = "running" },
		{ "d/7.snap", "b", "1", "70", .boot_id = "y", .start_ticks = "5", .end = "running" },
		{ "d/8.snap", "b", "3", "80" },
	};
	static const char *const want[] = {
		"exited 3", "exited 3", REPLACED_BY_EXEC, "running", "running", GONE_WITH_BOOT, "running", "",
	};
	struct catalogue *catalogue;
	struct fleet_facts facts;

	catalogue = facts_of(files, ARRAY_SIZE(files), &facts);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		cr_expect_str_eq(find_at(&facts, 10 * i + 10)->ending, want[i], "snapshot %zu", i + 1);
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}

#define SEEN(number, host_, boot, pid_, monotonic, recording, ...) { \
	"d/" number ".snap", host_, pid_, number, .boot_id = boot, .start_ticks = "5", .monotonic_ns = monotonic, \
	.recording_ns = recording, .end = "running", __VA_ARGS__ }

Test(fleet_endings, reports_processes_that_were_not_seen_again)
{
	static const struct fleet_file files[] = {
		/* Two snapshots were due since, and a little less; the third does not say when. */
		SEEN("10", "a", "a", "1", "99", "5", .interval_ns = "50", .trigger = "interval"),
		SEEN("20", "a", "a", "2", "100", "5", .interval_ns = "50", .trigger = "interval"),
		SEEN("30", "a", "a", "3", "10", "5", .trigger = "interval"),
		SEEN("40", "a", "a", "4", "200", "5", .interval_ns = "50", .trigger = "growth"),
		/* The first recording had stopped before the second began. */
		SEEN("50", "b", "b", "1", "100", "5", .interval_ns = "1000", .trigger = "duration"),
		SEEN("60", "b", "b", "2", "150", "101", .interval_ns = "1000", .trigger = "last"),
		SEEN("70", "b", "b", "3", "101", "5", .interval_ns = "1000", .trigger = "last"),
		/* A recorder began anew: it has saved only what ended since. */
		SEEN("80", "c", "c", "1", "100", "5", .interval_ns = "1000", .trigger = "last"),
		SEEN("90", "c", "c", "2", "150", "101", .interval_ns = "1000", .trigger = "end"),
		/* A recorder was killed: nothing says that it had stopped. */
		SEEN("100", "d", "d", "1", "100", "5", .interval_ns = "1000", .trigger = "interval"),
		SEEN("110", "d", "d", "2", "150", "101", .interval_ns = "1000", .trigger = "interval"),
		/* Nothing is known of the boot, or of its clock. */
		SEEN("120", "e", NULL, "1", "10", "5", .interval_ns = "1", .trigger = "interval"),
		SEEN("130", "e", NULL, "2", "100", "5", .interval_ns = "1", .trigger = "interval"),
		SEEN("140", "d", "d", "3", NULL, "5", .interval_ns = "1", .trigger = "interval"),
		/* A snapshot's own word counts more. */
		SEEN("150", "d", "d", "4", "10", "5", .interval_ns = "1", .trigger = "end"),
	};
	struct catalogue *catalogue;
	struct fleet_facts facts;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct fleet_file file = files[i];

		if (i + 1 == ARRAY_SIZE(files))
			file.end = "exited 0";
		fleet_write(&file);
	}
	fleet_index_d();
	catalogue = fleet_open();
	cr_assert_eq(catalogue__facts(catalogue, &facts, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		const struct fleet_snapshot *s = find_at(&facts, 10 * i + 10);

		cr_expect_str_eq(s->ending, i == 0 || i == 4 ? NOT_SEEN_AGAIN : i == 14 ? "exited 0" : "running", "snapshot %zu",
				 10 * i + 10);
	}
	cr_expect_eq(find_at(&facts, 10)->behind_ns, 101);
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}

/* Between boots, and without a boot or its clock, only the wall clock says how old it is. */
Test(fleet_endings, reports_how_much_older_a_process_is_than_its_host)
{
	static const struct fleet_file files[] = {
		SEEN("1000", "a", "x", "1", "700", "5", .trigger = "interval"), /* gone with its boot, as the newest of it */
		SEEN("1010", "a", "x", "2", "600", "5", .trigger = "end"),	/* exited before that, and its boot is gone */
		SEEN("2000", "a", "y", "3", "50", "5", .trigger = "end"),
		SEEN("2100", "a", "y", "4", "250", "5", .trigger = "interval"), /* the wall clock was set back by 100 meanwhile */
		SEEN("2040", "a", "y", "5", NULL, "5", .trigger = "interval"),
		SEEN("1500", "a", NULL, "6", "10", "5", .trigger = "interval"),
		SEEN("3000", "b", "z", "7", "10", "5", .trigger = "interval"),
	};
	static const int64_t want[] = { 1100, 1090, 200, 0, 60, 600, 0 };
	struct catalogue *catalogue;
	struct fleet_facts facts;

	catalogue = facts_of(files, ARRAY_SIZE(files), &facts);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		cr_expect_eq(find_at(&facts, atoi(files[i].wall_ns))->behind_ns, want[i], "%s", files[i].path);
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}

/* One machine's boots follow each other. Two boots that overlap are two machines of one name: no process is gone. */
Test(fleet_endings, boots_that_overlap_are_of_two_machines)
{
	static const struct fleet_file files[] = {
		{ "d/1.snap", "a", "1", "10", .boot_id = "x", .start_ticks = "5", .end = "running" },
		{ "d/2.snap", "a", "1", "20", .boot_id = "y", .start_ticks = "5", .end = "running" },
		{ "d/3.snap", "a", "1", "30", .boot_id = "x", .start_ticks = "5", .end = "running" },
		{ "d/4.snap", "a", "2", "40", .boot_id = "y", .start_ticks = "5", .end = "running" },
		{ "d/5.snap", "a", "2", "50", .boot_id = "z", .start_ticks = "5", .end = "running" },
		{ "d/6.snap", "b", "2", "15", .boot_id = "w", .start_ticks = "5", .end = "running" },
	};
	struct catalogue *catalogue;
	struct fleet_facts facts;

	catalogue = facts_of(files, ARRAY_SIZE(files), &facts);
	for (size_t i = 0; i < facts.snapshot_nr; i++) {
		const struct fleet_snapshot *s = &facts.snapshot[i];
		bool is_old = *s->host == 'a' && *s->boot_id != 'z';

		cr_expect_str_eq(s->ending, is_old ? GONE_WITH_BOOT : "running", "%ld", s->time_ns);
		cr_expect_eq(s->has_twin, is_old, "%ld", s->time_ns);
	}
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
	cr_assert_eq(unlink("d/5.snap"), 0);
	fleet_sql("DELETE FROM snapshot WHERE time_ns = 50");
	catalogue = fleet_open();
	cr_assert_eq(catalogue__facts(catalogue, &facts, NULL), 0);
	for (size_t i = 0; i < facts.snapshot_nr; i++)
		cr_expect_str_eq(facts.snapshot[i].ending, "running");
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}
