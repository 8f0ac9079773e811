/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_CENSUS_GLIBC_HEAP_H
#define ALLOCSNAP_COLLECT_CENSUS_GLIBC_HEAP_H

/*
 * The chunks of glibc's arenas (malloc/malloc.c, "Chunk representations"). A chunk's second word is its size, with three
 * flags in it; the next chunk's flag PREV_INUSE says whether it is in use:
 *
 *	arena_walk.c	each range of an arena from its first chunk to its last: in use, or binned, or the top
 *	free_lists.c	which of those in use are cached: in a thread's tcache or a fastbin; which binned ones are unsorted
 *	mmapped.c	chunks with a mapping of their own
 *
 * Everything is read while the process runs. Each piece is read twice: a header that differs counts as moved. A walk that
 * meets a size that cannot be is read again, and given up after some times: its bytes are counted as unwalked.
 */

#include <stdint.h>

#include "collect/census/census.h"
#include "collect/census/glibc_state.h"
#include "collect/census/target_memory.h"

#define CHUNK_PREV_INUSE 1
#define CHUNK_IS_MMAPPED 2
#define CHUNK_NON_MAIN 4
#define CHUNK_FLAGS 7
#define CHUNK_MIN 32
#define CHUNK_SIZE(head) ((head) & -(uint64_t)8)

#define HEAP_MOST (UINT64_C(64) << 20) /* HEAP_MAX_SIZE: other arenas' heaps are aligned to it */
#define TARGET_TOP (UINT64_C(1) << 47)

/* A range of memory whose chunks were walked. */
struct heap_range {
	uint64_t start, end;
	size_t arena; /* index in the census */
};

/* The parts share it. */
struct heap_reader {
	struct target_memory *memory;
	struct census *census;
	struct glibc_state state;
	size_t first_arena; /* the index of this state's main arena: others follow */
	struct heap_range *range;
	size_t range_nr, range_alloc;
	uint64_t *candidate; /* chunks in use that may be a thread's tcache */
	size_t candidate_nr, candidate_alloc;
};

/* Return 0 or -ENOMEM. Each adds to the census. */
int heap_walk_arenas(struct heap_reader *reader);
int heap_read_free_lists(struct heap_reader *reader);
void heap_find_mmapped(struct heap_reader *reader);

/*
 * Whether a chunk's content looks like a tcache: counts that agree with lists. Only following the lists says whether it is
 * one. bytes: of the chunk; content: what is behind its size, bytes - 8 of it.
 */
struct tcache_shape {
	uint64_t chunk_bytes;
	unsigned int bins;
	unsigned int count_bytes; /* of a count */
	bool counts_slots;	  /* the counts are free slots */
};
const struct tcache_shape *tcache_shape_of(uint64_t chunk_bytes);
bool tcache_is_likely(const struct tcache_shape *shape, const struct glibc_state *state, const void *content);

/* All of it, for each C library in the process. 0 or -ENOMEM; without a heap, census->no_heap says why. */
int heap_census(struct target_memory *memory, struct census *census);

#endif
