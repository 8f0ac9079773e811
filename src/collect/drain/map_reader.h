/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DRAIN_MAP_READER_H
#define ALLOCSNAP_COLLECT_DRAIN_MAP_READER_H

/*
 * Reads the BPF maps. bpf_map_lookup_batch() reads one bucket at a time under its lock, so concurrent changes
 * never skip or double an entry. One system call returns thousands of entries.
 */

#include <stddef.h>
#include <stdint.h>

#include "collect/drain/block_set.h"
#include "shared/bpf_types.h"

struct allocsnap_bpf;
struct bpf_map;
struct nursery;
struct free_filter;

/* A map's entries as two arrays. */
struct map_copy {
	void *key, *value;
	size_t nr, key_alloc, value_alloc;
	size_t key_bytes, value_bytes; /* of one entry */
};

/* Adds an entry, of as many bytes as the others. 0 or -ENOMEM. */
int map_copy_add(struct map_copy *copy, const void *key, const void *value);

/* One pass over the accounting of all processes. Zeroed: empty; can be filled again and again. */
struct drain {
	struct drained_blocks blocks;
	struct map_copy tracebacks; /* id → struct traceback, cut after the traceback limit */
	size_t kernel_nr;	    /* the first ones, which are of the map; the others were added */
};

/* The bit of ids that a source of blocks has made. */
#define TRACEBACK_OF_BOOKS (UINT64_C(1) << 63)
#define TRACEBACK_OF_GO (UINT64_C(1) << 62)

static inline uint64_t drain_traceback_id(const struct drain *drain, size_t i)
{
	return ((const uint64_t *)drain->tracebacks.key)[i];
}

/* Only pc[0 … nframe) of the result may be read. */
static inline const struct traceback *drain_traceback(const struct drain *drain, size_t i)
{
	return (const void *)((const char *)drain->tracebacks.value +
			      i * drain->tracebacks.value_bytes);
}

/* Reads a map with keys and values of these sizes. 0, the negative errno of the system call, or -ENOMEM. */
int map_copy_read(struct map_copy *to, int fd, size_t key_bytes, size_t value_bytes);

/* The same, and deletes from the map what it read. */
int map_copy_take(struct map_copy *copy, int fd, size_t key_bytes, size_t value_bytes);

void map_copy_release(struct map_copy *copy);

/*
 * Reads the tracebacks. Call it after the blocks were read: then the traceback of each block is there. 0, the
 * negative errno of the system call, or -ENOMEM.
 */
int drain_read_tracebacks(struct drain *drain, int tracebacks_fd, size_t traceback_bytes);

/*
 * The process images that have ended: they are older than `next` and not in image[], which is sorted by
 * array_by_number(). `next` is the next image number at the time of image[].
 */
struct ended {
	const uint64_t *image;
	size_t image_nr;
	uint64_t next;
};

/* Deletes the blocks read of ended process images from the map and the nursery. 0, a negative errno, or -ENOMEM. */
int drain_sweep(const struct drain *drain, const struct allocsnap_bpf *bpf,
		const struct nursery *nursery, const struct free_filter *free_filter,
		const struct ended *ended);

/* Does the same for the notes of dropped blocks. */
int drain_sweep_dropped(int dropped_fd, const struct free_filter *free_filter, const struct ended *ended);

/* Called with a traceback deleted from the map; valid until the callback returns. 0 or a negative errno. */
typedef int (*drain_retire_fn)(void *what, uint64_t id, const struct traceback *traceback);

/*
 * Deletes from the map the tracebacks that no block read uses. A block that was recorded since with one of them
 * lacks its traceback until the same stack allocates again.
 */
int drain_trim_tracebacks(const struct drain *drain, int tracebacks_fd, drain_retire_fn retire,
			  void *what);

/*
 * Deletes the tracebacks with these ids, even if blocks use them, and counts those deleted. 0 or the negative
 * errno of the system call.
 */
int drain_forget_tracebacks(int tracebacks_fd, const uint64_t *id, size_t nr, uint64_t *ret_deleted);

void drain_release(struct drain *drain);

/*
 * The loader's access to the map `free_filter`. The programs use its counters to see that a freed block is not
 * recorded. Code that deletes blocks, or notes of dropped blocks, from the maps must also subtract them here.
 */

/* Zeroed: every block is recorded, so nothing is counted. */
struct free_filter {
	uint64_t *counter; /* the mapped memory of the map */
	uint64_t mask;
};

/* Number of entries if only some blocks are recorded; a power of two. least_size: the smallest size recorded. */
uint32_t free_filter_entries(uint64_t sample_bytes, uint64_t least_size, uint64_t max_blocks);

/* 0 or a negative errno. */
int free_filter_open(struct free_filter *free_filter, const struct bpf_map *map);
void free_filter_close(struct free_filter *free_filter);

/* How many blocks have room: load.c takes the nursery's part from the map of blocks. */
uint64_t blocks_capacity(const struct allocsnap_bpf *bpf);

#endif
