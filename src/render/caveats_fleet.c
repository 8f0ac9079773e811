// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reasons why sums over cohorts, or their difference, may mislead. */
#include "render/caveats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/row_top.h"
#include "render.h"
#include "render/json_parts.h"

/* Writes the line; its value is true. */
#define warn(ret, ...) (!reason_set(ret, 0, __VA_ARGS__))

/* The input of the checks. */
struct doubted {
	const struct fleet_doubt *ask;
	const struct fleet_snapshot **snapshot; /* of all cohorts: the baseline's snapshots first */
	size_t nr, old_nr;
	uint8_t *mark; /* by process or by snapshot of the facts; 0 before each check */
	const struct fleet_snapshot **order; /* as many, NULL before each check */
};

typedef bool (*check_fn)(const struct doubted *all, struct reason *ret);

static size_t cohort_side(const struct doubted *all, size_t at)
{
	return at >= all->old_nr;
}

/* ---- snapshots and processes in both cohorts ---------------------------------------------------- */

static bool check_shared_snapshots(const struct doubted *all, struct reason *ret)
{
	size_t nr = 0;

	for (size_t i = 0; i < all->nr; i++) {
		uint8_t *mark = &all->mark[all->snapshot[i] - all->ask->facts->snapshot];

		nr += cohort_side(all, i) && *mark;
		*mark |= !cohort_side(all, i);
	}
	return nr && warn(ret, "%zu snapshot%s in both cohorts, and no difference between them", nr,
			  nr == 1 ? " is" : "s are");
}

/* If all processes are in both cohorts, one fleet is compared at two times. If some are, the comparison is mixed. */
static bool check_shared_processes(const struct doubted *all, struct reason *ret)
{
	uint32_t both = 0, either = 0;

	for (size_t i = 0; i < all->nr; i++)
		all->mark[all->snapshot[i]->process] |= 1 << cohort_side(all, i);
	for (uint32_t i = 0; i < all->ask->facts->process_nr; i++) {
		both += all->mark[i] == 3;
		either += all->mark[i] != 0;
	}
	return both && both < either &&
	       warn(ret, "%" PRIu32 " of %" PRIu32 " processes are in both cohorts: the difference is partly "
		    "between processes, partly over time", both, either);
}

