/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CENSUS_GLIBC_HEAP_H
#define ALLOCSNAP_CENSUS_GLIBC_HEAP_H

/*
 * The chunks of glibc's arenas (malloc/malloc.c, "Chunk representations"). A chunk's second word is its size, with three
 * flags in it; the next chunk's flag PREV_INUSE says whether it is in use:
 *
 *	arena_walk.c	each range of an arena from its first chunk to its last: in use, or binned, or the top
 *	glibc_heap.c	the arenas; which of those in use are cached: in a thread's tcache or a fastbin; which binned ones are unsorted
 *			chunks with a mapping of their own
 *
 * Everything is read while the process runs. Each piece is read twice: a header that differs counts as moved. A walk that
 * meets a size that cannot be is read again, and given up after some times: its bytes are counted as unwalked.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "census/census.h"
#include "census/target_memory.h"

/*
 * glibc's main arena and its counters, found in writable data of files without symbols (glibc 2.26 on, also static):
 *
 *	struct malloc_state {			struct malloc_par {
 *		mutex, flags				…
 *		fastbins	until 2.42		int n_mmaps, n_mmaps_max, max_n_mmaps, no_dyn_threshold
 *		top, last_remainder			mmapped_mem, max_mmapped_mem
 *		bins[127 * 2]				sbrk_base
 *		binmap					tcache_bins, tcache_max_bytes, tcache_count
 *		next, next_free				…
 *		attached_threads
 *		system_mem, max_system_mem
 *	}
 *
 * An empty bin is a pair of pointers to itself, 16 bytes before: 127 such pairs, or lists that come back, are bins. The
 * ring of `next` leads back to the arena, so it says where the arena begins, and with that which version it is.
 */

#define GLIBC_BINS 127
#define GLIBC_FASTBINS 10

/* Offsets from bins. */
#define GLIBC_TOP (-16)
#define GLIBC_NEXT 2048
#define GLIBC_SYSTEM_MEM 2072
#define GLIBC_STATE_END 2088

struct glibc_state {
	uint64_t arena;	      /* the address of the main arena */
	uint64_t bins_offset; /* in each arena: 112; 104 before 2.27; 24 from 2.43 on, which has no fastbins */
	bool has_parameters;  /* the next ones were found */
	uint64_t mmapped_nr, mmapped_bytes, sbrk_base, tcache_count;
	uint64_t nr_at, bytes_at; /* where the first two are */
};

#define GLIBC_STATES_MAX 8

#define CHUNK_PREV_INUSE 1
#define CHUNK_IS_MMAPPED 2
#define CHUNK_NON_MAIN 4
#define CHUNK_FLAGS 7
#define CHUNK_MIN 32
#define CHUNK_SIZE(head) ((head) & -(uint64_t)8)

#define HEAP_MOST (UINT64_C(64) << 20) /* HEAP_MAX_SIZE: other arenas' heaps are aligned to it */
#define TARGET_TOP (UINT64_C(1) << 48) /* of arm64; x86-64 has half of it */

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
