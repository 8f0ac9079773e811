// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/leak_tally.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/progress.h"
#include "base/reason.h"
#include "engine/selector.h"
#include "engine/trace_source.h"
#include "snapshot.h"

#define LEAK_SITE_NONE UINT32_MAX

/* ---- frames --------------------------------------------------------------------------------- */

struct frame_place {
	const struct snapshot *snapshot;
	uint32_t frame;
};

static const struct snap_frame *frame_row(const struct frame_place *place)
{
	return &snapshot__tables(place->snapshot)->frame[place->frame];
}

static const char *object_path(const struct frame_place *place)
{
	const struct snapshot_tables *tables = snapshot__tables(place->snapshot);

	return snapshot__string(place->snapshot, tables->object[frame_row(place)->object].path);
}

static bool has_code_place(const struct snap_frame *row)
{
	return row->object && row->offset;
}

static uint64_t hash_string(const struct frame_place *place, uint32_t string, uint64_t seed)
{
	const char *text = snapshot__string(place->snapshot, string);

	return hash_bytes(text, strlen(text), seed);
}

static uint64_t hash_place(const struct frame_place *place)
{
	const struct snap_frame *row = frame_row(place);
	const char *path = object_path(place);
	uint64_t hash = hash_bytes(path, strlen(path), row->offset);

	if (has_code_place(row))
		return hash;
	hash = hash_string(place, row->filename, hash + row->lineno);
	return hash_string(place, row->function, hash);
}

static bool is_same_string(const struct frame_place *a, uint32_t string_a, const struct frame_place *b,
			   uint32_t string_b)
{
	return !strcmp(snapshot__string(a->snapshot, string_a), snapshot__string(b->snapshot, string_b));
}

static bool is_same_place(uint32_t id, const void *key, const void *table)
{
	const struct leak_sites *sites = table;
	const struct frame_place *b = key, a = { sites->last, id };
	const struct snap_frame *row_a = frame_row(&a), *row_b = frame_row(b);

	if (row_a->offset != row_b->offset || strcmp(object_path(&a), object_path(b)))
		return false;
	if (has_code_place(row_a) && has_code_place(row_b))
		return true;
	return row_a->lineno == row_b->lineno && is_same_string(&a, row_a->filename, b, row_b->filename) &&
	       is_same_string(&a, row_a->function, b, row_b->function);
}

static uint32_t find_place(const struct leak_sites *sites, const struct frame_place *place)
{
	return idmap_find(&sites->frame_ids, hash_place(place), is_same_place, place, sites);
}

/*
 * By frame id of the snapshot: the first equal frame of the last snapshot. add: its frames are new ones. NULL: no
 * memory.
 */
static uint32_t *map_frames(const struct leak_sites *sites, const struct snapshot *snapshot, struct idmap *add)
{
	uint32_t nr = snapshot__tables(snapshot)->frame_nr;
	uint32_t *map = calloc(nr ?: 1, sizeof(*map));

	for (uint32_t i = 0; i < nr && map; i++) {
		const struct frame_place place = { snapshot, i };

		map[i] = find_place(sites, &place);
		if (map[i] != IDMAP_NONE || !add)
			continue;
		map[i] = i;
		if (idmap_add(add, hash_place(&place), i)) {
			free(map);
			return NULL;
		}
	}
	return map;
}

/* ---- tracebacks ----------------------------------------------------------------------------- */

/* Frames in ids of the last snapshot, without inlined calls: these are at the same place as their caller. */
struct place_list {
	uint32_t *id;
	size_t id_nr, id_alloc;
};

/* Returns -ENOENT if the last snapshot lacks one of the frames. */
static int list_places(struct place_list *list, const struct snapshot *snapshot, uint32_t traceback,
		       const uint32_t *frame_map)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const struct snap_traceback *row = &tables->traceback[traceback];
	int err = array_reserve(&list->id, &list->id_alloc, row->nframe + 1ull);

	list->id_nr = 0;
	for (uint32_t i = 0; i < row->nframe && !err; i++) {
		uint32_t frame = tables->traceback_frame[row->first + i];
		const struct snap_frame *place = &tables->frame[frame];

		if (place->flags & SNAP_FRAME_INLINE && has_code_place(place))
			continue;
		if (frame_map[frame] == IDMAP_NONE)
			err = -ENOENT;
		list->id[list->id_nr++] = frame_map[frame];
	}
	return err;
}

