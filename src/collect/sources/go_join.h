/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_GO_JOIN_H
#define ALLOCSNAP_COLLECT_SOURCES_GO_JOIN_H

/* From a profile of Go's runtime to the blocks and tracebacks of a pass. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "go/go_births.h"
#include "go/go_profile.h"
#include "symbols/go_program.h"

struct collector;
struct target;

#define RATE_ASSUMED (512u << 10) /* Go's own */

struct numbered_bucket {
	uint64_t address, stack; /* stack: a hash of its frames */
	uint32_t first; /* the number of the first bucket of that stack, where the sums of all of them are */
	uint64_t kept, kept_before; /* live samples after the last collection that was seen, and after the one before */
	struct go_counts published;
	uint64_t allocations_before; /* that were published by the collection before */
	struct go_births births;
};

struct go_heap {
	struct go_program program;
	char why_not[256];		  /* there is no profile to read; "": there is */
	uint64_t bias;
	struct go_places places;
	uint64_t mbuckets; /* 0: no sample so far */
	int pagemap_fd;
	struct go_profile profile;
	uint64_t rate, read_ns, took_ns, look_ns; /* look_ns: when to read it again */
	uint64_t read_nr, collection_nr; /* collections that have published their samples since the first reading, or more */
	uint64_t published; /* samples in `active` */
	struct numbered_bucket *bucket; /* their numbers stay */
	size_t bucket_nr, bucket_alloc;
	struct idmap ids, stacks; /* by their address; of each stack the first one */
	uint64_t dropped; /* live samples that found no room */
	int switch_fd;	  /* the profile was switched on: its memory; -1 */
	bool was_on; /* it was linked without a profile, which somebody else has switched on */
	bool is_off; /* the last reading: it takes no samples any more, as its rate is 0 */
	bool is_out_of_reach; /* its memory cannot be read, or it is not known where it lies */
	bool is_noted;	  /* a note says that the profile cannot be read */
};

/* The live samples of a bucket. */
static inline uint64_t live_of(const struct go_counts *counts)
{
	return counts->allocations - counts->frees;
}

uint32_t number_of_bucket(const struct go_heap *heap, uint64_t address);

/* The live samples of a process become blocks. 0 or -ENOMEM. */
int join_go_blocks(struct collector *collector, struct target *target);

/* The tracebacks of all processes. 0 or -ENOMEM. */
int add_go_tracebacks(struct collector *collector);

#endif
