/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_ROOM_H
#define ALLOCSNAP_COLLECT_ROOM_H

/* How many entries the kernel's maps may have. Arithmetic only. */

#include <stdint.h>

struct collector_options;
struct reason;

struct map_room {
	uint32_t blocks;
	uint32_t rest;	     /* blocks handed over during a drain, as many notes of dropped ones */
	uint32_t tracebacks;
	uint32_t starts;     /* of mappings */
	uint32_t slabs;	     /* of unwind tables, a MiB each */
	uint32_t pairing;    /* counters; 1: every block is recorded */
};

/*
 * By options->max_blocks and max_tracebacks, or their defaults; where max_memory is given, as much of all as
 * fits into that. 0; -ERANGE with a line in *why where that is too little for anything.
 */
int map_room_choose(struct map_room *ret, const struct collector_options *options,
		    struct reason *why);

/*
 * Bytes that all maps take when they are full, with what the kernel's allocator adds. Not in it: what
 * the kernel keeps of each thread (threads, 6 KiB).
 */
uint64_t map_room_bytes(const struct map_room *room, uint32_t traceback_limit);

#endif
