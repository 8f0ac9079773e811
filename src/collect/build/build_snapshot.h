/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUILD_BUILD_SNAPSHOT_H
#define ALLOCSNAP_COLLECT_BUILD_BUILD_SNAPSHOT_H

/* Builds a snapshot from the drained blocks of one process, with names. */

#include <stdbool.h>

#include "collect/drain/map_reader.h"
#include "collect/target/block_source.h"
#include "collect/target/target.h"
#include "collect/unwind/unwind_tables.h"

struct symbols;

/* When and how a snapshot was taken: the same for all processes of one pass. */
struct snapshot_context {
	uint64_t wall_ns;	/* CLOCK_REALTIME */
	uint64_t monotonic_ns;	/* CLOCK_MONOTONIC, when reading the maps began */
	uint32_t traceback_limit;
	uint32_t max_overhead; /* percent; 0: no budget */
	bool has_churn;		  /* the drain has all blocks and tracebacks, not only one */
	uint64_t mappings_missed; /* since the collector was opened */
	const struct unwind_tables *unwind_tables;
	uint64_t process_events_missed; /* also since then */
	const struct allocsnap_bpf *bpf;
	const struct block_source *const *sources; /* ends with NULL */
	const struct trap_costs *costs;
	const char *trigger; /* why the snapshot is taken; NULL: not given */
	uint64_t interval_ns; /* when the next one is due; 0: not known */
	bool no_names;	/* frames stay offsets in files */
	bool is_compact; /* it will be written in the compact form */
};

/*
 * The target must know the drain's tracebacks (resolve_tracebacks.h). account: the process's counters, read with the maps. 0
 * and a builder that the caller frees, or -ENOMEM.
 */
int build_snapshot(struct target *target, const struct process *account, const struct drain *drain,
	     const struct snapshot_context *snapshot_context, struct symbols *symbols,
	     struct snapshot_builder **ret);

#endif
