// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "fleet/parallel_scan.h"
#include "fleet/per_host.h"

/*
 * A fleet that a test describes in a table instead of files: snapshots of hosts and processes with the bytes of each
 * group. Tests of the folds over fleet_walk() are built with fleet_walk_told() instead of it.
 */

#define TOLD_GROUPS 12
#define TOLD_SNAPSHOTS 2048

/* One snapshot; bytes by group, -1: it does not have the group. A host of 0 ends a table, so the first host is 1. */
struct told {
	uint32_t host, process;
	int64_t time_ns;
	int64_t bytes[TOLD_GROUPS];
	int64_t recording_ns; /* of one process in their order */
	bool has_gap_blocks;
};

struct told_fleet {
	struct told told[TOLD_SNAPSHOTS]; /* by process, and then by time */
	struct fleet_snapshot snapshot[TOLD_SNAPSHOTS];
	const struct fleet_snapshot *chosen[TOLD_SNAPSHOTS];
	char host[TOLD_SNAPSHOTS][16];
	struct fleet_facts facts;
	struct cohort cohort;
	struct fleet_question question;
};

/*
 * An origin for each group, and two more: TOLD_GROUPS has the same again for group 1, from another traceback; the
 * last one is filtered out.
 */
#define ORIGINS (TOLD_GROUPS + 2)

static struct told_fleet fleet;

static const struct groups *groups(void)
{
	static uint32_t first[ORIGINS + 1], group[ORIGINS];
	static struct statistic key[TOLD_GROUPS];
	static char name[TOLD_GROUPS][2];
	static const struct groups all = { first, group, key, TOLD_GROUPS };

	for (uint32_t i = 0; i <= ORIGINS; i++)
		first[i] = i < ORIGINS ? i : ORIGINS - 1;
	for (uint32_t i = 0; i < TOLD_GROUPS; i++) {
		group[i] = i;
		name[i][0] = 'a' + i;
		key[i].key = name[i];
	}
	group[TOLD_GROUPS] = 1;
	return &all;
}

/* ---- telling -------------------------------------------------------------------------------- */

static void tell_one(size_t at)
{
	const struct told *told = &fleet.told[at];
	bool is_new = !at || told->process != told[-1].process;
	bool is_anew = is_new || told->recording_ns != told[-1].recording_ns;

	snprintf(fleet.host[at], sizeof(fleet.host[at]), "h%03u", told->host);
	fleet.snapshot[at] = (struct fleet_snapshot){
		.snapshot_id = at,
		.process = fleet.facts.process_nr - !is_new,
		.recording = fleet.facts.recording_nr - !is_anew,
		.gap_blocks.count = told->has_gap_blocks,
		.host_nr = told->host - 1,
		.host = fleet.host[at],
		.path = "told.snap",
		.clock_ns = told->time_ns,
	};
	fleet.facts.process_nr += is_new;
	fleet.facts.recording_nr += is_anew;
	if (told->host > fleet.facts.host_nr)
		fleet.facts.host_nr = told->host;
	fleet.chosen[at] = &fleet.snapshot[at];
}

static struct told_fleet *finish(size_t nr)
{
	fleet.facts = (struct fleet_facts){
		.snapshot = fleet.snapshot, .snapshot_nr = nr, .origin_nr = ORIGINS,
	};
	for (size_t i = 0; i < nr; i++)
		tell_one(i);
	fleet.cohort = (struct cohort){
		.snapshot = fleet.chosen, .snapshot_nr = nr,
		.process_nr = fleet.facts.process_nr, .host_nr = fleet.facts.host_nr,
	};
	fleet.question = (struct fleet_question){
		.facts = &fleet.facts, .cohort = &fleet.cohort, .groups = groups(),
	};
	return &fleet;
}

/* All of it, of a table: groups are called "a", "b"… The same memory again and again. */
static struct told_fleet *tell(const struct told *told, size_t nr)
{
	cr_assert_leq(nr, TOLD_SNAPSHOTS);
	memcpy(fleet.told, told, nr * sizeof(*told));
	return finish(nr);
}

/* A whole number below `end`, the next of the seed's. */
static uint64_t next_random(uint64_t *state, uint64_t end)
{
	*state = *state * 6364136223846793005 + 1442695040888963407;
	return (*state >> 16) % end;
}

