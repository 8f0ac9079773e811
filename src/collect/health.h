/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_HEALTH_H
#define ALLOCSNAP_COLLECT_HEALTH_H

/*
 * How much room is taken by what has gone, which only a drain clears away: collector__get_health()
 * says when that is due.
 */

#include <stdint.h>

#include "bpf_types.h"

struct collector;

struct process;

/* What was counted in books that are there no longer. Zeroed: nothing. */
struct gone {
	uint64_t processes;
	uint64_t allocations, frees;
	uint64_t cpu_ns, cost_ns;
	uint64_t loss[LOSS_NR];
};

/* Of an image: its process has called exec, or is traced no longer. */
void gone_add(struct gone *gone, const struct process *books);

/* Of images that are gone. */
struct stale {
	uint64_t blocks, images;
};

/* Before a drain: what it will clear away. */
struct stale health_stale(const struct collector *collector);

/* After it. */
void health_swept(struct collector *collector, const struct stale *stale);

#endif
