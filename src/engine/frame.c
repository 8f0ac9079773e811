// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "engine.h"
#include "engine/function_name.h"
#include "snapshot.h"

bool frame_is_java_class(const struct frame_view *frame)
{
	return !frame->object && frame->function && !strcmp(frame->filename, JAVA_CLASS_FILE);
}

static const char *text_or_null(const char *text)
{
	return *text ? text : NULL;
}

struct frame_view frame_read(const struct snapshot *snapshot, uint32_t frame,
			     enum key_type key_type)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const struct snap_frame *row = &tables->frame[frame];
	struct frame_view view = { .filename = "<unknown>" };

	if (!frame)
		return view;
	view.filename = snapshot__string(snapshot, row->filename);
	if (key_type == KEY_FILENAME)
		return view;
	view.lineno = row->lineno;
	view.function = text_or_null(snapshot__string(snapshot, row->function));
	view.object = text_or_null(snapshot__string(snapshot, tables->object[row->object].path));
	view.offset = row->offset;
	view.build_id = text_or_null(snapshot__string(snapshot, tables->object[row->object].build_id));
	view.is_inlined = row->flags & SNAP_FRAME_INLINE;
	return view;
}

static uint64_t hash_text(const char *text, uint64_t seed)
{
	return text ? hash_bytes(text, strlen(text), seed) : seed;
}

uint64_t frame_hash(const struct frame_view *frame, bool by_function)
{
	uint64_t hash = hash_text(frame->filename, frame->lineno);

	if (frame->lineno && by_function)
		return hash_text(frame->function, hash);
	if (frame->lineno)
		return hash;
	hash = hash_text(frame->function, hash);
	hash = hash_text(frame->object, hash);
	return hash_bytes(&frame->offset, sizeof(frame->offset), hash);
}

char *function_base_name(const char *function)
{
	char *base = malloc(strlen(function) + 1);

	if (base)
		function_name_copy(base, function, NAME_BASE);
	return base;
}

static int compare_text(const char *a, const char *b)
{
	return a == b ? 0 : strcmp(a ?: "", b ?: "");
}

static int compare_frame_number(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

int frame_compare(const struct frame_view *a, const struct frame_view *b)
{
	int order = compare_text(a->filename, b->filename) ?: compare_frame_number(a->lineno, b->lineno);

	if (order || a->lineno)
		return order;
	return compare_text(a->function, b->function) ?: compare_text(a->object, b->object) ?:
	       compare_frame_number(a->offset, b->offset);
}

int frame_compare_with_function(const struct frame_view *a, const struct frame_view *b)
{
	return frame_compare(a, b) ?: compare_text(a->function, b->function);
}

static int compare_frames(const struct statistic *a, const struct statistic *b,
			  int (*compare)(const struct frame_view *a, const struct frame_view *b))
{
	for (uint32_t i = 0; i < a->nframe && i < b->nframe; i++) {
		int order = compare(&a->frame[i], &b->frame[i]);

		if (order)
			return order;
	}
	return compare_frame_number(a->nframe, b->nframe);
}

int traceback_compare(const struct statistic *a, const struct statistic *b)
{
	return compare_frames(a, b, frame_compare) ?: compare_frames(a, b, frame_compare_with_function);
}

/* Keeps one of two functions if they are variants of one. */
static void merge_function(struct frame_view *into, const struct frame_view *other)
{
	if (!into->function || !other->function || !function_names_share_base(into->function, other->function)) {
		into->function = NULL;
		into->has_variants = false;
		return;
	}
	if (strcmp(other->function, into->function) < 0)
		into->function = other->function;
	into->has_variants = true;
}

void frame_merge(struct frame_view *into, const struct frame_view *other)
{
	into->has_variants |= other->has_variants;
	if (compare_text(into->function, other->function))
		merge_function(into, other);
	if (compare_text(into->object, other->object))
		into->object = NULL;
	if (into->offset != other->offset)
		into->offset = 0;
	if (compare_text(into->build_id, other->build_id))
		into->build_id = NULL;
	into->is_inlined &= other->is_inlined;
}

int traceback_read(const struct snapshot *snapshot, uint32_t traceback,
		   struct frame_view **ret_frame, uint32_t *ret_nframe,
		   uint32_t *ret_total_nframe)
{
	static const uint32_t none;
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const struct snap_traceback *row = &tables->traceback[traceback];
	const uint32_t *id = row->nframe ? &tables->traceback_frame[row->first] : &none;
	uint32_t nframe = row->nframe ?: 1;
	struct frame_view *frame = calloc(nframe, sizeof(*frame));

	if (!frame)
		return -ENOMEM;
	for (uint32_t i = 0; i < nframe; i++)
		frame[nframe - 1 - i] = frame_read(snapshot, id[i], KEY_TRACEBACK);
	*ret_frame = frame;
	*ret_nframe = nframe;
	*ret_total_nframe = row->total_nframe;
	return 0;
}
