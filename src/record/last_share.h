/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_LAST_SHARE_H
#define ALLOCSNAP_RECORD_LAST_SHARE_H

/*
 * Limits the time that `record` spends on the last snapshots of one user's processes: half of the time. Further ones
 * wait, so that no user delays the snapshots of other users by ending processes. Arithmetic only; all in nanoseconds.
 */

#include <stdbool.h>
#include <stdint.h>

#include "shared/bpf_types.h"

/* Zeroed, apart from most_ns: no user has taken any time. */
struct last_share {
	uint64_t most_ns; /* the most that one user can take at once */
	uint64_t now_ns;  /* when last_share_advance() was called last */
	uint64_t taken_ns[USERS_MAX]; /* the time taken, less half of the time since */
};

/* Sets the limit of each user by the interval. */
void last_share_init(struct last_share *share, uint64_t interval_ns);

/* Moves the clock on. */
void last_share_advance(struct last_share *share, uint64_t now_ns);

bool last_share_allows(const struct last_share *share, uint32_t user);

void last_share_consume(struct last_share *share, uint32_t user, uint64_t ns);

#endif
