/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_CENSUS_GLIBC_STATE_H
#define ALLOCSNAP_COLLECT_CENSUS_GLIBC_STATE_H

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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct target_memory;

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

/* Finds the main arenas: several, if a program has several C libraries. Returns their number. */
size_t glibc_find(struct target_memory *memory, struct glibc_state ret[GLIBC_STATES_MAX]);

/* Reads the counters of chunks with a mapping of their own again. */
void glibc_count_mmapped(const struct target_memory *memory, struct glibc_state *state);

bool glibc_has_fastbins(const struct glibc_state *state);

/* The address of an arena's first fastbin. */
uint64_t glibc_fastbins(const struct glibc_state *state, uint64_t arena);

#endif
