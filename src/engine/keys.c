// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine/frame.h"
#include "snapshot.h"

struct key_traceback {
	size_t first; /* in traceback_view and traceback_frame */
	uint32_t nframe;
};

void keyspace_init(struct keyspace *keys, const struct engine_options *options)
{
	*keys = (struct keyspace){
		.options = options,
		.type = key_type_row(options->key_type),
		.by_function = options->key_type == KEY_TRACEBACK && !options->tracemalloc,
	};
}

void keyspace_release(struct keyspace *keys)
{
	free(keys->frame);
	free(keys->traceback);
	free(keys->traceback_view);
	free(keys->traceback_frame);
	free(keys->scratch.bytes);
	strpool_release(&keys->texts);
	idmap_release(&keys->frame_ids);
	idmap_release(&keys->traceback_ids);
	memset(keys, 0, sizeof(*keys));
}

int key_source_init(struct key_source *source, struct source *traces)
{
	size_t frame_nr = traces->tables->frame_nr ?: 1;

	*source = (struct key_source){ .traces = traces, .classes.source = traces };
	source->frame_key = malloc(frame_nr * sizeof(*source->frame_key));
	source->frame_view = malloc(frame_nr * sizeof(*source->frame_view));
	if (!source->frame_key || !source->frame_view)
		return -ENOMEM;
	for (size_t i = 0; i < frame_nr; i++)
		source->frame_key[i] = IDMAP_NONE;
	return 0;
}

void key_source_release(struct key_source *source)
{
	free(source->frame_key);
	free(source->frame_view);
	classes_release(&source->classes);
	memset(source, 0, sizeof(*source));
}

/* ---- canonical frames --------------------------------------------------------------------- */

