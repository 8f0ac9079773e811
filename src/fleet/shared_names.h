/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_SHARED_NAMES_H
#define ALLOCSNAP_FLEET_SHARED_NAMES_H

/*
 * Names that some snapshots of a catalogue have for a place and others have not: a place is an offset in an object with
 * a build-id. All tracebacks get the best names of a place, so that snapshots with and without names are comparable.
 *
 * Any host can send names for any build-id. So nothing is lent for a place of which snapshots say different things:
 * another function, or other lines or inlined calls. Its frames keep what they have, and the place is counted.
 *
 *	for each frame:     shared_names_add_frame()
 *	if names.is_needed, for each traceback: shared_names_learn()
 *	for each traceback: shared_names_apply()
 *
 * symbolize/share_names.h does the same for two snapshots.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleet/id_set.h"

struct shared_names {
	struct named_frame *frame; /* in the order of shared_names_add_frame() */
	size_t frame_nr, frame_alloc;
	struct known places; /* place → its number in chain[] */
	struct name_chain *chain;
	size_t chain_nr, chain_alloc;
	uint32_t *joined; /* the frames of all chains, by their numbers */
	size_t joined_nr, joined_alloc;
	bool is_needed; /* a place has frames with more and with fewer names */
	uint64_t refused_nr; /* places whose frames lack names that were not lent */
};

/* A frame as the catalogue has it. */
struct nameable_frame {
	const char *build_id;
	uint32_t filename, function; /* equal numbers are equal texts; function 0: none */
	uint32_t lineno, first_line, flags;
	uint64_t offset;
};

#define NAME_CHAIN_MAX 32 /* frames of a place; recordings have no more, and a false snapshot gains little */

enum name_detail {
	DETAIL_NONE,
	DETAIL_FUNCTION,
	DETAIL_LINE, /* or inlined calls */
};

/* A hash; 0: the frame has no place. flags: enum of snap_frame. */
int64_t nameable_place(const char *build_id, uint64_t offset, uint32_t flags);

/* id: what the frame is called in tracebacks; its number is the count of frames before. 0 or -ENOMEM. */
int shared_names_add_frame(struct shared_names *names, const struct nameable_frame *frame, uint32_t id);

/* number: the frames of a traceback, most recent call first. 0 or -ENOMEM. */
int shared_names_learn(struct shared_names *names, const uint32_t *number, size_t nr);

/* The ids of a traceback's frames, with better names where they are known. The caller frees *ids. 0 or -ENOMEM. */
int shared_names_apply(struct shared_names *names, const uint32_t *number, size_t nr, uint32_t **ids,
		       size_t *ids_alloc, size_t *ret_nr);

void shared_names_release(struct shared_names *names);

#endif
