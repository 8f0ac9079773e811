// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/caveats_fleet.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/row_top.h"
#include "render.h"
#include "render/cohorts.h"

/* Returns 1 with a line in *ret, 0 if there is nothing to report, or -ENOMEM. */
typedef int (*check_fn)(const struct fleet_doubt *doubt, struct reason *ret);

#define warn(ret, ...) (reason_set(ret, 1, __VA_ARGS__))

static const struct fleet_snapshot *const *begin_of(const struct fleet_doubt *doubt, size_t side)
{
	return (const struct fleet_snapshot *const *)doubt->cohort[side]->snapshot;
}

static size_t snapshots_of(const struct fleet_doubt *doubt)
{
	return doubt->cohort[0]->snapshot_nr + (doubt->cohort_nr > 1 ? doubt->cohort[1]->snapshot_nr : 0);
}

/* Counts the snapshots of all cohorts for which is_so() is true. */
static size_t count_snapshots(const struct fleet_doubt *doubt, bool (*is_so)(const struct fleet_snapshot *snapshot))
{
	size_t nr = 0;

	for (size_t side = 0; side < doubt->cohort_nr; side++)
		for (size_t i = 0; i < doubt->cohort[side]->snapshot_nr; i++)
			nr += is_so(begin_of(doubt, side)[i]);
	return nr;
}

/* ---- snapshots and processes in both cohorts ---------------------------------------------------- */

static int check_shared_snapshots(const struct fleet_doubt *doubt, struct reason *ret)
{
	const struct fleet_facts *facts = doubt->facts;
	uint8_t *is_old;
	size_t nr = 0;

	if (doubt->cohort_nr < 2)
		return 0;
	is_old = calloc(facts->snapshot_nr + 1, 1);
	if (!is_old)
		return -ENOMEM;
	for (size_t i = 0; i < doubt->cohort[0]->snapshot_nr; i++)
		is_old[begin_of(doubt, 0)[i] - facts->snapshot] = 1;
	for (size_t i = 0; i < doubt->cohort[1]->snapshot_nr; i++)
		nr += is_old[begin_of(doubt, 1)[i] - facts->snapshot];
	free(is_old);
	return nr ? warn(ret, "%zu snapshot%s in both cohorts, and no difference between them", nr,
			 nr == 1 ? " is" : "s are") : 0;
}

/* If all processes are in both cohorts, one fleet is compared at two times. If some are, the comparison is mixed. */
static int check_shared_processes(const struct fleet_doubt *doubt, struct reason *ret)
{
	uint8_t *is_in;
	uint32_t both = 0, either = 0;

	if (doubt->cohort_nr < 2)
		return 0;
	is_in = calloc(doubt->facts->process_nr + 1ull, 1);
	if (!is_in)
		return -ENOMEM;
	for (size_t side = 0; side < 2; side++)
		for (size_t i = 0; i < doubt->cohort[side]->snapshot_nr; i++)
			is_in[begin_of(doubt, side)[i]->process] |= 1 << side;
	for (uint32_t i = 0; i < doubt->facts->process_nr; i++) {
		both += is_in[i] == 3;
		either += is_in[i] != 0;
	}
	free(is_in);
	return both && both < either ?
		warn(ret, "%" PRIu32 " of %" PRIu32 " processes are in both cohorts: some of the difference is of "
		     "processes, some of time", both, either) : 0;
}

/* A second recording of a process has no blocks from before its own start. */
static int check_recorded_anew(const struct fleet_doubt *doubt, struct reason *ret)
{
	const struct fleet_snapshot **first = calloc(doubt->facts->process_nr + 1ull, sizeof(*first));
	uint8_t *is_counted = calloc(doubt->facts->process_nr + 1ull, 1);
	bool has_room = first && is_counted;
	uint32_t nr = 0;

	for (size_t side = 0; side < doubt->cohort_nr && has_room; side++) {
		for (size_t i = 0; i < doubt->cohort[side]->snapshot_nr; i++) {
			const struct fleet_snapshot *snapshot = begin_of(doubt, side)[i];
			uint32_t process = snapshot->process;

			if (!first[process])
				first[process] = snapshot;
			if (is_counted[process] || first[process]->recording == snapshot->recording)
				continue;
			is_counted[process] = 1;
			nr++;
		}
	}
	free(is_counted);
	free(first);
	if (!has_room)
		return -ENOMEM;
	return nr ? warn(ret, "%" PRIu32 " process%s recorded anew in between: what was allocated before is not in the "
			 "later snapshots", nr, nr == 1 ? " was" : "es were") : 0;
}