static void tell_random_bytes(struct told *told, uint64_t *state, int64_t most)
{
	for (uint32_t i = 0; i < TOLD_GROUPS; i++)
		told->bytes[i] = next_random(state, TOLD_GROUPS) < i ? -1 : (int64_t)next_random(state, most);
}

/* The same numbers for the same seed: hosts with processes that come and go, and groups that few have. */
static struct told_fleet *tell_random(unsigned int seed, unsigned int host_nr, int64_t most)
{
	uint64_t state = seed;
	uint32_t process = 0;
	size_t nr = 0;

	for (uint32_t host = 1; host <= host_nr; host++) {
		for (uint64_t left = 1 + next_random(&state, 4); left; left--) {
			int64_t time_ns = 1795237200123456789 + next_random(&state, 1000000000000);

			process++;
			for (uint64_t times = 1 + next_random(&state, 5); times; times--) {
				struct told *told = &fleet.told[nr++];

				cr_assert_leq(nr, TOLD_SNAPSHOTS);
				*told = (struct told){ host, process, time_ns };
				tell_random_bytes(told, &state, most);
				time_ns += next_random(&state, 3600000000000);
			}
		}
	}
	return finish(nr);
}

/* Bytes of a group at a snapshot of the last fleet; 0 if the group is not there. */
static int64_t told_bytes(size_t snapshot, uint32_t group)
{
	int64_t bytes = fleet.told[snapshot].bytes[group];

	return bytes < 0 ? 0 : bytes;
}

/* ---- walking -------------------------------------------------------------------------------- */

/* Group 1 has a third of its bytes from the other traceback; every other snapshot was sampled, with half its bytes. */
static void tell_rows(const struct told *told, bool is_sampled, struct fleet_rows *rows)
{
	rows->nr = 0;
	for (uint32_t i = 0; i < ORIGINS; i++) {
		uint32_t group = i < TOLD_GROUPS ? i : 1;
		int64_t bytes = i == ORIGINS - 1 ? 12345 : told->bytes[group];
		int64_t part = group == 1 ? bytes / 3 : bytes;

		if (bytes < 0)
			continue;
		if (i == 1)
			part = bytes - bytes / 3;
		if (rows->spread)
			rows->spread[rows->nr] = (struct spread){ .size.beyond = is_sampled ? part - part / 2 : 0 };
		rows->row[rows->nr++] = (struct fleet_row){ i, { is_sampled ? part / 2 : part, 1 } };
	}
}

static int visit(const struct walk *walk, unsigned int lane, const struct fleet_snapshot *snapshot,
		 struct reason *why)
{
	bool is_sampled = snapshot->snapshot_id % 2;
	struct fleet_row row[ORIGINS];
	struct spread spread[ORIGINS];
	struct fleet_rows rows = { .row = row, .spread = is_sampled ? spread : NULL };

	tell_rows(&fleet.told[snapshot->snapshot_id], is_sampled, &rows);
	return walk->visit(walk->what, lane, snapshot, &rows, why);
}

/* Host by host, which is also process by process. */
static int fleet_walk_told(const struct walk *walk, struct reason *why)
{
	const struct cohort *cohort = walk->cohort;
	int err = 0;

	for (size_t i = 0; i < cohort->snapshot_nr && !err; i++) {
		const struct fleet_snapshot *at = cohort->snapshot[i];
		const struct fleet_snapshot *next = i + 1 < cohort->snapshot_nr ? cohort->snapshot[i + 1] : NULL;
		uint32_t unit = walk->unit == WALK_BY_HOST ? at->host_nr : at->process;
		uint32_t next_unit = !next ? UINT32_MAX : walk->unit == WALK_BY_HOST ? next->host_nr : next->process;

		err = visit(walk, unit % WALK_LANES, at, why);
		if (!err && unit != next_unit && walk->unit_end)
			err = walk->unit_end(walk->what, unit % WALK_LANES, why);
	}
	return err;
}

#define fleet_walk fleet_walk_told
#include "fleet/hosts.c"

/* ---- the tests ---- */

#define HOSTS 61

