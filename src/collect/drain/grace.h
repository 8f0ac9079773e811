/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_GRACE_H
#define ALLOCSNAP_COLLECT_GRACE_H

/* Waiting for the BPF programs that run: a grace period of RCU. */

/* Zeroed: not made yet. */
struct grace {
	int inner_fd, outer_fd; /* a map in a map */
};

/* Makes what grace_wait() needs, unless it is there; behind this it does not fail. 0 or a negative errno. */
int grace_make(struct grace *grace);

/* Returns when the programs that run now have ended. 0 or a negative errno. */
int grace_wait(struct grace *grace);

void grace_release(struct grace *grace);

#endif
