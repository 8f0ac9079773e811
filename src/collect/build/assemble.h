/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_ASSEMBLE_H
#define ALLOCSNAP_COLLECT_ASSEMBLE_H

/* What was drained of one process, with names → a snapshot. */

#include <stdbool.h>

#include "collect/drain/drain.h"
#include "collect/target/target.h"
#include "collect/unwind/unwind_tables.h"

struct allocsnap_bpf;
struct snapshot_builder;
struct symbols;

/* When and how a snapshot was taken; the same for all processes of one pass. */
struct occasion {
	uint64_t wall_ns;	/* CLOCK_REALTIME */
	uint64_t monotonic_ns;	/* CLOCK_MONOTONIC, when the maps began to be read */
	uint32_t traceback_limit;
	uint32_t max_overhead; /* percent; 0: there was no budget */
	bool has_churn;		  /* what was drained is all that there is */
	uint64_t mappings_missed; /* since the collector was opened */
	const struct unwind_tables *unwind_tables;
	uint64_t process_events_missed; /* the same */
	const struct allocsnap_bpf *bpf;
	const struct trap_costs *costs;
	const char *trigger; /* why the snapshot is taken; NULL: not said */
	bool no_names;	/* frames stay places in files */
	bool is_compact; /* it will be written so */
};

/*
 * The drain's tracebacks must be known to the target (resolve.h).
 * books: the process's counters, read with the maps. 0 and a builder that the caller frees, or
 * -ENOMEM.
 */
int assemble(struct target *target, const struct process *books, const struct drain *drain,
	     const struct occasion *occasion, struct symbols *symbols,
	     struct snapshot_builder **ret);

#endif