struct traceback_lookup {
	const struct place_list *wanted;
	struct place_list *scratch;
	const uint32_t *frame_map; /* of the last snapshot */
	const struct snapshot *last;
};

static bool is_same_traceback(uint32_t id, const void *key, const void *table)
{
	const struct traceback_lookup *lookup = key;
	size_t bytes = lookup->wanted->id_nr * sizeof(*lookup->wanted->id);

	(void)table;
	return !list_places(lookup->scratch, lookup->last, id, lookup->frame_map) &&
	       lookup->scratch->id_nr == lookup->wanted->id_nr &&
	       !memcmp(lookup->scratch->id, lookup->wanted->id, bytes);
}

/* Fills map[] for all tracebacks of the snapshot. add: as in map_frames(). */
static int map_tracebacks(const struct leak_sites *sites, const struct snapshot *snapshot, const uint32_t *frame_map,
			  const uint32_t *last_frame_map, struct idmap *add, uint32_t *map)
{
	struct place_list wanted = {}, scratch = {};
	const struct traceback_lookup lookup = { &wanted, &scratch, last_frame_map, sites->last };
	uint32_t nr = snapshot__tables(snapshot)->traceback_nr;
	int err = 0;

	for (uint32_t i = 0; i < nr && !err; i++) {
		uint64_t hash;

		map[i] = LEAK_SITE_NONE;
		err = list_places(&wanted, snapshot, i, frame_map);
		if (err == -ENOENT) {
			err = 0;
			continue;
		}
		hash = hash_bytes(wanted.id, wanted.id_nr * sizeof(*wanted.id), wanted.id_nr);
		if (!err)
			map[i] = idmap_find(&sites->traceback_ids, hash, is_same_traceback, &lookup, sites);
		if (!err && map[i] == IDMAP_NONE && add) {
			map[i] = i;
			err = idmap_add(add, hash, i);
		}
	}
	free(wanted.id);
	free(scratch.id);
	return err;
}

/*
 * Maps the tracebacks of another snapshot to tracebacks of the last: ids, or LEAK_SITE_NONE. The caller ends the array
 * with free(). NULL: no memory.
 */
static uint32_t *leak_sites_map(const struct leak_sites *sites, const struct snapshot *snapshot)
{
	uint32_t *map = calloc(snapshot__tables(snapshot)->traceback_nr ?: 1, sizeof(*map));
	uint32_t *frame_map = map_frames(sites, snapshot, NULL);
	uint32_t *last_frame_map = map_frames(sites, sites->last, NULL);
	bool is_done = map && frame_map && last_frame_map &&
		       !map_tracebacks(sites, snapshot, frame_map, last_frame_map, NULL, map);

	free(frame_map);
	free(last_frame_map);
	if (is_done)
		return map;
	free(map);
	return NULL;
}

/* ---- sites ---------------------------------------------------------------------------------- */

/* 0 or -ENOMEM. */
static int leak_sites_init(struct leak_sites *sites, const struct snapshot *last)
{
	uint32_t *frame_map;
	int err = -ENOMEM;

	*sites = (struct leak_sites){ .last = last };
	sites->traceback = calloc(snapshot__tables(last)->traceback_nr ?: 1, sizeof(*sites->traceback));
	frame_map = map_frames(sites, last, &sites->frame_ids);
	if (sites->traceback && frame_map)
		err = map_tracebacks(sites, last, frame_map, frame_map, &sites->traceback_ids, sites->traceback);
	free(frame_map);
	return err;
}

static void leak_sites_release(struct leak_sites *sites)
{
	idmap_release(&sites->frame_ids);
	idmap_release(&sites->traceback_ids);
	idmap_release(&sites->site_ids);
	free(sites->traceback);
	free(sites->site);
}

static bool is_same_site(uint32_t id, const void *key, const void *table)
{
	const struct leak_sites *sites = table;
	const struct leak_site_key *wanted = key;

	return sites->site[id].traceback == wanted->traceback && sites->site[id].domain == wanted->domain;
}

