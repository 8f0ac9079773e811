// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Chooses the frames of a snapshot to look up, and counts the results. */
#include "symbolize/naming.h"

#include <errno.h>
#include <stdlib.h>

#include "symbolize/frames.h"
#include "symbolize/object_files.h"
#include "symbolize/rename.h"
#include "snapshot.h"
#include "symbols/symbols.h"

/* Indexed by the ids of the snapshot. */
struct plan {
	struct naming *naming;
	const struct snapshot *from;
	const struct snapshot_tables *t;
	bool *is_asked, *is_renamed; /* of each frame */
	uint32_t *names; /* of each object: index for symbols__lookup() */
	bool *is_left, *has_lines; /* of each object: a frame has no name; a frame has a line */
};

/* ---- choosing frames ---- */

static bool is_unnamed(const struct snap_frame *frame)
{
	return !frame->lineno && !frame->function && !(frame->flags & SNAP_FRAME_SKIPPED);
}

static bool may_be_named(const struct snap_frame *frame)
{
	return frame->object && !frame->lineno &&
	       !(frame->flags & (SNAP_FRAME_SKIPPED | SNAP_FRAME_INLINE));
}

/* Skips the last frame of a chain of inlined calls: it has its name, even if its line is not known. */
static void leave_chains(const struct plan *plan)
{
	const struct snapshot_tables *t = plan->t;

	for (uint32_t i = 0; i < t->traceback_nr; i++) {
		const uint32_t *frame = &t->traceback_frame[t->traceback[i].first];

		for (uint32_t k = 1; k < t->traceback[i].nframe; k++)
			if (t->frame[frame[k - 1]].flags & SNAP_FRAME_INLINE)
				plan->is_asked[frame[k]] = false;
	}
}

static int find_objects(const struct plan *plan, struct naming_counts *counts)
{
	const struct snapshot_tables *t = plan->t;
	bool *is_found = calloc(t->object_nr + 1, sizeof(*is_found));
	int err = is_found ? 0 : -ENOMEM;
	size_t nr = 0;

	for (uint32_t i = 1; i < t->frame_nr && !err; i++) {
		uint32_t at = t->frame[i].object;

		if (!plan->is_asked[i] || is_found[at])
			continue;
		is_found[at] = true;
		if (nr++ >= NAMING_OBJECTS_MAX) {
			counts->left_out++;
			continue;
		}
		err = naming_find_object(plan->naming,
					 snapshot__string(plan->from, t->object[at].path),
					 snapshot__string(plan->from, t->object[at].build_id),
					 &plan->names[at]);
	}
	free(is_found);
	return err;
}

static int choose_frames(const struct plan *plan, struct naming_counts *counts)
{
	for (uint32_t i = 1; i < plan->t->frame_nr; i++)
		plan->is_asked[i] = may_be_named(&plan->t->frame[i]);
	leave_chains(plan);
	for (uint32_t i = 0; i < plan->t->object_nr; i++)
		plan->names[i] = NAMES_NONE;
	return find_objects(plan, counts);
}

/* ---- results ---- */

static bool ask_of_frame(const void *plan_, size_t i, uint32_t *ret_names, uint64_t *ret_offset)
{
	const struct plan *plan = plan_;
	const struct snap_frame *frame = &plan->t->frame[i];

	*ret_names = plan->names[frame->object];
	*ret_offset = frame_return_offset(frame->offset, frame->flags & SNAP_FRAME_EXACT);
	return plan->is_asked[i] && *ret_names != NAMES_NONE;
}

/*
 * A function that has several names keeps the recorded one, which may be an exported alias: otherwise the same place
 * would be another function in the copy. Its symbol is the outermost one, unless the chain was cut off.
 */
static int look_up_frame(const void *plan_, uint32_t at, struct symbol ret_symbol[SYMBOL_INLINE_MAX])
{
	const struct plan *plan = plan_;
	const struct snap_frame *frame = &plan->t->frame[at];
	const struct frame_place place = {
		.names = plan->names[frame->object],
		.offset = frame->offset,
		.flags = frame->flags,
	};
	int nr = frame_place_names(&place, plan->naming->symbols, ret_symbol);

	if (nr > 0 && nr < SYMBOL_INLINE_MAX && frame->function)
		ret_symbol[nr - 1].function = snapshot__string(plan->from, frame->function);
	return nr;
}

