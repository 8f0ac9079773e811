/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_TARGET_TRACEBACKS_H
#define ALLOCSNAP_COLLECT_TARGET_TRACEBACKS_H

/* The tracebacks of one process, resolved to places in objects (collect/build/resolve_tracebacks.h). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "process/objects.h"
#include "shared/bpf_types.h"

/*
 * A frame: an object and an offset in it, or an address if object is OBJECT_NONE. OBJECT_GONE: it is not known which
 * of several files was mapped there. OBJECT_SKIPPED stands for one frame or more that a walk by frame pointers has
 * missed.
 */
#define OBJECT_SKIPPED (OBJECT_NONE - 2)
#define OBJECT_OF_SOURCE (OBJECT_NONE - 3) /* the offset is a word of which a source of blocks makes a frame: PYTHON_FRAME_WORD() */
struct code_place {
	uint32_t object;
	bool is_guessed;
	bool is_exact; /* not a return address */
	bool is_logical; /* calls that were inlined there are places of their own */
	uint64_t offset;
};

/*
 * A traceback that was resolved against the mappings once, when it was first seen. If its addresses have meant other
 * code at another time, it has several versions (collect/build/traceback_versions.h): the first one has its id, next_id
 * leads to the others.
 */
struct known_traceback {
	uint64_t id;
	uint64_t until_ns, next_id; /* blocks born from then on are the next version's; UINT64_MAX, 0: none follows */
	uint64_t unplaced_id;	    /* of the first one: the latest version with allocations of no known version */
	uint64_t whole_ns;	    /* of the first one: changes of mappings up to then are in its versions */
	uint32_t first, nframe; /* in tracebacks->place */
	uint32_t total_nframe;
	uint32_t unmapped_nr; /* frames outside every mapping */
	uint32_t flags; /* enum snap_traceback_flag */
	uint8_t version_nr; /* of the first one: versions behind it that have names */
	bool has_skipped, has_guessed;
	bool has_unsure;   /* frames of which it is not known which file was mapped there */
	bool is_held;	   /* in the map at the last drain */
	bool is_ambiguous; /* of the first one: it has got versions since the last drain */
	struct churn counted; /* of the first one: what the map had at the last drain */
	struct churn retired; /* up to the time when it was last taken out of the map; of several versions in total */
	struct churn churn;   /* in total, at the last drain */
};

/* Zeroed: none is known. */
struct tracebacks {
	struct code_place *place;
	size_t place_nr, place_alloc;
	struct known_traceback *traceback;
	size_t traceback_nr, traceback_alloc;
	struct idmap ids;
	struct churn others; /* sum of tracebacks that have been forgotten (traceback_versions.h) */
	uint64_t summed_nr;  /* number of forgotten tracebacks; one that came again is counted again */
	size_t ambiguous_nr; /* some are */
	size_t version_nr;   /* added since the last drain */
	uint64_t credited_ns; /* what was allocated up to then is in `counted` */
};

/* NULL: no traceback has this id. */
struct known_traceback *tracebacks_find(const struct tracebacks *tracebacks, uint64_t id);

/* The version of the traceback that a block born at that time has; NULL: no traceback has this id. */
struct known_traceback *tracebacks_find_born(const struct tracebacks *tracebacks, uint64_t id, uint64_t birth_ns);

/* Forgets all, after the traces have been cleared. */
void tracebacks_forget(struct tracebacks *tracebacks);

void tracebacks_release(struct tracebacks *tracebacks);

#endif
