// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbolize/share_names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "engine/frame.h"
#include "snapshot.h"
#include "symbolize/frames.h"
#include "symbolize/naming.h"

/* The frames of one place: inlined calls, then the frame that they were inlined into. */
struct chain {
	uint64_t first; /* index into the traceback frames */
	uint32_t nr;	/* 0: no traceback has the frame, or it is an inlined call itself */
};

struct named_side {
	const struct snapshot *snapshot;
	const struct snapshot_tables *t;
	struct chain *chain; /* by the id of its last frame */
	struct idmap places; /* place → the id of the last frame */
	bool *has_lines;     /* by object */
	struct idmap lined;  /* object that has lines → its id */
	uint32_t *other;     /* by frame: the frame of the other side that names the same place; 0: none */
	bool *is_renamed;    /* by frame */
};

/* The side that is renamed, and where its names come from. */
struct lending {
	const struct named_side *to, *from;
};

/* ---- places ---------------------------------------------------------------------------------- */

static const char *path_of_object(const struct named_side *side, uint32_t object)
{
	return snapshot__string(side->snapshot, side->t->object[object].path);
}

static const char *build_id_of_object(const struct named_side *side, uint32_t object)
{
	return snapshot__string(side->snapshot, side->t->object[object].build_id);
}

static uint64_t hash_object(const struct named_side *side, uint32_t object, uint64_t seed)
{
	const char *id = build_id_of_object(side, object);

	return hash_bytes(id, strlen(id), seed);
}

static uint64_t hash_named_place(const struct named_side *side, const struct snap_frame *frame)
{
	return hash_object(side, frame->object, frame->offset);
}

/* Without a build-id nothing says that a path was the same file. */
static bool is_same_object(const struct named_side *a, uint32_t a_object, const struct named_side *b, uint32_t b_object)
{
	const char *id = build_id_of_object(a, a_object);

	return *id && !strcmp(id, build_id_of_object(b, b_object));
}

struct place_key {
	const struct named_side *asked, *searched;
	const struct snap_frame *frame;
};

static bool is_same_named_place(uint32_t id, const void *key_, const void *table)
{
	const struct place_key *key = key_;
	const struct snap_frame *frame = &key->searched->t->frame[id];

	(void)table;
	return frame->offset == key->frame->offset &&
	       !((frame->flags ^ key->frame->flags) & SNAP_FRAME_EXACT) &&
	       is_same_object(key->searched, frame->object, key->asked, key->frame->object);
}

static uint32_t find_named_place(const struct named_side *searched, const struct named_side *asked,
			   const struct snap_frame *frame)
{
	const struct place_key key = { asked, searched, frame };

	return idmap_find(&searched->places, hash_named_place(asked, frame), is_same_named_place, &key, NULL);
}

/* ---- one side -------------------------------------------------------------------------------- */

/* Whether the newer frame was inlined into the older one. */
static bool is_inlined_into(const struct snap_frame *newer, const struct snap_frame *older)
{
	return newer->flags & SNAP_FRAME_INLINE && newer->object == older->object &&
	       newer->offset == older->offset;
}

static int add_chain(struct named_side *side, uint64_t first, uint64_t last)
{
	uint32_t id = side->t->traceback_frame[last];
	const struct snap_frame *frame = &side->t->frame[id];
	int err = 0;

	if (!frame->object || !frame->offset || frame->flags & (SNAP_FRAME_INLINE | SNAP_FRAME_SKIPPED))
		return 0;
	side->chain[id] = (struct chain){ first, last - first + 1 };
	if (!*build_id_of_object(side, frame->object))
		return 0;
	if (find_named_place(side, side, frame) == IDMAP_NONE) /* another frame of the place may be a guessed one */
		err = idmap_add(&side->places, hash_named_place(side, frame), id);
	if ((!frame->lineno && first == last) || side->has_lines[frame->object])
		return err;
	side->has_lines[frame->object] = true;
	return err ?: idmap_add(&side->lined, hash_object(side, frame->object, 0), frame->object);
}

