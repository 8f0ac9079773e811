// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

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

struct told_fleet *tell(const struct told *told, size_t nr)
{
	cr_assert_leq(nr, TOLD_SNAPSHOTS);
	memcpy(fleet.told, told, nr * sizeof(*told));
	return finish(nr);
}

uint64_t next_random(uint64_t *state, uint64_t end)
{
	*state = *state * 6364136223846793005 + 1442695040888963407;
	return (*state >> 16) % end;
}

static void tell_random_bytes(struct told *told, uint64_t *state, int64_t most)
{
	for (uint32_t i = 0; i < TOLD_GROUPS; i++)
		told->bytes[i] = next_random(state, TOLD_GROUPS) < i ? -1 : (int64_t)next_random(state, most);
}

struct told_fleet *tell_random(unsigned int seed, unsigned int host_nr, int64_t most)
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

int64_t told_bytes(size_t snapshot, uint32_t group)
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
int fleet_walk_told(const struct walk *walk, struct reason *why)
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
