// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/leak_place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine/wrappers.h"
#include "snapshot.h"

/* frame[] has the oldest first, the traceback the most recent. */
static void mark_library_frames(const struct leaks *leaks, uint32_t traceback, struct frame_view *frame, uint32_t nframe)
{
	const struct snapshot_tables *tables = snapshot__tables(leaks->last);
	const struct snap_traceback *row = &tables->traceback[traceback];

	for (uint32_t i = 0; i < row->nframe; i++)
		frame[nframe - 1 - i].is_library =
			leaks->frame_role[tables->traceback_frame[row->first + i]] >= ROLE_START ||
			wrapper_is_python_library(frame[nframe - 1 - i].filename);
}

static int read_place_caller(const struct leaks *leaks, const struct leak_caller *caller,
			     struct leak_place_caller *ret)
{
	uint32_t total, nframe;
	int err = traceback_read(leaks->last, caller->traceback, &ret->frame, &nframe, &total);

	if (!err)
		mark_library_frames(leaks, caller->traceback, ret->frame, nframe);
	ret->verdict = caller->verdict;
	ret->domain = caller->domain;
	ret->site_nr = caller->site_nr;
	ret->nframe = err ? 0 : nframe - caller->skipped;
	return err;
}

int leak_place_read(const struct leaks *leaks, const struct leak_line *line, size_t most, struct leak_place *ret)
{
	size_t nr = line->caller_nr < most ? line->caller_nr : most;
	int err = 0;

	*ret = (struct leak_place){ .caller = calloc(nr ?: 1, sizeof(*ret->caller)), .all_nr = line->caller_nr };
	if (!ret->caller)
		return -ENOMEM;
	for (; ret->caller_nr < nr && !err; ret->caller_nr++)
		err = read_place_caller(leaks, &leaks->caller[line->first + ret->caller_nr],
					&ret->caller[ret->caller_nr]);
	return err;
}

/* ---- names ---------------------------------------------------------------------------------- */

#define FRAME_NAMES 4

static void point_to_names(struct frame_view *frame, const char **ret_name[FRAME_NAMES])
{
	ret_name[0] = &frame->filename;
	ret_name[1] = &frame->function;
	ret_name[2] = &frame->object;
	ret_name[3] = &frame->build_id;
}

static size_t frame_names_size(struct frame_view *frame)
{
	const char **name[FRAME_NAMES];
	size_t size = 0;

	point_to_names(frame, name);
	for (size_t i = 0; i < FRAME_NAMES; i++)
		size += *name[i] ? strlen(*name[i]) + 1 : 0;
	return size;
}

/* Returns the end of what was written. */
static char *move_frame_names(struct frame_view *frame, char *to)
{
	const char **name[FRAME_NAMES];

	point_to_names(frame, name);
	for (size_t i = 0; i < FRAME_NAMES; i++) {
		if (!*name[i])
			continue;
		to = stpcpy(to, *name[i]) + 1;
		*name[i] = to - strlen(*name[i]) - 1;
	}
	return to;
}

int leak_place_own_names(struct leak_place *place)
{
	size_t size = 1;
	char *at;

	for (size_t i = 0; i < place->caller_nr; i++)
		for (uint32_t k = 0; k < place->caller[i].nframe; k++)
			size += frame_names_size(&place->caller[i].frame[k]);
	place->strings = at = malloc(size);
	if (!at)
		return -ENOMEM;
	for (size_t i = 0; i < place->caller_nr; i++)
		for (uint32_t k = 0; k < place->caller[i].nframe; k++)
			at = move_frame_names(&place->caller[i].frame[k], at);
	return 0;
}

void leak_place_release(struct leak_place *place)
{
	for (size_t i = 0; i < place->caller_nr; i++)
		free(place->caller[i].frame);
	free(place->caller);
	free(place->strings);
	*place = (struct leak_place){};
}

const struct frame_view *leak_place_frame(const struct leak_place *place, uint32_t at)
{
	const struct leak_place_caller *first = place->caller;

	if (!place->caller_nr || !first->nframe || at == UINT32_MAX)
		return NULL;
	return &first->frame[at < first->nframe ? at : first->nframe - 1];
}
