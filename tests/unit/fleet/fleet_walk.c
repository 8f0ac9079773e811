// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/parallel_scan.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fleet_small.h"

TestSuite(fleet_walk, .init = small_make, .fini = small_remove, .timeout = 600);

/* ---- walks ------------------------------------------------------------------------------------- */

/* The snapshots that one lane was given, in order; NULL ends a unit. */
struct lane {
	const struct fleet_snapshot *snapshot[2 * SNAPSHOTS];
	size_t nr;
};

static struct lane lanes[WALK_LANES];

static int note(void *what, unsigned int lane, const struct fleet_snapshot *snapshot,
		const struct fleet_rows *rows, struct reason *why)
{
	int64_t size = 0, count = 0;

	(void)what, (void)why;
	for (size_t i = 0; i < rows->nr; i++) {
		size += rows->row[i].cost.size;
		count += rows->row[i].cost.count;
	}
	if (rows->nr != snapshot->row_nr || !rows->spread != !(snapshot->is_sampled))
		return -EILSEQ;
	if (!snapshot->is_sampled && (size != snapshot->size || count != snapshot->count))
		return -EILSEQ;
	lanes[lane].snapshot[lanes[lane].nr++] = snapshot;
	return 0;
}

static int note_end(void *what, unsigned int lane, struct reason *why)
{
	(void)what, (void)why;
	lanes[lane].snapshot[lanes[lane].nr++] = NULL;
	return 0;
}

static struct walk everywhere(enum walk_unit unit)
{
	return (struct walk){
		.catalogue = small_catalogue, .cohort = &small_everything,
		.origin_nr = small_facts.origin_nr,
		.unit = unit, .visit = note, .unit_end = note_end,
	};
}

static void walk_all(enum walk_unit unit)
{
	const struct walk walk = everywhere(unit);
	struct reason why = { "" };

	memset(lanes, 0, sizeof(lanes));
	cr_assert_eq(fleet_walk(&walk, &why), 0, "%s", why.text);
}

static uint32_t unit_of(enum walk_unit unit, const struct fleet_snapshot *snapshot)
{
	return unit == WALK_BY_HOST ? snapshot->host_nr : snapshot->process;
}

/* Each snapshot once; of a unit all in one lane, by process and then by time, as the facts are, and then its end. */
static void expect_units(enum walk_unit unit, uint32_t unit_nr, int lanes_in_use)
{
	bool seen[SNAPSHOTS] = {}, has_ended[SNAPSHOTS] = {};
	size_t visited = 0, ended = 0;

	for (int lane = 0; lane < WALK_LANES; lane++) {
		const struct fleet_snapshot *last = NULL;

		lanes_in_use -= lanes[lane].nr > 0;
		for (size_t i = 0; i < lanes[lane].nr; i++) {
			const struct fleet_snapshot *snapshot = lanes[lane].snapshot[i];

			if (!snapshot) {
				cr_assert(last);
				has_ended[unit_of(unit, last)] = true;
				ended++;
			} else {
				cr_expect(!has_ended[unit_of(unit, snapshot)]);
				cr_expect(!last || (unit_of(unit, last) == unit_of(unit, snapshot) &&
						    last < snapshot));
				cr_expect(!seen[snapshot - small_facts.snapshot]);
				seen[snapshot - small_facts.snapshot] = true;
				visited++;
			}
			last = snapshot;
		}
		cr_expect_null(last, "the last unit of a lane ends");
	}
	cr_expect_eq(visited, SNAPSHOTS);
	cr_expect_eq(ended, unit_nr);
	cr_expect_eq(lanes_in_use, 0, "%d", lanes_in_use);
}

Test(fleet_walk, visits_each_process_or_host_as_one_unit)
{
	walk_all(WALK_BY_PROCESS);
	expect_units(WALK_BY_PROCESS, HOSTS * PROCESSES, WALK_LANES);
	walk_all(WALK_BY_HOST);
	expect_units(WALK_BY_HOST, HOSTS, HOSTS);
}

