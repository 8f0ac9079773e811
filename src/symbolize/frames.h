/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_NAMING_FRAMES_H
#define ALLOCSNAP_NAMING_FRAMES_H

/*
 * Places in objects → frames of a snapshot, with the names that there are: where it is recorded, and
 * later. A place becomes several frames where calls were inlined there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct snapshot_builder;
struct symbol;
struct symbols;

#define NAMES_NONE UINT32_MAX /* no file to ask for names */

/* A place in the terms of a builder and of symbols. */
struct frame_place {
	uint32_t object;  /* the builder's; 0: in none */
	uint32_t names;	  /* index for symbols__lookup(), or NAMES_NONE */
	uint64_t offset;
	uint32_t flags;	  /* of SNAP_FRAME_GUESSED, SNAP_FRAME_EXACT */
	const char *path; /* the filename where no line is known */
};

/* The frames of a traceback at hand. */
struct frame_list {
	uint32_t *frame;
	size_t frame_nr, frame_alloc;
};

/* As symbols__lookup(), of one symbol that says nothing where there is no file. */
int frame_place_names(const struct frame_place *place, struct symbols *symbols,
		      struct symbol *ret_symbol);

/* Adds the place's frames to the builder and to the list. 0 or a negative errno. */
int frames_add_place(struct frame_list *list, struct snapshot_builder *builder,
		     struct symbols *symbols, const struct frame_place *place);

/* Place number i as far as names are asked for it: false where they are not. */
typedef bool (*name_question_fn)(const void *who, size_t i, uint32_t *ret_names,
				 uint64_t *ret_return_offset);

/*
 * Asks for the names of nr places at once, object by object: one by one each would be a round trip.
 * 0 or -ENOMEM.
 */
int frames_look_ahead(struct symbols *symbols, size_t nr, name_question_fn question,
		      const void *who);

/* What symbols__lookup() is asked: it looks before a return address, and some are none. */
static inline uint64_t frame_return_offset(uint64_t offset, bool is_exact)
{
	return offset + is_exact;
}

#endif