static uint64_t hash_site(const struct leak_site_key *key)
{
	return hash_bytes(key, sizeof(*key), 0);
}

/* LEAK_SITE_NONE: no block of the last snapshot is from there. traceback is an id of the last snapshot. */
static uint32_t leak_sites_find(const struct leak_sites *sites, uint32_t traceback, uint32_t domain)
{
	const struct leak_site_key key = { sites->traceback[traceback], domain };

	return idmap_find(&sites->site_ids, hash_site(&key), is_same_site, &key, sites);
}

/* Finds or, in the last snapshot, adds the site of a traceback id of the last snapshot. */
static int leak_sites_add(struct leak_sites *sites, uint32_t traceback, uint32_t domain, uint32_t *ret_site)
{
	const struct leak_site_key key = { sites->traceback[traceback], domain };
	int err;

	*ret_site = leak_sites_find(sites, traceback, domain);
	if (*ret_site != IDMAP_NONE)
		return 0;
	*ret_site = sites->site_nr;
	err = array_push(sites, site, key);
	return err ?: idmap_add(&sites->site_ids, hash_site(&key), *ret_site);
}

int leak_births_add(struct leak_births *births, uint32_t site, uint32_t bin)
{
	return array_push(births, key, site * (uint64_t)LEAK_BINS + bin);
}

/* Sorts by one byte of the keys, and keeps the order of those that have the same. */
static void sort_by_byte(const uint64_t *key, size_t nr, unsigned int shift, uint64_t *ret)
{
	size_t first[257] = {};

	for (size_t i = 0; i < nr; i++)
		first[(key[i] >> shift & 255) + 1]++;
	for (int i = 1; i < 257; i++)
		first[i] += first[i - 1];
	for (size_t i = 0; i < nr; i++)
		ret[first[key[i] >> shift & 255]++] = key[i];
}

/* By the lowest byte first, up to the highest that any key has. */
int leak_births_sort(struct leak_births *births)
{
	size_t nr = births->key_nr;
	uint64_t all = 0, *sorted = calloc(births->key_alloc ?: 1, sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++)
		all |= births->key[i];
	for (unsigned int shift = 0; shift < 64 && all >> shift; shift += 8) {
		uint64_t *unsorted = births->key;

		sort_by_byte(unsorted, nr, shift, sorted);
		births->key = sorted;
		sorted = unsorted;
	}
	free(sorted);
	return 0;
}

uint64_t leak_births_count(const struct leak_births *births, uint64_t key, size_t *at)
{
	uint64_t nr = 0;

	while (*at < births->key_nr && births->key[*at] < key)
		(*at)++;
	for (; *at < births->key_nr && births->key[*at] == key; (*at)++)
		nr++;
	return nr;
}

void leak_births_release(struct leak_births *births)
{
	free(births->key);
	*births = (struct leak_births){};
}

/* at × nr / span, for at ≤ span: the part of the time observed, of nr equal ones. */
static uint64_t scale_time(uint64_t at, uint64_t span, uint32_t nr)
{
	if (span <= UINT64_MAX / nr)
		return at * nr / span;
	return (unsigned __int128)at * nr / span;
}

/* ---- what is observed ----------------------------------------------------------------------- */

static int set_gaps(struct leak_tally *tally)
{
	const struct snapshot_tables *tables = snapshot__tables(tally->last);
	uint64_t begin = tally->times->begin_ns, span = tally->window.span_ns, sum = 0;
	uint64_t known = tally->times->is_part ? 0 : snapshot__metadata_u64(tally->last, "gaps_ns", 0);

	tally->gap = calloc(tables->gap_nr ?: 1, sizeof(*tally->gap));
	if (!tally->gap)
		return -ENOMEM;
	for (uint32_t i = 0; i < tables->gap_nr; i++) {
		const struct snap_gap *gap = &tables->gap[i];
		uint64_t from = gap->start_ns > begin ? gap->start_ns - begin : 0;
		uint64_t to = gap->end_ns > begin ? gap->end_ns - begin : 0;

		to = to < span ? to : span;
		if (from >= to)
			continue;
		tally->gap[tally->window.gap_nr++] = (struct leak_gap){ from, to, sum };
		sum += to - from;
	}
	known = known > sum ? known : sum;
	tally->window.gap = tally->gap;
	tally->window.gaps_ns = known < span ? known : span;
	return 0;
}

