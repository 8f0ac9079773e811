/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUILD_BUILD_METADATA_H
#define ALLOCSNAP_COLLECT_BUILD_BUILD_METADATA_H

/* Writes a snapshot's metadata, counters and probes. Each function returns 0 or -ENOMEM. */

#include "collect/build/build_snapshot.h"

struct number {
	const char *key;
	uint64_t value;
};

/*
 * Adds the domains that are recorded, and the heaps of runtimes that no probe sees. sources ends with NULL.
 */
int describe_domains(struct snapshot_builder *builder, const struct target *target,
		     const struct block_source *const *sources);

int describe_numbers(struct snapshot_builder *builder, const struct number *number, size_t nr);

int describe_target(struct snapshot_builder *builder, const struct target *target,
		    const struct process *account, const struct snapshot_context *snapshot_context);

/* counter[COUNTER_NR] and loss[LOSS_NR], under the names of bpf_types.h. */
int describe_counters(struct snapshot_builder *builder, const uint64_t *counter,
		      const uint64_t *loss);

/* object_id: one for each object of struct objects, 0 if the process does not use the object. */
int describe_probes(struct snapshot_builder *builder, const struct target *target,
		    const struct block_source *const *sources, const uint32_t *object_id);

/* The boot of this machine, as in a struct moment. */
uint32_t own_boot(void);

/* The gaps of a process up to a time, including an open one. 0 or -ENOMEM. */
int describe_gaps(struct snapshot_builder *builder, const struct target *target, uint64_t now_ns);

#endif