Test(fleet_walk, has_the_same_lanes_on_one_processor)
{
	static struct lane before[WALK_LANES];

	walk_all(WALK_BY_PROCESS);
	memcpy(before, lanes, sizeof(lanes));
	small_use_one_processor();
	walk_all(WALK_BY_PROCESS);
	cr_expect(!memcmp(before, lanes, sizeof(lanes)));
}

Test(fleet_walk, of_an_empty_cohort_succeeds)
{
	const struct cohort none = {};
	struct walk walk = everywhere(WALK_BY_HOST);

	walk.cohort = &none;
	walk.unit_end = NULL;
	cr_expect_eq(fleet_walk(&walk, NULL), 0);
}

/* ---- what goes wrong --------------------------------------------------------------------------- */

/* Every process after the third fails, each with its own line. */
static int fail_late(void *what, unsigned int lane, const struct fleet_snapshot *snapshot,
		     const struct fleet_rows *rows, struct reason *why)
{
	(void)what, (void)lane, (void)rows;
	if (snapshot->process < 3)
		return 0;
	snprintf(why->text, sizeof(why->text), "process %u", snapshot->process);
	return -(int)snapshot->process;
}

Test(fleet_walk, returns_the_first_error_in_order)
{
	struct walk walk = everywhere(WALK_BY_PROCESS);

	walk.visit = fail_late;
	walk.unit_end = NULL;
	for (int i = 0; i < 100; i++) {
		struct reason why = { "" };

		cr_assert_eq(fleet_walk(&walk, &why), -3, "%s", why.text);
		cr_assert_str_eq(why.text, "process 3");
	}
	cr_expect_eq(fleet_walk(&walk, NULL), -3);
}

/* Every lane fails; the delay makes the first or the last lane fail first. */
static int fail_by_lane(void *what, unsigned int lane, const struct fleet_snapshot *snapshot,
			const struct fleet_rows *rows, struct reason *why)
{
	const bool *forward = what;

	(void)snapshot, (void)rows, (void)why;
	usleep(5000 * (*forward ? lane : WALK_LANES - lane));
	return -1 - (int)lane;
}

Test(fleet_walk, returns_the_first_error_in_order_whichever_lane_fails_first)
{
	struct walk walk = everywhere(WALK_BY_PROCESS);

	walk.visit = fail_by_lane;
	walk.what = &(bool){ false };
	cr_expect_eq(fleet_walk(&walk, NULL), -1);
	walk.what = &(bool){ true };
	cr_expect_eq(fleet_walk(&walk, NULL), -1);
}

static int fail_fifth(void *what, unsigned int lane, const struct fleet_snapshot *snapshot,
		      const struct fleet_rows *rows, struct reason *why)
{
	unsigned int *visited = what;

	(void)lane, (void)snapshot, (void)rows, (void)why;
	return ++*visited < 5 ? 0 : -EIO;
}

Test(fleet_walk, stops_at_an_error)
{
	struct walk walk = everywhere(WALK_BY_PROCESS);
	unsigned int visited = 0;

	walk.visit = fail_fifth;
	walk.unit_end = NULL;
	walk.what = &visited;
	small_use_one_processor();
	cr_expect_eq(fleet_walk(&walk, NULL), -EIO);
	cr_expect_eq(visited, 5);
}

static int fail_end(void *what, unsigned int lane, struct reason *why)
{
	(void)what, (void)lane, (void)why;
	return -ENOMEM;
}

Test(fleet_walk, returns_errors_of_unit_ends)
{
	struct walk walk = everywhere(WALK_BY_HOST);
	struct reason why = { "" };

	walk.unit_end = fail_end;
	cr_expect_eq(fleet_walk(&walk, &why), -ENOMEM);
	cr_expect_str_eq(why.text, "out of memory");
}

Test(fleet_walk, refuses_a_missing_snapshot)
{
	struct walk walk = everywhere(WALK_BY_PROCESS);
	struct reason why = { "" };

	small_facts.snapshot[7].snapshot_id++;
	cr_expect_eq(fleet_walk(&walk, &why), -EBADMSG);
	cr_expect(*why.text);
}