/* ---- processes that have exited ---------------------------------------------------------------------- */

/* "4.0 s to 18 s" */
#define AGES_TEXT_MAX (2 * AGE_TEXT_MAX + 4)
static const char *ages_text(char text[AGES_TEXT_MAX], const struct cohort_ended *ended)
{
	char least[AGE_TEXT_MAX], most[AGE_TEXT_MAX];
	bool is_one = !strcmp(age_text(least, ended->least_behind_ns), age_text(most, ended->most_behind_ns));

	snprintf(text, AGES_TEXT_MAX, "%s%s%s", least, is_one ? "" : " to ", is_one ? "" : most);
	return text;
}

/* "3 of 5 processes had ended (30.0 MiB, last seen 4.0 s to 18 s before the newest snapshot of their hosts)" */
static void write_left_out(struct reason *ret, const struct cohort_ended *ended, const char *words, const char *before)
{
	char size[SIZE_TEXT_MAX], ages[AGES_TEXT_MAX];

	reason_set(ret, 0, "%" PRIu32 "%s (%s, last seen %s before %s)", ended->process_nr, words,
		   size_text(size, ended->bytes, false), ages_text(ages, ended), before);
}

int cohort_left_out(const struct cohort *cohort, struct reason *ret)
{
	const struct cohort_ended *ended = &cohort->ended, *unseen = &cohort->unseen;
	uint32_t nr = ended->process_nr + unseen->process_nr, all = cohort->process_nr + nr;
	const char *newest = (ended->process_nr ?: nr) == 1 ? "the newest snapshot of its host" : "the newest snapshot of their hosts";
	const char *unseen_words = unseen->process_nr == 1 ? "was not seen again" : "were not seen again";
	struct reason first, second = {};
	char words[64];

	if (!nr)
		return 0;
	snprintf(words, sizeof(words), " of %" PRIu32 " process%s %s", all, all == 1 ? "" : "es",
		 ended->process_nr ? "had ended" : unseen_words);
	write_left_out(&first, ended->process_nr ? ended : unseen, words, newest);
	snprintf(words, sizeof(words), " %s", unseen_words);
	if (ended->process_nr && unseen->process_nr)
		write_left_out(&second, unseen, words, "that");
	return warn(ret, "%.240s%s%.200s: --all-processes adds %s", first.text, *second.text ? ", and " : "", second.text,
		    nr == 1 ? "it" : "them");
}

static int check_left_out(const struct fleet_doubt *doubt, struct reason *ret)
{
	return cohort_left_out(doubt->cohort[0], ret);
}

/* Sums over latest snapshots include processes that no longer run. */
static int check_ended(const struct fleet_doubt *doubt, struct reason *ret)
{
	uint8_t *is_counted;
	uint32_t nr = 0, all = 0;

	if (doubt->cohort[0]->times != COHORT_LATEST)
		return 0;
	is_counted = calloc(doubt->facts->process_nr + 1ull, 1);
	if (!is_counted)
		return -ENOMEM;
	for (size_t side = 0; side < doubt->cohort_nr; side++) {
		for (size_t i = 0; i < doubt->cohort[side]->snapshot_nr; i++) {
			const struct fleet_snapshot *snapshot = begin_of(doubt, side)[i];

			if (is_counted[snapshot->process]++)
				continue;
			nr += !fleet_snapshot_is_live(snapshot);
			all++;
		}
	}
	free(is_counted);
	return nr ? warn(ret, "%" PRIu32 " of %" PRIu32 " processes have ended, were replaced by exec or a reboot, or were "
			 "not seen again; --where end=running leaves these out", nr, all) : 0;
}