static int find_chains(struct named_side *side)
{
	const struct snapshot_tables *t = side->t;
	int err = 0;

	for (uint32_t i = 0; i < t->traceback_nr && !err; i++) {
		uint64_t first = t->traceback[i].first, end = first + t->traceback[i].nframe;

		for (uint64_t at = first; at < end && !err; at++) {
			uint32_t id = t->traceback_frame[at];
			const struct snap_frame *frame = &t->frame[id];

			if (!side->chain[id].nr && at + 1 < end && is_inlined_into(frame, &t->frame[t->traceback_frame[at + 1]]))
				continue;
			err = side->chain[id].nr ? 0 : add_chain(side, first, at);
			first = at + 1;
		}
	}
	return err;
}

/* Whether names can be lent to a frame of the snapshot. */
static bool has_nameless(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);

	for (uint32_t id = 1; id < t->frame_nr; id++)
		if (!t->frame[id].lineno && t->frame[id].object && t->frame[id].offset)
			return true;
	return false;
}

static int named_side_init(struct named_side *side, const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);

	*side = (struct named_side){
		.snapshot = snapshot, .t = t,
		.chain = calloc(t->frame_nr + 1ull, sizeof(*side->chain)),
		.has_lines = calloc(t->object_nr + 1ull, sizeof(*side->has_lines)),
		.other = calloc(t->frame_nr + 1ull, sizeof(*side->other)),
		.is_renamed = calloc(t->frame_nr + 1ull, sizeof(*side->is_renamed)),
	};
	if (!side->chain || !side->has_lines || !side->other || !side->is_renamed)
		return -ENOMEM;
	return find_chains(side);
}

static void named_side_release(struct named_side *side)
{
	free(side->chain);
	free(side->has_lines);
	free(side->other);
	free(side->is_renamed);
	idmap_release(&side->places);
	idmap_release(&side->lined);
}

/* ---- lending names --------------------------------------------------------------------------- */

static bool lacks_line(const struct named_side *side, uint32_t id)
{
	return side->chain[id].nr == 1 && !side->t->frame[id].lineno;
}

/* 1: other is no other function than ours, 0, or -ENOMEM. A symbol may have more in its name than a debug file. */
static int may_be_called(const char *ours, const char *other)
{
	char *a, *b;
	int is_same;

	if (!*ours || !strcmp(ours, other))
		return 1;
	a = function_base_name(ours);
	b = function_base_name(other);
	is_same = a && b ? !strcmp(a, b) : -ENOMEM;
	free(a);
	free(b);
	return is_same;
}

/* 1, 0 or -ENOMEM. If both have the same function without a line, the second snapshot's form of its name counts. */
static int says_more(const struct lending *l, uint32_t other, uint32_t id, bool is_first)
{
	const struct snap_frame *frame = &l->from->t->frame[other];
	const char *theirs = snapshot__string(l->from->snapshot, frame->function);
	const char *ours = snapshot__string(l->to->snapshot, l->to->t->frame[id].function);
	bool has_line = l->from->chain[other].nr > 1 || frame->lineno;

	if (l->from->chain[other].nr > SYMBOL_INLINE_MAX)
		return 0;
	if (!has_line && (!*theirs || (*ours && !(is_first && strcmp(theirs, ours)))))
		return 0;
	return may_be_called(ours, theirs);
}

/* 1: there is something to rename, 0, or -ENOMEM. */
static int choose_renamed(const struct lending *l, bool is_first)
{
	int found = 0;

	for (uint32_t id = 1; id < l->to->t->frame_nr; id++) {
		uint32_t other;
		int more;

		if (!lacks_line(l->to, id))
			continue;
		other = find_named_place(l->from, l->to, &l->to->t->frame[id]);
		more = other == IDMAP_NONE ? 0 : says_more(l, other, id, is_first);
		if (more < 0)
			return more;
		if (!more)
			continue;
		l->to->other[id] = other;
		l->to->is_renamed[id] = true;
		found = 1;
	}
	return found;
}