static int set_window(struct leak_tally *tally, struct reason *why)
{
	const struct leak_times *times = tally->times;
	uint64_t end_ns = times->now_ns[times->snapshot_nr - 1];

	if (end_ns <= times->begin_ns)
		return reason_set(why, -ENODATA, "the snapshots do not say how long was recorded");
	tally->snapshot_ns = calloc(times->snapshot_nr, sizeof(*tally->snapshot_ns));
	if (!tally->snapshot_ns)
		return -ENOMEM;
	for (uint32_t i = 0; i < times->snapshot_nr; i++)
		tally->snapshot_ns[i] = times->now_ns[i] > times->begin_ns ? times->now_ns[i] - times->begin_ns : 0;
	tally->window = (struct leak_window){
		.span_ns = end_ns - times->begin_ns,
		.snapshot_ns = tally->snapshot_ns,
		.snapshot_nr = times->snapshot_nr,
	};
	for (uint32_t i = 0; i < LEAK_BINS; i++)
		tally->bin_end_ns[i] = (unsigned __int128)tally->window.span_ns * (i + 1) / LEAK_BINS;
	return set_gaps(tally);
}

#define EARLY_NS 1000000000ull

/*
 * False: the birth is not known, or was before what is observed. In compact files it may be a second too early. Of a whole
 * recording only Go's profile has earlier ones.
 */
static bool read_birth(const struct leak_tally *tally, uint64_t birth_ns, uint64_t *ret_ns)
{
	uint64_t begin = tally->times->begin_ns, early_ns = tally->times->is_part ? 0 : EARLY_NS;

	if (!birth_ns || birth_ns + early_ns < begin)
		return false;
	*ret_ns = birth_ns > begin ? birth_ns - begin : 0;
	if (*ret_ns > tally->window.span_ns)
		*ret_ns = tally->window.span_ns;
	return true;
}

/* ---- the sites of a recording ---------------------------------------------------------------- */

struct chosen_traces {
	struct source source;
	struct selector selector;
};

static int chosen_traces_init(struct chosen_traces *traces, const struct snapshot *snapshot,
			      const struct engine_options *options, struct reason *why)
{
	int err = source_init(&traces->source, snapshot, options);

	return err ?: selector_init(&traces->selector, &traces->source, why);
}

static void chosen_traces_release(struct chosen_traces *traces)
{
	selector_release(&traces->selector);
	source_release(&traces->source);
}

static int check_births(const struct snapshot *snapshot, struct reason *why)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	if (!tables->trace_nr || tables->trace_birth_ns)
		return 0;
	return reason_set(why, -ENODATA, "the snapshot has no birth times, and leaks are judged by them");
}

static int add_sites(struct leak_tally *tally, struct reason *why)
{
	const struct snapshot_tables *tables = snapshot__tables(tally->last);
	struct progress progress = progress_begin("judging", "blocks", tables->trace_nr);
	struct chosen_traces traces = {};
	uint64_t birth;
	int err = chosen_traces_init(&traces, tally->last, tally->options, why);

	tally->site_of = calloc(tables->trace_nr ?: 1, sizeof(*tally->site_of));
	if (!tally->site_of)
		err = -ENOMEM;
	for (uint64_t i = 0; i < tables->trace_nr && !err; i++) {
		progress_show_row(&progress, i);
		tally->site_of[i] = LEAK_SITE_NONE;
		tally->unborn += !tables->trace_birth_ns[i];
		if (!read_birth(tally, tables->trace_birth_ns[i], &birth) || !selector_takes(&traces.selector, i))
			continue;
		err = leak_sites_add(&tally->sites, tables->trace_traceback[i],
				     tables->trace_domain ? tables->trace_domain[i] : 0, &tally->site_of[i]);
	}
	progress_end(&progress);
	chosen_traces_release(&traces);
	return err;
}