/* A twin is probably a second machine: its host's sums mix both, and it is unknown which processes still run. */
static int check_twins(const struct fleet_doubt *doubt, struct reason *ret)
{
	for (size_t side = 0; side < doubt->cohort_nr; side++)
		for (size_t i = 0; i < doubt->cohort[side]->snapshot_nr; i++)
			if (begin_of(doubt, side)[i]->has_twin)
				return warn(ret, "%.200s has snapshots of two boots at one time: two machines of one name, or "
					    "a clock that was set", begin_of(doubt, side)[i]->host);
	return 0;
}

static bool has_gap_blocks(const struct fleet_snapshot *snapshot)
{
	return snapshot->gap_blocks.count > 0;
}

/* As render/caveats.c does for one snapshot. With --all-times the same blocks would be counted again and again. */
static int check_fleet_gaps(const struct fleet_doubt *doubt, struct reason *ret)
{
	size_t nr = count_snapshots(doubt, has_gap_blocks), all = snapshots_of(doubt);
	char size[SIZE_TEXT_MAX];
	double bytes = 0;

	for (size_t side = 0; side < doubt->cohort_nr; side++)
		for (size_t i = 0; i < doubt->cohort[side]->snapshot_nr; i++)
			bytes += begin_of(doubt, side)[i]->gap_blocks.size;
	return nr ? warn(ret, "%zu of %zu snapshots have gaps in what was recorded: %s that are older than the last one may "
			 "be gone", nr, all, doubt->cohort[0]->times != COHORT_ALL ?
			 size_text(size, bytes, false) : "blocks") : 0;
}

/* ---- snapshots of different kinds ----------------------------------------------------------------- */

/* The limit matters only if more than the first frame of a traceback counts. */
static int check_fleet_traceback_limit(const struct fleet_doubt *doubt, struct reason *ret)
{
	uint32_t least = UINT32_MAX, most = 0;

	if (doubt->engine->key_type != KEY_TRACEBACK && !doubt->engine->cumulative)
		return 0;
	for (size_t side = 0; side < doubt->cohort_nr; side++) {
		for (size_t i = 0; i < doubt->cohort[side]->snapshot_nr; i++) {
			uint32_t limit = begin_of(doubt, side)[i]->traceback_limit;

			least = limit && limit < least ? limit : least;
			most = limit > most ? limit : most;
		}
	}
	return most && least != most ?
		warn(ret, "the traceback limits differ, from %" PRIu32 " to %" PRIu32 ": longer tracebacks do not "
		     "match", least, most) : 0;
}

static bool is_sampled(const struct fleet_snapshot *snapshot)
{
	return snapshot->is_sampled;
}

static int check_fleet_sampling(const struct fleet_doubt *doubt, struct reason *ret)
{
	size_t nr = count_snapshots(doubt, is_sampled), all = snapshots_of(doubt);

	return nr && nr < all ? warn(ret, "%zu of %zu snapshots are of samples, the others of every block", nr, all) : 0;
}

static bool is_part(const struct fleet_snapshot *snapshot)
{
	return snapshot->is_part;
}

static int check_parts(const struct fleet_doubt *doubt, struct reason *ret)
{
	size_t nr = count_snapshots(doubt, is_part);

	return nr ? warn(ret, "%zu snapshot%s filtered, not the whole", nr, nr == 1 ? " is" : "s are") : 0;
}

static bool has_merged_rows(const struct fleet_facts *facts, const struct fleet_snapshot *snapshot)
{
	for (uint32_t i = 0; i < snapshot->loss_nr; i++)
		if (!strcmp(facts->loss[snapshot->loss + i].name, ROW_LOSS_MERGED))
			return true;
	return false;
}

/* A line that is among the largest of one snapshot and not of another seems to have grown from nothing. */
static int check_merged_rows(const struct fleet_doubt *doubt, struct reason *ret)
{
	size_t nr = 0, all = snapshots_of(doubt);

	for (size_t side = 0; side < doubt->cohort_nr; side++)
		for (size_t i = 0; i < doubt->cohort[side]->snapshot_nr; i++)
			nr += has_merged_rows(doubt->facts, begin_of(doubt, side)[i]);
	return nr ? warn(ret, "%zu of %zu snapshots were pushed with --top: totals are exact, but " ROW_OTHER_NAME " has the "
			 "small rows of each, so lines may have more than is shown, and differences may be of this", nr, all) : 0;
}