static struct symbol symbol_of(const struct named_side *side, uint32_t id)
{
	const struct snap_frame *frame = &side->t->frame[id];

	return (struct symbol){
		.function = frame->function ? snapshot__string(side->snapshot, frame->function) : NULL,
		.filename = frame->lineno ? snapshot__string(side->snapshot, frame->filename) : NULL,
		.lineno = frame->lineno,
		.first_line = side->t->frame_first_line ? side->t->frame_first_line[id] : 0,
	};
}

static int names_of_other(const void *lending, uint32_t at, struct symbol ret_symbol[SYMBOL_INLINE_MAX])
{
	const struct lending *l = lending;
	const struct chain *chain = &l->from->chain[l->to->other[at]];

	for (uint32_t i = 0; i < chain->nr; i++)
		ret_symbol[i] = symbol_of(l->from, l->from->t->traceback_frame[chain->first + i]);
	return chain->nr;
}

static int lend_names(const struct lending *l, bool is_first, struct snapshot **ret)
{
	const struct renaming renaming = {
		.from = l->to->snapshot,
		.names_of = names_of_other,
		.who = l,
		.is_renamed = l->to->is_renamed,
		.rows_max = NAMING_ROWS_MAX,
	};

	int found = choose_renamed(l, is_first);

	return found > 0 ? rename_frames(&renaming, ret) : found;
}

/* ---- what stays without names ---------------------------------------------------------------- */

struct object_key {
	const struct named_side *asked, *searched;
	uint32_t object;
};

static bool is_object_of_key(uint32_t id, const void *key_, const void *table)
{
	const struct object_key *key = key_;

	(void)table;
	return is_same_object(key->searched, id, key->asked, key->object);
}

static bool is_lined_in(const struct named_side *searched, const struct named_side *asked, uint32_t object)
{
	const struct object_key key = { asked, searched, object };

	return idmap_find(&searched->lined, hash_object(asked, object, 0), is_object_of_key, &key, NULL) != IDMAP_NONE;
}

static int count_unshared(const struct lending *l, struct unshared_names *ret)
{
	const struct named_side *side = l->to;
	bool *is_unlike = calloc(side->t->object_nr + 1ull, sizeof(*is_unlike));

	if (!is_unlike)
		return -ENOMEM;
	for (uint32_t i = 1; i < side->t->object_nr; i++)
		is_unlike[i] = !side->has_lines[i] && is_lined_in(l->from, side, i);
	for (uint32_t id = 1; id < side->t->frame_nr; id++) {
		uint32_t object = side->t->frame[id].object;

		if (!is_unlike[object] || !lacks_line(side, id) || side->is_renamed[id])
			continue;
		ret->path = ret->path ?: path_of_object(side, object);
		ret->place_nr++;
	}
	free(is_unlike);
	return 0;
}

static int share_between(struct named_side side[2], struct shared_names *ret)
{
	int err = 0;

	for (int i = 0; i < 2 && !err; i++) {
		const struct lending lending = { .to = &side[i], .from = &side[!i] };

		err = lend_names(&lending, !i, &ret->named[i]) ?: count_unshared(&lending, &ret->unshared[i]);
	}
	return err;
}

int names_share(const struct snapshot *const both[2], struct shared_names *ret)
{
	struct named_side side[2] = {};
	int err;

	*ret = (struct shared_names){};
	if (!has_nameless(both[0]) && !has_nameless(both[1]))
		return 0;
	err = named_side_init(&side[0], both[0]) ?: named_side_init(&side[1], both[1]) ?:
	      share_between(side, ret);
	named_side_release(&side[0]);
	named_side_release(&side[1]);
	if (!err)
		return 0;
	snapshot__close(ret->named[0]);
	snapshot__close(ret->named[1]);
	*ret = (struct shared_names){};
	return err;
}
