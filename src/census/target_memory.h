/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CENSUS_TARGET_MEMORY_H
#define ALLOCSNAP_CENSUS_TARGET_MEMORY_H

/*
 * The memory of a process that runs on, and may be hostile: what is read may be anything, and another thing when it is
 * read again. It is read through descriptors of /proc/PID/mem and /proc/PID/pagemap, which belong to one program run:
 * after an exec they read nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TARGET_PAGE 4096

/* A line of /proc/PID/maps. */
struct target_mapping {
	uint64_t start, end;
	bool is_writable, is_file, is_heap; /* is_heap: "[heap]" */
	bool is_named; /* another name in brackets */
};

struct target_memory {
	/* Reads all of it: 0, or a negative errno. */
	int (*read)(void *process, uint64_t address, void *to, size_t bytes);
	/* Entries of the pagemap; NULL: not known. */
	int (*pages)(void *process, uint64_t address, uint64_t *entry, size_t nr);
	/* Reads the mappings again, and keeps the old ones if that fails; NULL: they stay as they are. */
	int (*map)(struct target_memory *memory);
	void *process;
	struct target_mapping *mapping; /* by address */
	size_t mapping_nr, mapping_alloc;
	unsigned int map_nr; /* how often they were read again */
	unsigned int wait_nr; /* how often target_wait() has waited */
	uint64_t cpu_ns; /* the reader stops when it has used this much CPU time */
	bool is_late;
};

/* The process runs on, and its mappings change: reads them again, up to so many times. Pointers to mappings end. */
#define TARGET_MAPS_MOST 100
bool target_map_again(struct target_memory *memory);

/* The process is amid a change: gives it a millisecond to end it, up to so many times. */
#define TARGET_WAITS_MOST 500
void target_wait(struct target_memory *memory);

/* The mapping that holds an address, or NULL. */
const struct target_mapping *target_mapping_at(const struct target_memory *memory, uint64_t address);

/* Whether all of it is in one mapping that can be written. If it is not, the mappings are read again. */
bool target_is_writable(struct target_memory *memory, uint64_t address, uint64_t bytes);

int target_read_word(const struct target_memory *memory, uint64_t address, uint64_t *ret);

/* Whether there is no time left. */
bool target_is_late(struct target_memory *memory);

/* Resident bytes of the pages that hold start … end. *unknown_pages grows by the pages whose state cannot be read. */
uint64_t target_resident(struct target_memory *memory, uint64_t start, uint64_t end, uint64_t *unknown_pages);

/*
 * Reads a piece of a heap, of which pages may never have been touched. These are zeros, and are not read: there are kernels
 * that would give them memory (docs/census.md). 0, or a negative errno.
 */
int target_read_touched(const struct target_memory *memory, uint64_t address, void *to, size_t bytes);

#endif
