// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "top/top_series.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "snapshot.h"

static struct snapshot *open_point(void *series_, uint32_t at, struct reason *why)
{
	const struct top_series *series = series_;

	return snapshot__open(series->point[at].path, why);
}

static void remove_point(struct top_series *series, size_t at)
{
	unlink(series->point[at].path);
	free(series->point[at].path);
	series->point_nr--;
	memmove(&series->point[at], &series->point[at + 1], (series->point_nr - at) * sizeof(*series->point));
}

/* Removes the one that is nearest to its neighbours in time; the first and the last stay. */
static void thin_points(struct top_series *series)
{
	const struct series_point *point = series->point;
	size_t nearest = 1;

	if (series->point_nr <= SERIES_MOST)
		return;
	for (size_t i = 1; i + 1 < series->point_nr; i++)
		if (point[i + 1].now_ns - point[i - 1].now_ns < point[nearest + 1].now_ns - point[nearest - 1].now_ns)
			nearest = i;
	remove_point(series, nearest);
}

/* Older snapshots have other blocks. What is observed begins with the last of them. */
static void series_begin_anew(struct top_series *series)
{
	struct leak_times *times = &series->recording.times;

	times->begin_ns = series->point[series->point_nr - 1].now_ns;
	times->is_part = true;
	while (series->point_nr)
		remove_point(series, 0);
}

static int set_series_times(struct top_series *series)
{
	uint64_t *now_ns = reallocarray(series->now_ns, series->point_nr, sizeof(*now_ns));

	if (!now_ns)
		return -ENOMEM;
	series->now_ns = now_ns;
	for (size_t i = 0; i < series->point_nr; i++)
		now_ns[i] = series->point[i].now_ns;
	series->recording.times.now_ns = now_ns;
	series->recording.times.snapshot_nr = series->point_nr;
	series->recording.open = open_point;
	series->recording.what = series;
	return 0;
}

int top_series_add(struct top_series *series, const char *path, const struct snapshot *snapshot)
{
	struct series_point point = { .now_ns = snapshot__metadata_u64(snapshot, "monotonic_ns", 0) };
	uint64_t clears = snapshot__metadata_u64(snapshot, "clear_count", 0);
	uint64_t execs = snapshot__metadata_u64(snapshot, "exec_count", 0);

	if (series->point_nr && (clears != series->clears || execs != series->execs))
		series_begin_anew(series);
	else if (!series->point_nr)
		series->recording.times.begin_ns =
			snapshot__metadata_u64(snapshot, "recording_start_monotonic_ns", point.now_ns);
	series->clears = clears;
	series->execs = execs;
	point.path = strdup(path);
	if (!point.path || array_push(series, point, point)) {
		free(point.path);
		return -ENOMEM;
	}
	thin_points(series);
	return set_series_times(series);
}

uint32_t top_series_find_base(const struct top_series *series, uint64_t window_ns)
{
	const struct leak_times *times = &series->recording.times;
	uint64_t last_ns = times->snapshot_nr ? times->now_ns[times->snapshot_nr - 1] : 0;
	uint32_t at = 0;

	while (at + 1 < times->snapshot_nr && times->now_ns[at + 1] + window_ns <= last_ns)
		at++;
	return at;
}

const char *top_series_last_path(const struct top_series *series)
{
	return series->point_nr ? series->point[series->point_nr - 1].path : NULL;
}

void top_series_remove(struct top_series *series)
{
	while (series->point_nr)
		remove_point(series, series->point_nr - 1);
	free(series->point);
	free(series->now_ns);
	*series = (struct top_series){};
}