static struct host_rows ask(const struct told_fleet *fleet)
{
	struct reason why = { "" };
	struct host_rows rows = {};

	cr_assert_eq(fleet_compare_hosts(&fleet->question, &rows, &why), 0, "%s", why.text);
	return rows;
}

static int ascending(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return (a > b) - (a < b);
}

/* Bytes of a group per host, summed over the latest snapshot of each process; -1: no process has the group. */
static void sum_by_host(const struct told_fleet *fleet, uint32_t group, int64_t bytes[HOSTS])
{
	memset(bytes, 0xff, HOSTS * sizeof(*bytes));
	for (size_t i = 0; i < fleet->facts.snapshot_nr; i++) {
		int64_t *host = &bytes[fleet->snapshot[i].host_nr];

		if (i + 1 < fleet->facts.snapshot_nr && fleet->snapshot[i + 1].process == fleet->snapshot[i].process)
			continue;
		if (fleet->told[i].bytes[group] >= 0)
			*host = (*host < 0 ? 0 : *host) + told_bytes(i, group);
	}
}

/*
 * Fills in the first host with the most bytes, how many hosts have the group, and their sum. A host without it gets 0.
 */
static void add_up(struct host_row *row, int64_t *bytes, size_t nr)
{
	row->max = -1;
	for (size_t i = 0; i < nr; i++) {
		row->hosts += bytes[i] >= 0;
		if (bytes[i] > row->max) {
			row->max = bytes[i];
			row->max_host = i;
		}
		if (bytes[i] < 0)
			bytes[i] = 0;
		row->sum += bytes[i];
	}
}

/* By the letter of fleet/spread.h, with a place for each host. */
static struct host_row row_of(const struct told_fleet *fleet, uint32_t group)
{
	int64_t bytes[HOSTS], sorted[HOSTS], distance[HOSTS];
	struct host_row row = { .group = group };
	size_t nr = fleet->facts.host_nr;
	double unit;

	sum_by_host(fleet, group, bytes);
	add_up(&row, bytes, nr);
	memcpy(sorted, bytes, sizeof(sorted));
	qsort(sorted, nr, sizeof(*sorted), ascending);
	row.median = sorted[(nr + 1) / 2 - 1];
	row.p95 = sorted[(95 * nr + 99) / 100 - 1];
	for (size_t i = 0; i < nr; i++)
		distance[i] = llabs(bytes[i] - row.median);
	qsort(distance, nr, sizeof(*distance), ascending);
	row.mad = distance[(nr + 1) / 2 - 1];
	unit = fmax(row.mad, fmax(4096, row.median / 100.0));
	for (size_t i = 0; i < nr; i++)
		row.outliers += bytes[i] - row.median > 3.5 / 0.6745 * unit;
	row.score = (row.max - row.median) * 0.6745 / unit;
	return row;
}

static void expect_row(const struct host_row *got, const struct host_row *want)
{
	cr_expect_eq(got->median, want->median, "%u: median", want->group);
	cr_expect_eq(got->p95, want->p95, "%u: p95", want->group);
	cr_expect_eq(got->max, want->max, "%u: max", want->group);
	cr_expect_eq(got->mad, want->mad, "%u: mad %jd, not %jd", want->group, (intmax_t)got->mad,
		     (intmax_t)want->mad);
	cr_expect_eq(got->sum, want->sum, "%u: sum", want->group);
	cr_expect_eq(got->max_host, want->max_host, "%u: host", want->group);
	cr_expect_eq(got->hosts, want->hosts, "%u: hosts", want->group);
	cr_expect_eq(got->outliers, want->outliers, "%u: outliers", want->group);
	cr_expect_eq(got->score, want->score, "%u: score", want->group);
}

static void expect_all(const struct told_fleet *fleet)
{
	struct host_rows rows = ask(fleet);
	bool is_there[TOLD_GROUPS] = {};

	for (size_t i = 0; i < rows.row_nr; i++) {
		struct host_row want = row_of(fleet, rows.row[i].group);

		expect_row(&rows.row[i], &want);
		is_there[rows.row[i].group] = true;
		if (i)
			cr_expect(!rows.row[i].outliers || rows.row[i - 1].outliers, "outliers come first");
	}
	for (uint32_t i = 0; i < TOLD_GROUPS; i++)
		cr_expect_eq(is_there[i], row_of(fleet, i).hosts != 0, "group %u", i);
	host_rows_release(&rows);
}

