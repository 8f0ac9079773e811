// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/keyspace.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine/frame.h"
#include "engine/wrappers.h"
#include "snapshot.h"

struct key_traceback {
	size_t first; /* in traceback_view and traceback_frame */
	uint32_t nframe;
};

/* Frames of a snapshot, most recent call first. */
struct frame_span {
	const uint32_t *frame;
	uint32_t nframe;
};

enum wrapper_memo {
	WRAPPER_NOT_ASKED = 0,
	WRAPPER_NO,
	WRAPPER_YES,
};

void keyspace_init(struct keyspace *keys, const struct engine_options *options)
{
	*keys = (struct keyspace){ .options = options };
}

void keyspace_release(struct keyspace *keys)
{
	free(keys->frame);
	free(keys->traceback);
	free(keys->traceback_view);
	free(keys->traceback_frame);
	idmap_release(&keys->frame_ids);
	idmap_release(&keys->traceback_ids);
	memset(keys, 0, sizeof(*keys));
}

int key_source_init(struct key_source *source, const struct snapshot *snapshot)
{
	size_t frame_nr = snapshot__tables(snapshot)->frame_nr ?: 1;

	*source = (struct key_source){ .snapshot = snapshot };
	source->frame_key = malloc(frame_nr * sizeof(*source->frame_key));
	source->wrapper = calloc(frame_nr, sizeof(*source->wrapper));
	if (!source->frame_key || !source->wrapper) {
		key_source_release(source);
		return -ENOMEM;
	}
	for (size_t i = 0; i < frame_nr; i++)
		source->frame_key[i] = IDMAP_NONE;
	return 0;
}

void key_source_release(struct key_source *source)
{
	free(source->frame_key);
	free(source->wrapper);
	memset(source, 0, sizeof(*source));
}

/* ---- what a traceback is made of ---------------------------------------------------------- */

static bool is_wrapper(const struct keyspace *keys, struct key_source *source, uint32_t frame)
{
	uint8_t *memo = &source->wrapper[frame];
	struct frame_view view;
	bool is;

	if (*memo == WRAPPER_NOT_ASKED) {
		view = frame_read(source->snapshot, frame, KEY_TRACEBACK);
		is = function_is_wrapper(view.function, keys->options);
		*memo = is ? WRAPPER_YES : WRAPPER_NO;
	}
	return *memo == WRAPPER_YES;
}

static struct frame_span frames_of(const struct keyspace *keys, struct key_source *source,
				   uint32_t traceback)
{
	static const uint32_t none;
	const struct snapshot_tables *tables = snapshot__tables(source->snapshot);
	const struct snap_traceback *row = &tables->traceback[traceback];
	const uint32_t *frame;
	uint32_t skip = 0;

	if (!row->nframe)
		return (struct frame_span){ .frame = &none, .nframe = 1 };
	frame = &tables->traceback_frame[row->first];
	while (skip < row->nframe && is_wrapper(keys, source, frame[skip]))
		skip++;
	if (skip == row->nframe)
		skip = 0;
	else if (skip && tables->frame[frame[skip]].flags & SNAP_FRAME_SKIPPED)
		skip--; /* the wrapper is all that is known of who asked */
	return (struct frame_span){ .frame = frame + skip, .nframe = row->nframe - skip };
}

/* ---- canonical frames --------------------------------------------------------------------- */

static bool same_frame(uint32_t id, const void *key, const void *table)
{
	const struct keyspace *keys = table;

	return !frame_compare(&keys->frame[id], key);
}

static int append_frame(struct keyspace *keys, const struct frame_view *view, uint64_t hash)
{
	int err;

	if (keys->frame_nr >= IDMAP_NONE)
		return -ENOMEM;
	err = array_reserve(&keys->frame, &keys->frame_alloc, keys->frame_nr + 1);
	if (!err)
		err = idmap_add(&keys->frame_ids, hash, keys->frame_nr);
	if (!err)
		keys->frame[keys->frame_nr++] = *view;
	return err;
}

static int intern_frame(struct keyspace *keys, const struct frame_view *view, uint32_t *ret_id)
{
	uint64_t hash = frame_hash(view);
	uint32_t id = idmap_find(&keys->frame_ids, hash, same_frame, view, keys);

	if (id == IDMAP_NONE) {
		int err = append_frame(keys, view, hash);

		if (err)
			return err;
		id = keys->frame_nr - 1;
	} else {
		frame_merge(&keys->frame[id], view);
	}
	*ret_id = id;
	return 0;
}

static int find_frame(struct keyspace *keys, struct key_source *source, uint32_t frame,
		      uint32_t *ret_id)
{
	uint32_t *memo = &source->frame_key[frame];
	struct frame_view view;
	int err = 0;

	if (*memo == IDMAP_NONE) {
		view = frame_read(source->snapshot, frame, keys->options->key_type);
		err = intern_frame(keys, &view, memo);
	}
	*ret_id = *memo;
	return err;
}

