/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLIZE_FRAMES_H
#define ALLOCSNAP_SYMBOLIZE_FRAMES_H

/*
 * Converts places in objects to frames of a snapshot, with the names that are known: during the
 * recording, or later. A place becomes several frames if calls were inlined there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/symbols.h"

struct snapshot;
struct snapshot_builder;
struct symbol;
struct symbols;

#define NAMES_NONE UINT32_MAX /* there is no file to look up names in */

/* A place, by the ids of a builder and of symbols. */
struct frame_place {
	uint32_t object;  /* the builder's id; 0: no object */
	uint32_t names;	  /* index for symbols__lookup(), or NAMES_NONE */
	uint64_t offset;
	uint32_t flags;	  /* a set of SNAP_FRAME_GUESSED, SNAP_FRAME_EXACT, SNAP_FRAME_LOGICAL */
	const char *path; /* the filename if no line is known */
	const char *function; /* its name, if nothing is looked up; or NULL */
};

/* The frames of the current traceback. */
struct frame_list {
	uint32_t *frame;
	size_t frame_nr, frame_alloc;
};

/* Same as symbols__lookup(); without a file it gives one symbol that says nothing. */
int frame_place_names(const struct frame_place *place, struct symbols *symbols,
		      struct symbol *ret_symbol);

/* The same with the symbols that frame_place_names() finds. */
int frames_add_place(struct frame_list *list, struct snapshot_builder *builder,
		     struct symbols *symbols, const struct frame_place *place);

/* Gives the object and offset of place number i; false: its names are not needed. */
typedef bool (*name_question_fn)(const void *who, size_t i, uint32_t *ret_names,
				 uint64_t *ret_return_offset);

/*
 * Looks up the names of nr places at once, object by object: one by one, each would cost a round
 * trip. 0 or -ENOMEM.
 */
int frames_look_ahead(struct symbols *symbols, size_t nr, name_question_fn question,
		      const void *who);

/*
 * The offset to pass to symbols__lookup(). It looks before a return address, but exact addresses
 * are no return addresses.
 */
static inline uint64_t frame_return_offset(uint64_t offset, bool is_exact)
{
	return offset + is_exact;
}

/* Copies a snapshot with other frames. */

struct renaming {
	const struct snapshot *from;
	/*
	 * Stores the symbols that replace frame number `at`, the innermost inlined call first. Returns their number,
	 * or a negative errno. They are valid until the next call.
	 */
	int (*names_of)(const void *who, uint32_t at, struct symbol ret_symbol[SYMBOL_INLINE_MAX]);
	const void *who;
	const bool *is_renamed;	/* by frame; the other frames stay as they are */
	uint64_t by_path_nr; /* frames whose names nothing verifies: they are added to a loss of the copy */
	uint64_t rows_max; /* limit for frames, and for the frames of tracebacks, unless there were more before */
};

/* 0 or a negative errno; -EFBIG: too many rows. */
int rename_frames(const struct renaming *renaming, struct snapshot **ret);

#endif