/* ---- clocks --------------------------------------------------------------------------------------- */

#define DAY_NS (24 * 3600 * 1000000000ll)

/* A wrong clock can only be detected if it is ahead. */
static int check_future(const struct fleet_doubt *doubt, struct reason *ret)
{
	size_t nr = 0;

	for (size_t side = 0; side < doubt->cohort_nr; side++)
		for (size_t i = 0; i < doubt->cohort[side]->snapshot_nr; i++)
			nr += begin_of(doubt, side)[i]->time_ns > doubt->now_ns + DAY_NS;
	return nr ? warn(ret, "%zu snapshot%s more than a day in the future: a clock is wrong there, or here", nr,
			 nr == 1 ? " is" : "s are") : 0;
}

/* ---- builds --------------------------------------------------------------------------------------- */

static int by_build(const void *left, const void *right)
{
	const struct fleet_snapshot *a = *(const struct fleet_snapshot *const *)left;
	const struct fleet_snapshot *b = *(const struct fleet_snapshot *const *)right;

	return strcmp(a->exe, b->exe) ?: strcmp(a->exe_build_id, b->exe_build_id);
}

/* Finds two builds of one program: neighbours in the order of programs and builds. */
static const struct fleet_snapshot *find_builds(const struct fleet_snapshot **order, size_t nr)
{
	for (size_t i = 1; i < nr; i++)
		if (*order[i - 1]->exe_build_id && !strcmp(order[i - 1]->exe, order[i]->exe) &&
		    strcmp(order[i - 1]->exe_build_id, order[i]->exe_build_id))
			return order[i];
	return NULL;
}

/* Builds matter only if plain line numbers are compared, not distances from the start of a function. */
static int check_builds(const struct fleet_doubt *doubt, struct reason *ret)
{
	enum key_type key_type = doubt->engine->key_type;
	const struct fleet_snapshot **order, *found;
	size_t nr = 0;

	if (doubt->line_drift || (key_type != KEY_LINENO && key_type != KEY_TRACEBACK))
		return 0;
	order = calloc(snapshots_of(doubt) + 1, sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (size_t side = 0; side < doubt->cohort_nr; side++)
		for (size_t i = 0; i < doubt->cohort[side]->snapshot_nr; i++)
			order[nr++] = begin_of(doubt, side)[i];
	qsort(order, nr, sizeof(*order), by_build);
	found = find_builds(order, nr);
	free(order);
	return found ? warn(ret, "there are different builds of %.200s: lines may have moved; --line-drift follows "
			    "them", *found->exe ? found->exe : found->comm) : 0;
}

/* ---- names ---------------------------------------------------------------------------------------- */

/* Names are lent between all snapshots of a catalogue, so the number is of the whole catalogue. */
static int check_refused_names(const struct fleet_doubt *doubt, struct reason *ret)
{
	uint64_t nr = doubt->refused_nr;

	return nr ? warn(ret, "snapshots in the catalogue have different names for %" PRIu64 " place%s of one build-id: "
			 "what each has is shown, and none is lent", nr, nr == 1 ? "" : "s") : 0;
}

static const check_fn checks[] = {
	check_shared_snapshots, check_shared_processes, check_recorded_anew, check_left_out, check_ended,
	check_twins,
	check_fleet_gaps, check_fleet_traceback_limit,
	check_fleet_sampling, check_parts, check_merged_rows, check_future, check_builds, check_refused_names,
};
_Static_assert(ARRAY_SIZE(checks) <= FLEET_CHECK_NR, "room for every check");

int fleet_doubts_find(const struct fleet_doubt *doubt, struct fleet_doubts *ret)
{
	*ret = (struct fleet_doubts){};
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct reason *text = &ret->text[ret->nr];
		int found = checks[i](doubt, text);

		if (found < 0)
			return found;
		if (found)
			ret->line[ret->nr++] = text->text;
	}
	return 0;
}
