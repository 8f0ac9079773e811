/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_DETACH_H
#define ALLOCSNAP_COLLECT_PROBE_DETACH_H

/*
 * Removes probes without waiting. The kernel removes the breakpoints of a link at once, but the closing thread
 * then waits for a tenth of a second, until no program can be running any more. Perf uprobes also wait for each
 * other.
 */

#include <stdbool.h>
#include <stddef.h>

struct bpf_link;

/* A holder of one or more probes; or the file that contains them, closed once the holders before it are gone. */
struct held_probes {
	struct bpf_link *event; /* one perf event; NULL: fd is the holder */
	int fd;
	bool has_lease; /* fd is a file with a lease, which is given up (link_holder.c) */
};

/* Zeroed: nothing to wait for. */
struct detacher {
	struct detachment **detachment;
	size_t detachment_nr, detachment_alloc;
};

/*
 * Starts to end probes and takes ownership of their holders. One thread ends all of them in order; if no thread
 * can be started, the caller's does.
 */
void detach_begin(struct detacher *detacher, const struct held_probes *held, size_t nr);

/* Ends one, and waits for it. */
void detach_now(const struct held_probes *held);

/* Number of calls of detach_begin() that are not finished. */
size_t detach_pending(struct detacher *detacher);

/* Waits until all are closed. */
void detach_end(struct detacher *detacher);

#endif