/* A second recording of a process has no blocks from before its own start. */
static bool check_recorded_anew(const struct doubted *all, struct reason *ret)
{
	uint32_t nr = 0;

	for (size_t i = 0; i < all->nr; i++) {
		const struct fleet_snapshot *snapshot = all->snapshot[i], **first = &all->order[snapshot->process];

		*first = *first ?: snapshot;
		if ((*first)->recording != snapshot->recording)
			nr += !all->mark[snapshot->process]++;
	}
	return nr && warn(ret, "%" PRIu32 " process%s recorded anew in between: what was allocated before is not in "
			  "the later snapshots", nr, nr == 1 ? " was" : "es were");
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

bool cohort_left_out(const struct cohort *cohort, struct reason *ret)
{
	const struct cohort_ended *ended = &cohort->ended, *unseen = &cohort->unseen;
	uint32_t nr = ended->process_nr + unseen->process_nr, all = cohort->process_nr + nr;
	const char *newest = (ended->process_nr ?: nr) == 1 ? "the newest snapshot of its host" : "the newest snapshot of their hosts";
	const char *unseen_words = unseen->process_nr == 1 ? "was not seen again" : "were not seen again";
	struct reason first, second = {};
	char words[64];

	if (!nr)
		return false;
	snprintf(words, sizeof(words), " of %" PRIu32 " process%s %s", all, all == 1 ? "" : "es",
		 ended->process_nr ? "had ended" : unseen_words);
	write_left_out(&first, ended->process_nr ? ended : unseen, words, newest);
	snprintf(words, sizeof(words), " %s", unseen_words);
	if (ended->process_nr && unseen->process_nr)
		write_left_out(&second, unseen, words, "that");
	return warn(ret, "%.240s%s%.200s: --all-processes adds %s", first.text, *second.text ? ", and " : "", second.text,
		    nr == 1 ? "it" : "them");
}

static bool check_left_out(const struct doubted *all, struct reason *ret)
{
	return cohort_left_out(all->ask->cohort[0], ret);
}

/* Sums over latest snapshots include processes that no longer run. */
static bool check_ended(const struct doubted *all, struct reason *ret)
{
	uint32_t nr = 0, process_nr = 0;

	if (all->ask->cohort[0]->times != COHORT_LATEST)
		return false;
	for (size_t i = 0; i < all->nr; i++) {
		if (all->mark[all->snapshot[i]->process])
			continue;
		all->mark[all->snapshot[i]->process] = 1;
		nr += !fleet_snapshot_is_live(all->snapshot[i]);
		process_nr++;
	}
	return nr && warn(ret, "%" PRIu32 " of %" PRIu32 " processes have ended, were replaced by exec or a reboot, or "
			  "were not seen again; --where end=running leaves these out", nr, process_nr);
}

/* A twin is probably a second machine: its host's sums mix both, and it is unknown which processes still run. */
static bool check_twins(const struct doubted *all, struct reason *ret)
{
	for (size_t i = 0; i < all->nr; i++)
		if (all->snapshot[i]->has_twin)
			return warn(ret, "%.200s has snapshots of two boots at one time: two machines of one name, or "
				    "a clock that was set", all->snapshot[i]->host);
	return false;
}

/* As render/caveats.c does for one snapshot. With --all-times the same blocks would be counted again and again. */
static bool check_fleet_gaps(const struct doubted *all, struct reason *ret)
{
	char size[SIZE_TEXT_MAX];
	double bytes = 0;
	size_t nr = 0;

	for (size_t i = 0; i < all->nr; i++) {
		nr += all->snapshot[i]->gap_blocks.count > 0;
		bytes += all->snapshot[i]->gap_blocks.size;
	}
	return nr && warn(ret, "%zu of %zu snapshots have gaps in what was recorded: %s that are older than the last "
			  "one may be gone", nr, all->nr,
			  all->ask->cohort[0]->times != COHORT_ALL ? size_text(size, bytes, false) : "blocks");
}

/* ---- snapshots of different kinds ----------------------------------------------------------------- */

/* The limit matters only if more than the first frame of a traceback counts. */
static bool check_fleet_traceback_limit(const struct doubted *all, struct reason *ret)
{
	const struct engine_options *engine = all->ask->engine;
	uint32_t least = UINT32_MAX, most = 0;

	for (size_t i = 0; i < all->nr && (engine->key_type == KEY_TRACEBACK || engine->cumulative); i++) {
		uint32_t limit = all->snapshot[i]->traceback_limit;

		least = limit && limit < least ? limit : least;
		most = limit > most ? limit : most;
	}
	return most && least != most &&
	       warn(ret, "the traceback limits differ, from %" PRIu32 " to %" PRIu32 ": longer tracebacks do not match",
		    least, most);
}

static bool check_fleet_sampling(const struct doubted *all, struct reason *ret)
{
	size_t nr = 0;

	for (size_t i = 0; i < all->nr; i++)
		nr += all->snapshot[i]->is_sampled;
	return nr && nr < all->nr &&
	       warn(ret, "%zu of %zu snapshots are of samples, the others of every block", nr, all->nr);
}

static bool check_parts(const struct doubted *all, struct reason *ret)
{
	size_t nr = 0;

	for (size_t i = 0; i < all->nr; i++)
		nr += all->snapshot[i]->is_part;
	return nr && warn(ret, "%zu snapshot%s filtered, not the whole", nr, nr == 1 ? " is" : "s are");
}

static bool has_merged_rows(const struct fleet_facts *facts, const struct fleet_snapshot *snapshot)
{
	for (uint32_t i = 0; i < snapshot->loss_nr; i++)
		if (!strcmp(facts->loss[snapshot->loss + i].name, ROW_LOSS_MERGED))
			return true;
	return false;
}

/* A line that is among the largest of one snapshot and not of another seems to have grown from nothing. */
static bool check_merged_rows(const struct doubted *all, struct reason *ret)
{
	size_t nr = 0;

	for (size_t i = 0; i < all->nr; i++)
		nr += has_merged_rows(all->ask->facts, all->snapshot[i]);
	return nr && warn(ret, "%zu of %zu snapshots were pushed with --top: totals are exact, but " ROW_OTHER_NAME " "
			  "has the small rows of each, so lines may have more than is shown, and differences may be of "
			  "this", nr, all->nr);
}

/* ---- clocks --------------------------------------------------------------------------------------- */

#define DAY_NS (24 * 3600 * 1000000000ll)

/* A wrong clock can only be detected if it is ahead. */
static bool check_future(const struct doubted *all, struct reason *ret)
{
	size_t nr = 0;

	for (size_t i = 0; i < all->nr; i++)
		nr += all->snapshot[i]->time_ns > all->ask->now_ns + DAY_NS;
	return nr && warn(ret, "%zu snapshot%s more than a day in the future: a clock is wrong there, or here", nr,
			  nr == 1 ? " is" : "s are");
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
static bool check_builds(const struct doubted *all, struct reason *ret)
{
	enum key_type key_type = all->ask->engine->key_type;
	const struct fleet_snapshot *found;

	if (all->ask->line_drift || (key_type != KEY_LINENO && key_type != KEY_TRACEBACK))
		return false;
	memcpy(all->order, all->snapshot, all->nr * sizeof(*all->order));
	qsort(all->order, all->nr, sizeof(*all->order), by_build);
	found = find_builds(all->order, all->nr);
	return found && warn(ret, "there are different builds of %.200s: lines may have moved; --line-drift follows "
			     "them", *found->exe ? found->exe : found->comm);
}

/* ---- names ---------------------------------------------------------------------------------------- */

/* Names are lent between all snapshots of a catalogue, so the number is of the whole catalogue. */
static bool check_refused_names(const struct doubted *all, struct reason *ret)
{
	uint64_t nr = all->ask->refused_nr;

	return nr && warn(ret, "snapshots in the catalogue have different names for %" PRIu64 " place%s of one "
			  "build-id: what each has is shown, and none is lent", nr, nr == 1 ? "" : "s");
}

/* ---- all ------------------------------------------------------------------------------------------ */

static const struct {
	check_fn check;
	bool is_of_two; /* cohorts */
} fleet_checks[] = {
	{ check_shared_snapshots, true }, { check_shared_processes, true }, { check_recorded_anew }, { check_left_out },
	{ check_ended }, { check_twins }, { check_fleet_gaps }, { check_fleet_traceback_limit },
	{ check_fleet_sampling },
	{ check_parts }, { check_merged_rows }, { check_future }, { check_builds }, { check_refused_names },
};
_Static_assert(ARRAY_SIZE(fleet_checks) <= WARNINGS_MAX, "room for every check");

static void join_cohorts(const struct fleet_doubt *doubt, struct doubted *all)
{
	for (size_t side = 0; side < doubt->cohort_nr; side++) {
		const struct cohort *cohort = doubt->cohort[side];

		for (size_t i = 0; i < cohort->snapshot_nr; i++)
			all->snapshot[all->nr++] = cohort->snapshot[i];
		all->old_nr = side ? all->old_nr : all->nr;
	}
}

static void run_fleet_checks(const struct doubted *all, size_t room, struct warnings *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(fleet_checks); i++) {
		struct reason *text = &ret->text[ret->nr];

		if (fleet_checks[i].is_of_two && all->ask->cohort_nr < 2)
			continue;
		memset(all->mark, 0, room * sizeof(*all->mark));
		memset(all->order, 0, room * sizeof(*all->order));
		if (fleet_checks[i].check(all, text))
			ret->line[ret->nr++] = text->text;
	}
}

int fleet_doubts_find(const struct fleet_doubt *doubt, struct warnings *ret)
{
	size_t room = 1 + doubt->facts->process_nr + doubt->facts->snapshot_nr;
	struct doubted all = { .ask = doubt };

	for (size_t side = 0; side < doubt->cohort_nr; side++)
		room += doubt->cohort[side]->snapshot_nr;
	*ret = (struct warnings){};
	all.snapshot = calloc(room, sizeof(*all.snapshot));
	all.order = calloc(room, sizeof(*all.order));
	all.mark = calloc(room, sizeof(*all.mark));
	if (all.snapshot && all.order && all.mark) {
		join_cohorts(doubt, &all);
		run_fleet_checks(&all, room, ret);
	}
	free(all.snapshot);
	free(all.order);
	free(all.mark);
	return all.snapshot && all.order && all.mark ? 0 : -ENOMEM;
}
