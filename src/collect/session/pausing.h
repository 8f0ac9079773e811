/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PAUSING_H
#define ALLOCSNAP_COLLECT_PAUSING_H

/*
 * Recordings that pause to keep to a budget, and the gaps that come of it. A budget belongs to probes:
 * to those of a process, or where children are followed to those of everybody, and then what all
 * processes together cost decides, and what each of them does (shares.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/budget/budget.h"

struct collector;
struct snapshot_builder;
struct target;

/* CLOCK_MONOTONIC: from when the first probe was being taken away till all were back. */
struct gap {
	uint64_t start_ns, end_ns;
};

#define GAPS_MAX 4096 /* the latest; of older ones number and length are kept */

/* Zeroed: no budget, no gaps. */
struct pausing {
	struct budget budget;
	struct cost_sum gone; /* of processes that are traced no longer, whose budget this was */
	struct gap *gap;
	size_t gap_nr, gap_alloc;
	uint64_t open_ns; /* since when it pauses; 0: it does not */
	uint64_t nr, length_ns; /* of all gaps, but for an open one */
	bool is_stuck; /* the last try to go on has failed, and it was said */
};

/* Gives what has no budget yet the collector's. */
void pausing_begin(struct collector *collector, struct pausing *pausing);
void pausing_release(struct pausing *pausing);

/* Pauses what has spent its budget, resumes what has earned enough, and sets when to look again. */
void keep_budgets(struct collector *collector);

/*
 * Whether the keeper has ended, and the probes with it: then a gap begins for every process, which has no end.
 * Or the process that starts the readers of files. Once, with a note.
 */
void notice_blindness(struct collector *collector);

/* Before something that takes long: pauses what could spend much meanwhile. */
void pause_spenders(struct collector *collector);

/* All probes are placed again: a process is about to be looked at for the first time. */
int resume_everybody(struct collector *collector);

struct gaps_sum {
	uint64_t nr, length_ns;
};

/* Of all gaps up to a time, open ones too. */
struct gaps_sum pausing_sum(const struct pausing *pausing, uint64_t now_ns);

/* The gaps of a process up to a time, open ones too. 0 or -ENOMEM. */
int describe_gaps(struct snapshot_builder *builder, const struct target *target, uint64_t now_ns);

#endif