static bool keyspace_same_frame(uint32_t id, const void *key, const void *table)
{
	const struct keyspace *keys = table;

	return keys->by_function ? !frame_compare_with_function(&keys->frame[id], key) :
				   !frame_compare(&keys->frame[id], key);
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

static int keyspace_intern_frame(struct keyspace *keys, const struct frame_view *view, uint32_t *ret_id)
{
	uint64_t hash = frame_hash(view, keys->by_function);
	uint32_t id = idmap_find(&keys->frame_ids, hash, keyspace_same_frame, view, keys);

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

/* ---- texts -------------------------------------------------------------------------------- */

static int intern_scratch(struct keyspace *keys, uint32_t *ret_id)
{
	uint32_t string;
	int err = strpool_add(&keys->texts, keys->scratch.bytes, keys->scratch.bytes_nr, &string);

	if (!err)
		*ret_id = string - 1;
	return err;
}

static int intern_frame_text(struct keyspace *keys, const struct frame_view *view,
			     uint32_t *ret_id)
{
	keys->scratch.bytes_nr = 0;
	return keys->type->frame_text(view, &keys->scratch) ?: intern_scratch(keys, ret_id);
}

static int find_class(struct keyspace *keys, const struct key_source *source, uint32_t class,
		      uint32_t *ret_id)
{
	keys->scratch.bytes_nr = 0;
	return keys->type->classes->name(&source->classes, class, &keys->scratch) ?:
	       intern_scratch(keys, ret_id);
}

/* ---- the key of a frame ------------------------------------------------------------------- */

static struct frame_view key_view(const struct keyspace *keys, const struct key_source *source, uint32_t frame)
{
	const uint32_t *key_frame = keys->options->key_frame;

	return frame_read(source->traces->snapshot, key_frame ? key_frame[frame] : frame,
			  keys->options->key_type);
}

static int find_frame(struct keyspace *keys, struct key_source *source, uint32_t frame,
		      uint32_t *ret_id)
{
	uint32_t *memo = &source->frame_key[frame];
	bool is_traceback = keys->type->kind == KEY_IS_TRACEBACK;
	struct frame_view once, *view = is_traceback ? &source->frame_view[frame] : &once;
	int err = 0;

	if (*memo == IDMAP_NONE) {
		*view = key_view(keys, source, frame);
		err = keys->type->frame_text ? intern_frame_text(keys, view, memo) :
					       keyspace_intern_frame(keys, view, memo);
	}
	*ret_id = *memo;
	return err;
}

/* ---- canonical tracebacks ----------------------------------------------------------------- */

/* list: canonical frames, oldest first */
static bool keyspace_same_traceback(uint32_t id, const void *key, const void *table)
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
 * Names come from the traceback itself, not from its canonical frames: without by_function one of these stands for
 * several functions, and an object or an offset may be another in each traceback.
 */
static void view_traceback(struct keyspace *keys, const struct key_source *source,
			   const struct key_traceback *row, const uint32_t *frame)
{
	for (uint32_t i = 0; i < row->nframe; i++) {
		const struct frame_view *view = &source->frame_view[frame[row->nframe - 1 - i]];
		size_t at = row->first + i;

		if (at == keys->traceback_view_nr)
			keys->traceback_view[keys->traceback_view_nr++] = *view;
		else
			frame_merge(&keys->traceback_view[at], view);
	}
}

static int find_traceback(struct keyspace *keys, const struct key_source *source,
			  const struct frame_span *span, struct key_list *list)
{
	uint64_t hash = hash_bytes(list->id, list->id_nr * sizeof(*list->id), 0);
	uint32_t id = idmap_find(&keys->traceback_ids, hash, keyspace_same_traceback, list, keys);

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

static int find_in_traceback(struct keyspace *keys, struct key_source *source, uint32_t traceback,
			     struct key_list *list)
{
	bool is_traceback = keys->type->kind == KEY_IS_TRACEBACK;
	struct frame_span span = source_frames(source->traces, traceback);
	size_t nr = is_traceback || keys->options->cumulative ? span.nframe : 1;
	int err = array_reserve(&list->id, &list->id_alloc, nr);

	for (size_t i = 0; i < nr && !err; i++)
		err = find_frame(keys, source, span.frame[nr - 1 - i], &list->id[i]);
	if (err)
		return err;
	list->id_nr = nr;
	return is_traceback ? find_traceback(keys, source, &span, list) : 0;
}

int keyspace_find(struct keyspace *keys, struct key_source *source, uint32_t at,
		  struct key_list *list)
{
	int err;

	if (keys->type->kind != KEY_IS_CLASS)
		return find_in_traceback(keys, source, at, list);
	err = array_reserve(&list->id, &list->id_alloc, 1);
	if (!err)
		err = find_class(keys, source, at, &list->id[0]);
	if (!err)
		list->id_nr = 1;
	return err;
}

size_t keyspace_nr(const struct keyspace *keys)
{
	switch (keys->type->kind) {
	case KEY_IS_FRAME:
		return keys->frame_nr;
	case KEY_IS_TRACEBACK:
		return keys->traceback_nr;
	case KEY_IS_FRAME_TEXT:
	case KEY_IS_CLASS:
		break;
	}
	return keys->texts.start_nr ? keys->texts.start_nr - 1 : 0;
}

/* Frames of Python's tracemalloc have neither function nor place. */
static bool is_native(const struct frame_view *frame)
{
	return frame->function || frame->object || frame->offset;
}

static const struct frame_view *choose_head(const struct keyspace *keys, const struct statistic *statistic)
{
	const struct frame_view *recent = &statistic->frame[statistic->nframe - 1];

	return !keys->options->tracemalloc && is_native(recent) ? recent : statistic->frame;
}

void keyspace_view(const struct keyspace *keys, size_t key, struct statistic *statistic)
{
	switch (keys->type->kind) {
	case KEY_IS_FRAME:
		statistic->frame = &keys->frame[key];
		statistic->nframe = 1;
		statistic->head = statistic->frame;
		break;
	case KEY_IS_TRACEBACK:
		statistic->frame = keys->traceback_view + keys->traceback[key].first;
		statistic->nframe = keys->traceback[key].nframe;
		statistic->head = choose_head(keys, statistic);
		break;
	case KEY_IS_FRAME_TEXT:
	case KEY_IS_CLASS:
		statistic->key = strpool_get(&keys->texts, key + 1);
		break;
	}
}

struct key_memory keyspace_take_memory(struct keyspace *keys)
{
	bool is_traceback = keys->type->kind == KEY_IS_TRACEBACK;
	struct frame_view **views = is_traceback ? &keys->traceback_view : &keys->frame;
	struct key_memory memory = { .views = *views, .texts = keys->texts.bytes };

	*views = NULL;
	keys->texts.bytes = NULL;
	return memory;
}
