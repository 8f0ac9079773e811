/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DRAIN_H
#define ALLOCSNAP_COLLECT_DRAIN_H

/*
 * Reading the maps out. bpf_map_lookup_batch() takes a bucket at a time under its lock, so that
 * no entry is skipped or doubled because others change meanwhile; one system call brings
 * thousands of entries.
 */

#include <stddef.h>
#include <stdint.h>

#include "shared/bpf_types.h"
#include "collect/drain/drained_blocks.h"

struct allocsnap_bpf;
struct nursery;
struct pairing;

/* A map's entries as two arrays. */
struct map_copy {
	void *key, *value;
	size_t nr, key_alloc, value_alloc;
	size_t key_bytes, value_bytes; /* of one */
};

/* One pass over the books of all processes. Zeroed: empty; can be filled again and again. */
struct drain {
	struct drained_blocks blocks;
	struct map_copy tracebacks; /* id → struct traceback, cut after the traceback limit */
};

static inline uint64_t drain_traceback_id(const struct drain *drain, size_t i)
{
	return ((const uint64_t *)drain->tracebacks.key)[i];
}

/* Of pc only [0 … nframe) may be looked at. */
static inline const struct traceback *drain_traceback(const struct drain *drain, size_t i)
{
	return (const void *)((const char *)drain->tracebacks.value +
			      i * drain->tracebacks.value_bytes);
}

/* Reads a map of keys and values of these sizes. 0, or as below. */
int map_copy_read(struct map_copy *copy, int fd, size_t key_bytes, size_t value_bytes);

/* The same, and takes out of the map what was read. */
int map_copy_take(struct map_copy *copy, int fd, size_t key_bytes, size_t value_bytes);

void map_copy_release(struct map_copy *copy);

/*
 * Reads the tracebacks, after the blocks: so the traceback of each block read is there. 0, or the
 * negative errno of the system call, -ENOMEM.
 */
int drain_read_tracebacks(struct drain *drain, int tracebacks_fd, size_t traceback_bytes);

/*
 * The process images that have ended: those not in image[], which is sorted by compare_images(), and older than
 * `next`, which was due then.
 */
struct ended {
	const uint64_t *image;
	size_t image_nr;
	uint64_t next;
};

int compare_images(const void *a, const void *b);

/* Deletes from the map, and the nursery, what was read of process images that have ended. */
int drain_sweep(const struct drain *drain, const struct allocsnap_bpf *bpf,
		const struct nursery *nursery, const struct pairing *pairing,
		const struct ended *ended);

/* The same for the notes of blocks that had no room. */
int drain_sweep_dropped(int dropped_fd, const struct pairing *pairing, const struct ended *ended);

/* Called with what is taken out of the map; valid until it returns. 0 or a negative errno. */
typedef int (*drain_retire_fn)(void *what, uint64_t id, const struct traceback *traceback);

/*
 * Takes out of the map the tracebacks that none of the blocks read has. A block that was entered
 * since with one of them lacks it, until the same stack allocates again.
 */
int drain_trim_tracebacks(const struct drain *drain, int tracebacks_fd, drain_retire_fn retire,
			  void *what);

/* Deletes those with these ids, whoever has them, and counts them. 0 or the negative errno of the system call. */
int drain_forget_tracebacks(int tracebacks_fd, const uint64_t *id, size_t nr, uint64_t *ret_deleted);

void drain_release(struct drain *drain);

#endif
