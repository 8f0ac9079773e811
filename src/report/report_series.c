// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/report_series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "snapshot.h"
#include "snapshot/snapshot_identity.h"

static void series_item_release(struct series_item *item)
{
	free(item->path);
	free(item->process);
}

void report_series_release(struct series *series)
{
	for (size_t i = 0; i < series->item_nr; i++)
		series_item_release(&series->item[i]);
	free(series->item);
	*series = (struct series){};
}

static bool is_timed_trigger(const char *trigger)
{
	return !trigger || !strcmp(trigger, "interval") || !strcmp(trigger, "none");
}

int series_add(struct series *series, const char *path, const struct snapshot *snapshot)
{
	struct series_item item = {
		.moment = snapshot_moment(snapshot),
		.path = strdup(path),
		.process = snapshot_identity(snapshot, IDENTITY_PROCESS),
		.begin_ns = snapshot__metadata_u64(snapshot, "recording_start_monotonic_ns", 0),
		.is_timed = is_timed_trigger(snapshot__metadata(snapshot, "trigger")),
	};
	int err = item.path && item.process ? array_push(series, item, item) : -ENOMEM;

	if (err)
		series_item_release(&item);
	else
		series->given_nr++;
	return err;
}

bool series_is_one_process(const struct series *series)
{
	for (size_t i = 1; i < series->item_nr; i++)
		if (strcmp(series->item[i].process, series->item[0].process))
			return false;
	return true;
}

static int compare_series_paths(const void *a, const void *b)
{
	return strcmp(((const struct series_item *)a)->path, ((const struct series_item *)b)->path);
}

int series_sort(struct series *series)
{
	static const struct moment_order order = {
		.item_size = sizeof(struct series_item),
		.compare_rest = compare_series_paths,
	};

	return moments_sort(series->item, series->item_nr, &order);
}

/* ---- fewer snapshots ------------------------------------------------------------------------------------------ */

/* Whether number `at` of `nr` is one of `most` that are spread evenly. */
static bool is_even_choice(size_t at, size_t nr, size_t most)
{
	return (at + 1) * most / nr > at * most / nr;
}

static bool is_event(const struct series *series, size_t at)
{
	return !at || at + 1 == series->item_nr || !series->item[at].is_timed;
}

/* Keeps `most` of the events, or of the others, evenly; of events also the first and the last. */
static void choose_items(const struct series *series, bool events, size_t nr, size_t most, bool *keep)
{
	size_t seen = 0;

	for (size_t i = 0; i < series->item_nr; i++) {
		if (is_event(series, i) != events)
			continue;
		if (!events || nr <= most)
			keep[i] = nr <= most || is_even_choice(seen, nr, most);
		else
			keep[i] = !i || i + 1 == series->item_nr ||
				  (seen && seen + 1 < nr && is_even_choice(seen - 1, nr - 2, most - 2));
		seen++;
	}
}

int series_thin(struct series *series, size_t most)
{
	size_t events = 0, kept = 0, event_room;
	bool *keep;

	if (series->item_nr <= most)
		return 0;
	keep = calloc(series->item_nr, sizeof(*keep));
	if (!keep)
		return -ENOMEM;
	for (size_t i = 0; i < series->item_nr; i++)
		events += is_event(series, i);
	event_room = events < most ? events : most;
	choose_items(series, true, events, event_room, keep);
	choose_items(series, false, series->item_nr - events, most - event_room, keep);
	for (size_t i = 0; i < series->item_nr; i++) {
		if (keep[i])
			series->item[kept++] = series->item[i];
		else
			series_item_release(&series->item[i]);
	}
	series->item_nr = kept;
	free(keep);
	return 0;
}