/* 1: the files say more about a frame than the snapshot, 0, or -ENOMEM. */
static int has_news(const struct plan *plan, uint32_t at)
{
	const struct snap_frame *frame = &plan->t->frame[at];
	struct symbol symbol[SYMBOL_INLINE_MAX];
	int nr = look_up_frame(plan, at, symbol);

	if (nr < 0)
		return nr;
	plan->has_lines[frame->object] |= nr > 1 || symbol[0].lineno;
	plan->is_left[frame->object] |= !symbol[0].function && !symbol[0].lineno && !frame->function;
	return nr > 1 || symbol[0].lineno || (symbol[0].function && !frame->function);
}

static int count_news(const struct plan *plan, struct naming_counts *counts)
{
	int news;

	for (uint32_t i = 1; i < plan->t->frame_nr; i++) {
		const struct snap_frame *frame = &plan->t->frame[i];

		counts->unnamed += is_unnamed(frame);
		news = plan->is_asked[i] ? has_news(plan, i) : 0;
		if (news < 0)
			return news;
		plan->is_renamed[i] = news;
		if (is_unnamed(frame))
			counts->named += news;
		else
			counts->lined += news;
		counts->by_path += news && !plan->t->object[frame->object].build_id;
	}
	return 0;
}

/* Finds out why an object has few names, if possible. */
static void doubt_objects(const struct plan *plan)
{
	for (uint32_t i = 1; i < plan->t->object_nr; i++)
		if (plan->is_left[i] && !plan->has_lines[i])
			naming_doubt_object(plan->naming, snapshot__string(plan->from, plan->t->object[i].path),
					    snapshot__string(plan->from, plan->t->object[i].build_id));
}

static int rename_all(const struct plan *plan, struct naming_counts *counts, struct snapshot **ret)
{
	struct renaming renaming = {
		.from = plan->from,
		.names_of = look_up_frame,
		.who = plan,
		.is_renamed = plan->is_renamed,
		.rows_max = plan->naming->options.rows_max ?: NAMING_ROWS_MAX,
	};
	int err = choose_frames(plan, counts) ?:
		  frames_look_ahead(plan->naming->symbols, plan->t->frame_nr, ask_of_frame, plan) ?:
		  count_news(plan, counts);

	if (!err)
		doubt_objects(plan);
	if (err || !(counts->named + counts->lined))
		return err;
	renaming.by_path_nr = counts->by_path;
	return rename_frames(&renaming, ret);
}

int naming__snapshot(struct naming *naming, const struct snapshot *snapshot,
		     struct naming_counts *ret_counts, struct snapshot **ret)
{
	struct plan plan = {
		.naming = naming,
		.from = snapshot,
		.t = snapshot__tables(snapshot),
	};
	int err = -ENOMEM;

	*ret = NULL;
	*ret_counts = (struct naming_counts){};
	plan.is_asked = calloc(plan.t->frame_nr + 1, sizeof(*plan.is_asked));
	plan.is_renamed = calloc(plan.t->frame_nr + 1, sizeof(*plan.is_renamed));
	plan.names = calloc(plan.t->object_nr + 1, sizeof(*plan.names));
	naming->snapshot++;
	plan.is_left = calloc(plan.t->object_nr + 1, sizeof(*plan.is_left));
	plan.has_lines = calloc(plan.t->object_nr + 1, sizeof(*plan.has_lines));
	if (plan.is_asked && plan.is_renamed && plan.names && plan.is_left && plan.has_lines)
		err = rename_all(&plan, ret_counts, ret);
	naming_close_objects(naming);
	free(plan.is_asked);
	free(plan.is_renamed);
	free(plan.names);
	free(plan.is_left);
	free(plan.has_lines);
	return err;
}
