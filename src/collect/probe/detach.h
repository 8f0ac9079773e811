/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DETACH_H
#define ALLOCSNAP_COLLECT_DETACH_H

/*
 * Takes probes away without waiting for it. The kernel removes the breakpoints of a link at once,
 * and then lets who closes it wait for a tenth of a second, till no program can run any more.
 * Perf uprobes wait for each other besides.
 */

#include <stdbool.h>
#include <stddef.h>

struct bpf_link;

/* What a probe, or many, are held by; or the file they are in, which is closed once those before it are gone. */
struct held_probes {
	struct bpf_link *event; /* one perf event; NULL: what holds them is fd */
	int fd;
	bool has_lease; /* fd is a file with a lease, which ends (keeper_links.c) */
};

/* Zeroed: there is nothing to wait for. */
struct detacher {
	struct detachment **detachment;
	size_t detachment_nr, detachment_alloc;
};

/*
 * Begins to end probes, which are ours no longer: all of them in one thread, in their order, or
 * here where there can be none.
 */
void detach_begin(struct detacher *detacher, const struct held_probes *held, size_t nr);

/* Ends one, and waits. */
void detach_now(const struct held_probes *held);

/* How many are not ended yet. */
size_t detach_pending(struct detacher *detacher);

/* Waits till all are closed. */
void detach_end(struct detacher *detacher);

#endif