/* Sorts the last snapshot's traces by site: counts, then places. */
static int sort_traces(struct leak_tally *tally)
{
	uint64_t trace_nr = snapshot__tables(tally->last)->trace_nr;
	size_t site_nr = tally->sites.site_nr;

	tally->first = calloc(site_nr + 2, sizeof(*tally->first));
	tally->order = calloc(trace_nr ?: 1, sizeof(*tally->order));
	if (!tally->first || !tally->order)
		return -ENOMEM;
	for (uint64_t i = 0; i < trace_nr; i++)
		if (tally->site_of[i] != LEAK_SITE_NONE)
			tally->first[tally->site_of[i] + 2]++;
	for (size_t i = 2; i < site_nr + 2; i++)
		tally->first[i] += tally->first[i - 1];
	for (uint64_t i = 0; i < trace_nr; i++)
		if (tally->site_of[i] != LEAK_SITE_NONE)
			tally->order[tally->first[tally->site_of[i] + 1]++] = i;
	return 0;
}

/* The sums of a snapshot's tracebacks are read after its blocks, and meanwhile the process goes on. */
static void find_late_share(struct leak_tally *tally)
{
	const struct snapshot_tables *tables = snapshot__tables(tally->last);
	double counted = snapshot__counter(tally->last, "allocations"), sum = 0;

	for (uint64_t i = 0; i < tables->traceback_nr; i++)
		sum += tables->churn[i].allocations;
	tally->window.late_share = counted > 0 && sum > counted ? 1 - counted / sum : 0;
}

static int sum_allocated(struct leak_tally *tally)
{
	const struct snapshot_tables *tables = snapshot__tables(tally->last);

	tally->allocated = calloc(tables->traceback_nr ?: 1, sizeof(*tally->allocated));
	if (!tally->allocated)
		return -ENOMEM;
	if (!tables->churn)
		return 0;
	for (uint32_t i = 0; i < tables->traceback_nr; i++)
		tally->allocated[tally->sites.traceback[i]] += tables->churn[i].allocations;
	find_late_share(tally);
	return 0;
}

static int make_counters(struct leak_tally *tally)
{
	size_t nr = tally->sites.site_nr ?: 1;

	tally->history = calloc(nr, sizeof(*tally->history));
	tally->bytes = calloc(nr, sizeof(*tally->bytes));
	tally->count = calloc(nr, sizeof(*tally->count));
	tally->older_count = calloc(nr, sizeof(*tally->older_count));
	return tally->history && tally->bytes && tally->count && tally->older_count ? 0 : -ENOMEM;
}

int leak_tally_init(struct leak_tally *tally, const struct snapshot *last, const struct leak_times *times,
		    const struct engine_options *options, struct reason *why)
{
	int err;

	*tally = (struct leak_tally){ .last = last, .times = times, .options = options };
	err = check_births(last, why) ?: set_window(tally, why) ?: leak_sites_init(&tally->sites, last);
	return err ?: add_sites(tally, why) ?: sort_traces(tally) ?: sum_allocated(tally) ?: make_counters(tally);
}

void leak_tally_release(struct leak_tally *tally)
{
	leak_sites_release(&tally->sites);
	free(tally->history);
	leak_births_release(&tally->now);
	leak_births_release(&tally->before);
	free(tally->bytes);
	free(tally->count);
	free(tally->older_count);
	free(tally->site_of);
	free(tally->order);
	free(tally->first);
	free(tally->snapshot_ns);
	free(tally->gap);
	free(tally->allocated);
	free(tally->block);
	*tally = (struct leak_tally){};
}

/* ---- a snapshot ----------------------------------------------------------------------------- */

static int count_block(struct leak_tally *tally, uint32_t site, uint64_t birth_ns, double bytes, double weight)
{
	uint64_t bin = scale_time(birth_ns, tally->window.span_ns, LEAK_BINS);

	tally->bytes[site] += bytes;
	tally->count[site] += weight;
	return leak_births_add(&tally->now, site, bin < LEAK_BINS ? bin : LEAK_BINS - 1);
}

static double weight_of(const struct snapshot_tables *tables, uint64_t at)
{
	return tables->trace_weight ? tables->trace_weight[at] : 1;
}

