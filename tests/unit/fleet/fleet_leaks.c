// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>

/* The fold with told verdicts instead of files: line n of a process is group n. */
#define process_leaks_find process_leaks_told
#define process_leaks_release process_leaks_forget
#define digest_begin digest_begin_told
#define digest_traceback_id digest_traceback_id_told
#include "fleet/leaks.c"

#define GROUPS 4
#define LINES 3
#define NONE { GROUPS, 0, 0 }

struct told_line {
	uint32_t group; /* GROUPS: no line; more: one that the catalogue does not have */
	enum leak_kind kind;
	double bytes_per_s;
};

/* A process; a host of 0 ends them. */
struct told_process {
	uint32_t host;
	enum fleet_unjudged unjudged;
	struct told_line line[LINES];
};

static const struct told_process *told;
static struct leak_caller told_caller[LINES];
static struct leak_line told_line[LINES];
static struct leaks told_leaks;

int process_leaks_told(const struct process_leaks_question *question, struct process_leaks *ret)
{
	const struct told_process *process = &told[question->snapshot[0]->process];

	*ret = (struct process_leaks){ .unjudged = process->unjudged };
	if (process->unjudged > FLEET_UNJUDGED_SNAPSHOTS)
		return 0;
	told_leaks = (struct leaks){ .line = told_line, .caller = told_caller, .window.span_ns = 1 };
	for (uint32_t i = 0; i < LINES; i++) {
		const struct told_line *line = &process->line[i];

		if (line->group == GROUPS)
			continue;
		told_caller[told_leaks.line_nr].traceback = line->group;
		told_line[told_leaks.line_nr] = (struct leak_line){
			.verdict = { .kind = line->kind, .bytes_per_s = line->bytes_per_s, .late = 100, .live = 1 },
			.first = told_leaks.line_nr, .caller_nr = 1, .site_nr = 1,
		};
		told_leaks.line_nr++;
	}
	ret->leaks = &told_leaks;
	return 0;
}

void process_leaks_forget(struct process_leaks *process)
{
	process->leaks = NULL;
}

int digest_begin_told(struct digest *digest, const struct snapshot *snapshot)
{
	(void)digest, (void)snapshot;
	return 0;
}

int digest_traceback_id_told(struct digest *digest, uint32_t traceback, struct hash_id *ret)
{
	(void)digest;
	*ret = (struct hash_id){ .id = traceback + 1 };
	return 0;
}

static struct fleet_leaks ask(const struct told_process *processes)
{
	static struct fleet_snapshot snapshot[64];
	static const struct fleet_snapshot *chosen[64];
	static struct statistic key[GROUPS] = { { .key = "a" }, { .key = "b" }, { .key = "c" }, { .key = "d" } };
	struct groups groups = { .key = key, .key_nr = GROUPS };
	struct cohort cohort = { .snapshot = chosen };
	struct engine_options engine = {};
	struct line_groups lines = {};
	const struct fleet_leaks_question question = { &cohort, &groups, &lines, &engine, 0 };
	struct fleet_leaks leaks;

	told = processes;
	for (; processes[cohort.snapshot_nr / 2].host; cohort.snapshot_nr++) {
		uint32_t process = cohort.snapshot_nr / 2; /* each has two snapshots */

		snapshot[cohort.snapshot_nr] = (struct fleet_snapshot){
			.process = process, .host_nr = processes[process].host - 1, .path = "told.snap",
		};
		chosen[cohort.snapshot_nr] = &snapshot[cohort.snapshot_nr];
	}
	for (uint32_t i = 0; i < GROUPS; i++)
		cr_assert_eq(known_add(&lines.group, &(struct known_row){ .hash.id = i + 1, .number = i }), 0);
	cr_assert_eq(fleet_find_leaks(&question, &leaks), 0);
	line_groups_release(&lines);
	return leaks;
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
		{ 1, FLEET_JUDGED, { { 0, LEAK_LIKELY, 900 }, NONE, NONE } },
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
	cr_expect_eq(row->kind_processes, 3);
	cr_expect_eq(row->kind_hosts, 2);
	cr_expect_eq(row->bytes_per_s, 60);
	cr_expect_float_eq(row->least_bytes_per_s, leak_lower_bound(60, 300), 1e-9);
	cr_expect_eq(row->most.snapshot->process, 2);
	cr_expect_eq(leaks.kind_nr[LEAK_SURE], 1);
	cr_expect_eq(fleet_leaks_sure_rate(&leaks), 60);
	fleet_leaks_release(&leaks);
}

Test(fleet_find_leaks, count_a_process_once)
{
	struct fleet_leaks leaks = ask((const struct told_process[]){
		{ 1, FLEET_JUDGED, { { 1, LEAK_SURE, 5 }, { 1, LEAK_SURE, 6 }, { 1, LEAK_LIKELY, 70 } } },
		{ 1, FLEET_JUDGED, { { 1, LEAK_SETTLED, 5 }, { 1, LEAK_LIKELY, 6 }, NONE } },
		{},
	});
	const struct fleet_leak *row = row_of(&leaks, 1);

	cr_assert_eq(leaks.row_nr, 1);
	cr_expect_eq(row->kind_processes, 1);
	cr_expect_eq(row->processes, 2);
	cr_expect_eq(row->hosts, 1);
	cr_expect_eq(row->bytes_per_s, 11);
	fleet_leaks_release(&leaks);
}

Test(fleet_find_leaks, are_ordered_by_verdict_and_rate)
{
	static const uint32_t order[] = { 2, 0, 3, 1 };
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
	cr_expect_eq(row_of(&leaks, 0)->processes, 2);
	cr_expect_eq(fleet_leaks_sure_rate(&leaks), 5);
	fleet_leaks_release(&leaks);
}

/* Nothing of a process counts if one of its lines is not what was indexed. */
Test(fleet_find_leaks, leave_out_a_process_whose_files_changed)
{
	struct fleet_leaks leaks = ask((const struct told_process[]){
		{ 1, FLEET_JUDGED, { { 0, LEAK_SURE, 5 }, { GROUPS + 1, LEAK_SURE, 5 }, { 1, LEAK_SURE, 7 } } },
		{ 1, FLEET_JUDGED, { { 1, LEAK_SURE, 3 }, NONE, NONE } },
		{},
	});

	cr_assert_eq(leaks.row_nr, 1);
	cr_expect_eq(leaks.row[0].group, 1);
	cr_expect_eq(leaks.row[0].bytes_per_s, 3);
	cr_expect_eq(leaks.unjudged_nr[FLEET_UNJUDGED_CHANGED], 1);
	cr_expect(strstr(leaks.why.text, "told.snap"), "%s", leaks.why.text);
	fleet_leaks_release(&leaks);
}