/* The numbers are large, partly below the floor, or often equal. */
Test(fleet_compare_hosts, ranks_match_a_table_with_every_host)
{
	for (unsigned int nr = 1; nr <= HOSTS; nr++) {
		expect_all(tell_random(nr, nr, 1000000007));
		expect_all(tell_random(nr, nr, 50000));
		expect_all(tell_random(nr, nr, 3));
	}
}

#define NONE -1, -1, -1, -1, -1, -1, -1, -1, -1, -1

/* 60 hosts with what all have, that varies; the last one leaks it, and another group is larger everywhere. */
Test(fleet_compare_hosts, host_that_leaks_is_an_outlier)
{
	struct told told[HOSTS];
	struct host_rows rows;

	for (uint32_t i = 0; i < HOSTS; i++)
		told[i] = (struct told){ i + 1, i, 0, { 1000000 + 100 * (i % 7), 900000000 + 1000000 * (i % 9), NONE } };
	told[41].bytes[0] = 3000000;
	rows = ask(tell(told, HOSTS));
	cr_assert_eq(rows.row_nr, 2);
	cr_expect(rows.row[0].group == 0 && rows.row[0].outliers == 1 && rows.row[0].max_host == 41);
	cr_expect(rows.row[0].score > 100);
	cr_expect(rows.row[1].group == 1 && rows.row[1].outliers == 0);
	host_rows_release(&rows);
}

/* A difference of one page makes no outlier, however few the hosts are. */
Test(fleet_compare_hosts, almost_equal_hosts_have_no_outlier)
{
	struct told told[HOSTS];
	struct host_rows rows;

	for (uint32_t i = 0; i < HOSTS; i++)
		told[i] = (struct told){ i + 1, i, 0, { 8192, -1, NONE } };
	told[3].bytes[0] += 4096;
	rows = ask(tell(told, HOSTS));
	cr_expect(rows.row_nr == 1 && rows.row[0].mad == 0 && rows.row[0].outliers == 0);
	host_rows_release(&rows);
}

/* The hosts' numbers say nothing: "b" may be the first that was indexed. */
Test(fleet_compare_hosts, first_host_by_name_is_the_largest_of_equal_hosts)
{
	const struct told told[] = {
		{ 1, 1, 0, { 5000, -1, NONE } }, { 2, 2, 0, { 7000, -1, NONE } }, { 3, 3, 0, { 7000, -1, NONE } },
	};
	struct told_fleet *fleet = tell(told, ARRAY_SIZE(told));
	struct host_rows rows;

	fleet->snapshot[1].host = "b";
	fleet->snapshot[2].host = "a";
	rows = ask(fleet);
	cr_expect(rows.row_nr == 1 && rows.row[0].max_host == 2);
	host_rows_release(&rows);
}

Test(fleet_compare_hosts, group_that_no_host_has_is_no_row)
{
	const struct told told[] = { { 1, 1, 0, { 0, -1, NONE } } };
	struct host_rows rows = ask(tell(told, 1));

	cr_expect(rows.row_nr == 1 && rows.row[0].group == 0 && rows.row[0].hosts == 1 && !rows.row[0].max);
	host_rows_release(&rows);
}

Test(fleet_compare_hosts, sums_beyond_63_bits_are_an_error)
{
	const struct told told[] = {
		{ 1, 1, 0, { INT64_MAX, -1, NONE } }, { 2, 2, 0, { 1, -1, NONE } },
		{ 2, 3, 0, { INT64_MAX, -1, NONE } }, { 2, 4, 0, { 1, -1, NONE } },
	};
	struct host_rows rows = {};
	struct reason why;

	/* of several hosts, and of one */
	cr_expect_eq(fleet_compare_hosts(&tell(told, 2)->question, &rows, &why), -ERANGE);
	cr_expect_eq(fleet_compare_hosts(&tell(told + 2, 2)->question, &rows, &why), -ERANGE);
	cr_expect_null(rows.row);
}