static int count_blocks(struct leak_tally *tally, const struct snapshot *snapshot, const uint32_t *traceback,
			struct reason *why)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	struct progress progress = progress_begin("judging", "blocks", tables->trace_nr);
	struct chosen_traces traces = {};
	int err = chosen_traces_init(&traces, snapshot, tally->options, why);

	for (uint64_t i = 0; i < tables->trace_nr && !err; i++) {
		progress_show_row(&progress, i);
		uint32_t id = traceback[tables->trace_traceback[i]], site = LEAK_SITE_NONE;
		double weight = weight_of(tables, i);
		uint64_t birth;

		if (id != LEAK_SITE_NONE && selector_takes(&traces.selector, i))
			site = leak_sites_find(&tally->sites, id, tables->trace_domain ? tables->trace_domain[i] : 0);
		if (site == LEAK_SITE_NONE)
			continue;
		if (read_birth(tally, tables->trace_birth_ns[i], &birth))
			err = count_block(tally, site, birth, tables->trace_size[i] * weight, weight);
		else if (!tally->times->is_part)
			tally->older_count[site] += weight;
	}
	progress_end(&progress);
	chosen_traces_release(&traces);
	return err;
}

/* Blocks of a bin that are gone since the snapshot at `then`, if the bin had ended by then. */
static uint64_t count_gone(const struct leak_tally *tally, struct leak_history *history, uint32_t bin, uint64_t then,
			   uint64_t before, uint64_t now)
{
	uint64_t horizon_ns[LEAK_HORIZONS], ends = tally->bin_end_ns[bin];
	uint32_t nr;

	if (ends > then || before <= now)
		return 0;
	nr = leak_horizons(&tally->window, horizon_ns);
	for (uint32_t i = 0; i < nr && horizon_ns[i] <= then - ends; i++)
		history->freed[i] += before - now;
	return before - now;
}

static void add_gone(struct leak_history *history, uint64_t gone, uint32_t at)
{
	history->gone += gone;
	if (gone > history->gone_most) {
		history->gone_most = gone;
		history->gone_most_at = at;
	}
}

/* Compares the snapshot before `at`, site by site and bin by bin, with this one. */
static void compare_births(struct leak_tally *tally, uint32_t at)
{
	const struct leak_births *before = &tally->before;
	size_t i = 0, j = 0;

	while (i < before->key_nr) {
		uint64_t site = before->key[i] / LEAK_BINS, gone = 0;

		while (i < before->key_nr && before->key[i] / LEAK_BINS == site) {
			uint64_t key = before->key[i], was = leak_births_count(before, key, &i);

			gone += count_gone(tally, &tally->history[site], key % LEAK_BINS, tally->snapshot_ns[at - 1],
					   was, leak_births_count(&tally->now, key, &j));
		}
		add_gone(&tally->history[site], gone, at - 1);
	}
}

static int end_snapshot(struct leak_tally *tally, uint32_t at)
{
	size_t site_nr = tally->sites.site_nr;
	struct leak_births before = tally->before;

	if (leak_births_sort(&tally->now))
		return -ENOMEM;
	if (at)
		compare_births(tally, at);
	for (size_t site = 0; site < site_nr; site++)
		leak_growth_add(&tally->history[site].growth, &tally->window, at, tally->bytes[site],
				tally->count[site]);
	if (at + 1 == tally->window.snapshot_nr)
		return 0;
	tally->before = tally->now;
	tally->now = before;
	tally->now.key_nr = 0;
	memset(tally->bytes, 0, site_nr * sizeof(*tally->bytes));
	memset(tally->count, 0, site_nr * sizeof(*tally->count));
	memset(tally->older_count, 0, site_nr * sizeof(*tally->older_count));
	return 0;
}

/* Allocations from before the first snapshot of a part do not count. */
static void subtract_allocated(struct leak_tally *tally, const struct snapshot *snapshot, const uint32_t *traceback)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	for (uint32_t i = 0; i < tables->traceback_nr && tables->churn; i++)
		if (traceback[i] != LEAK_SITE_NONE)
			tally->allocated[traceback[i]] -= tables->churn[i].allocations;
}

