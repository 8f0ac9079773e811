/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DRAIN_GRACE_H
#define ALLOCSNAP_COLLECT_DRAIN_GRACE_H

/* Waits until all running BPF programs have ended: an RCU grace period. */

/* Zeroed: not created yet. */
struct grace {
	int inner_fd, outer_fd; /* a map inside a map */
};

/*
 * Creates what grace_wait() needs, unless it exists; after that, creating cannot fail in grace_wait(). 0 or a
 * negative errno.
 */
int grace_make(struct grace *grace);

/* Returns when the programs that are running now have ended. 0 or a negative errno. */
int grace_wait(struct grace *grace);

void grace_release(struct grace *grace);

#endif
