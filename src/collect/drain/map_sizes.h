/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DRAIN_MAP_SIZES_H
#define ALLOCSNAP_COLLECT_DRAIN_MAP_SIZES_H

/* Decides how many entries the BPF maps can have. Arithmetic only. */

#include <stdbool.h>
#include <stdint.h>

struct collector_options;
struct reason;

struct map_room {
	uint32_t blocks;
	uint32_t rest;	     /* blocks handed over during a drain; the same number of notes of dropped blocks */
	uint32_t tracebacks;
	uint32_t starts;     /* starts of mappings */
	uint32_t slabs;	     /* slabs of unwind tables, 1 MiB each */
	uint32_t free_filter;    /* counters; 1: every block is recorded */
	uint32_t leaves;     /* of pages; 1: these are not recorded */
};

/* Whether the programs must recognise frees of blocks that are not recorded (map_reader.h). */
bool free_filter_is_needed(const struct collector_options *options);

/*
 * Uses options->max_blocks and max_tracebacks, or their defaults. With options->max_memory, all maps get as much
 * as fits into it. 0, or -ERANGE with a line in *why: it is too little for any recording.
 */
int map_room_choose(struct map_room *ret, const struct collector_options *options,
		    struct reason *why);

/*
 * Bytes that all maps use when they are full, with the overhead of the kernel's allocator. Not included: the
 * state that the kernel side keeps for each thread (map `threads`, 6 KiB).
 */
uint64_t map_room_bytes(const struct map_room *room, uint32_t traceback_limit);

#endif