/* ---- canonical tracebacks ----------------------------------------------------------------- */

/* list: canonical frames, oldest first */
static bool same_traceback(uint32_t id, const void *key, const void *table)
{
	const struct keyspace *keys = table;
	const struct key_traceback *row = &keys->traceback[id];
	const struct key_list *list = key;
	const uint32_t *frame = keys->traceback_frame + row->first;

	return row->nframe == list->id_nr &&
	       !memcmp(frame, list->id, list->id_nr * sizeof(*frame));
}

static int append_traceback(struct keyspace *keys, const struct key_list *list, uint64_t hash)
{
	size_t first = keys->traceback_frame_nr, end = first + list->id_nr;
	int err;

	if (keys->traceback_nr >= IDMAP_NONE)
		return -ENOMEM;
	err = array_reserve(&keys->traceback_frame, &keys->traceback_frame_alloc, end);
	if (!err)
		err = array_reserve(&keys->traceback_view, &keys->traceback_view_alloc, end);
	if (!err)
		err = array_reserve(&keys->traceback, &keys->traceback_alloc,
				    keys->traceback_nr + 1);
	if (!err)
		err = idmap_add(&keys->traceback_ids, hash, keys->traceback_nr);
	if (err)
		return err;
	memcpy(keys->traceback_frame + first, list->id, list->id_nr * sizeof(*list->id));
	keys->traceback_frame_nr = end;
	keys->traceback[keys->traceback_nr++] =
		(struct key_traceback){ .first = first, .nframe = list->id_nr };
	return 0;
}

/*
 * The names come from the traceback itself, not from its canonical frames: an inlined function
 * has one line and, in C++, many names.
 */
static void view_traceback(struct keyspace *keys, const struct key_source *source,
			   const struct key_traceback *row, const uint32_t *frame)
{
	for (uint32_t i = 0; i < row->nframe; i++) {
		struct frame_view view = frame_read(source->snapshot, frame[row->nframe - 1 - i],
						    KEY_TRACEBACK);
		size_t at = row->first + i;

		if (at == keys->traceback_view_nr)
			keys->traceback_view[keys->traceback_view_nr++] = view;
		else
			frame_merge(&keys->traceback_view[at], &view);
	}
}

static int find_traceback(struct keyspace *keys, const struct key_source *source,
			  const struct frame_span *span, struct key_list *list)
{
	uint64_t hash = hash_bytes(list->id, list->id_nr * sizeof(*list->id), 0);
	uint32_t id = idmap_find(&keys->traceback_ids, hash, same_traceback, list, keys);

	if (id == IDMAP_NONE) {
		int err = append_traceback(keys, list, hash);

		if (err)
			return err;
		id = keys->traceback_nr - 1;
	}
	view_traceback(keys, source, &keys->traceback[id], span->frame);
	list->id[0] = id;
	list->id_nr = 1;
	return 0;
}

/* ---- the whole ---------------------------------------------------------------------------- */

int keyspace_find(struct keyspace *keys, struct key_source *source, uint32_t traceback,
		  struct key_list *list)
{
	bool is_traceback = keys->options->key_type == KEY_TRACEBACK;
	struct frame_span span = frames_of(keys, source, traceback);
	size_t nr = is_traceback || keys->options->cumulative ? span.nframe : 1;
	int err = array_reserve(&list->id, &list->id_alloc, nr);

	for (size_t i = 0; i < nr && !err; i++)
		err = find_frame(keys, source, span.frame[nr - 1 - i], &list->id[i]);
	if (err)
		return err;
	list->id_nr = nr;
	return is_traceback ? find_traceback(keys, source, &span, list) : 0;
}

size_t keyspace_nr(const struct keyspace *keys)
{
	return keys->options->key_type == KEY_TRACEBACK ? keys->traceback_nr : keys->frame_nr;
}

void keyspace_view(const struct keyspace *keys, size_t key, struct statistic *statistic)
{
	if (keys->options->key_type == KEY_TRACEBACK) {
		statistic->frame = keys->traceback_view + keys->traceback[key].first;
		statistic->nframe = keys->traceback[key].nframe;
	} else {
		statistic->frame = &keys->frame[key];
		statistic->nframe = 1;
	}
}

struct frame_view *keyspace_take_views(struct keyspace *keys)
{
	bool is_traceback = keys->options->key_type == KEY_TRACEBACK;
	struct frame_view **views = is_traceback ? &keys->traceback_view : &keys->frame;
	struct frame_view *taken = *views;

	*views = NULL;
	return taken;
}