int leak_tally_add(struct leak_tally *tally, uint32_t at, const struct snapshot *snapshot, struct reason *why)
{
	int err = check_births(snapshot, why);
	uint32_t *traceback;

	if (err)
		return err;
	traceback = leak_sites_map(&tally->sites, snapshot);
	if (!traceback)
		return -ENOMEM;
	err = count_blocks(tally, snapshot, traceback, why);
	if (!at && tally->times->is_part)
		subtract_allocated(tally, snapshot, traceback);
	free(traceback);
	return err ?: end_snapshot(tally, at);
}

/* ---- evidence ------------------------------------------------------------------------------- */

static void read_leak_blocks(struct leak_tally *tally, uint32_t site, size_t *nr)
{
	const struct snapshot_tables *tables = snapshot__tables(tally->last);

	for (uint64_t i = tally->first[site]; i < tally->first[site + 1]; i++) {
		uint64_t at = tally->order[i];
		struct leak_block *block = &tally->block[(*nr)++];

		read_birth(tally, tables->trace_birth_ns[at], &block->birth_ns);
		block->weight = weight_of(tables, at);
		block->bytes = tables->trace_size[at] * block->weight;
	}
}

/* Together the sites may have gone at once: the most pessimistic sum. */
static void add_history(struct leak_history *sum, const struct leak_history *history)
{
	for (int i = 0; i < LEAK_HORIZONS; i++)
		sum->freed[i] += history->freed[i];
	if (history->gone_most && (!sum->gone_most || history->gone_most_at < sum->gone_most_at))
		sum->gone_most_at = history->gone_most_at;
	sum->gone += history->gone;
	sum->gone_most += history->gone_most;
	sum->growth = history->growth;
}

/* Blocks that the traceback allocated in the time observed; without that, those that were seen. */
static double count_allocated(const struct leak_tally *tally, uint32_t site)
{
	uint64_t span = tally->window.span_ns, first = tally->snapshot_ns[0];
	double seen = tally->count[site] + tally->history[site].gone;
	double allocated = tally->allocated[tally->sites.site[site].traceback];

	if (tally->times->is_part) /* known from the first snapshot on */
		allocated = span > first ? allocated * span / (span - first) : 0;
	return allocated > seen ? allocated : seen;
}

int leak_tally_judge(struct leak_tally *tally, const uint32_t *site, size_t nr, struct leak_verdict *ret)
{
	struct leak_history history = {};
	struct leak_evidence evidence = { .history = &history };
	size_t room = 0;

	for (size_t i = 0; i < nr; i++)
		room += tally->first[site[i] + 1] - tally->first[site[i]];
	if (array_reserve(&tally->block, &tally->block_alloc, room + 1))
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		read_leak_blocks(tally, site[i], &evidence.block_nr);
		add_history(&history, &tally->history[site[i]]);
		evidence.allocated += count_allocated(tally, site[i]);
		evidence.live += tally->count[site[i]] + tally->older_count[site[i]];
	}
	if (nr > 1)
		history.growth = (struct leak_growth){};
	qsort(tally->block, evidence.block_nr, sizeof(*tally->block), array_by_number);
	evidence.block = tally->block;
	*ret = leak_judge(&tally->window, &evidence);
	return 0;
}

double leak_tally_growth(const struct leak_tally *tally, uint32_t site)
{
	const struct leak_growth *growth = &tally->history[site].growth;

	return growth->last_bytes - (growth->first_ns == tally->snapshot_ns[0] ? growth->first_bytes : 0);
}

void leak_tally_births(const struct leak_tally *tally, uint32_t site, const struct leak_verdict *verdict,
		       uint64_t sixteenth[16])
{
	const struct snapshot_tables *tables = snapshot__tables(tally->last);
	uint64_t span = tally->window.span_ns, birth = 0;

	for (uint64_t i = tally->first[site]; i < tally->first[site + 1]; i++) {
		uint64_t at;

		read_birth(tally, tables->trace_birth_ns[tally->order[i]], &birth);
		at = scale_time(birth, span, 16);
		if (birth <= span - verdict->horizon_ns)
			sixteenth[at < 16 ? at : 15]++;
	}
}
