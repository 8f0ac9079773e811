/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDED_H
#define ALLOCSNAP_COLLECT_RECORDED_H

/*
 * A collector from inside: collector.c begins and ends the recording of processes, recorded.c looks
 * at them meanwhile and makes snapshots.
 */

#include <sys/resource.h>
#include <time.h>

#include "collect/assemble.h"
#include "collect/bpf.h"
#include "collect/collector.h"
#include "collect/drain.h"
#include "collect/target.h"

struct symbols;

struct collector {
	struct allocsnap_bpf *bpf;
	struct symbols *symbols;
	uint32_t traceback_limit;
	struct rlimit files_before; /* RLIMIT_NOFILE before we raised it: what we start gets it */
	struct target **target;
	size_t target_nr, target_alloc;
	char **note; /* not taken yet */
	size_t note_nr, note_alloc;

	struct process *books; /* of target[i], as the last drain found them */
	size_t books_alloc;
	struct drain drain;
	struct occasion occasion;
};

uint64_t collector_now_ns(clockid_t clock);
int processes_fd(const struct collector *collector);

/* Looks for allocators in the objects that have not been looked at yet. 0 or a negative errno. */
int probe_new_objects(struct collector *collector, struct target *target, struct reason *why);

bool target_has_ended(const struct target *target);

#endif
