/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PUSH_PUSH_HELPER_H
#define ALLOCSNAP_PUSH_PUSH_HELPER_H

/*
 * A process that pushes the snapshots of a folder while another process records them. It has no privileges but those
 * that the folder takes. The recorder never waits for it, except a few seconds at the end if the endpoint answers.
 */

#include "push/pusher.h"

struct push_helper;

/* Forks the process: before anything else is open. Options must outlive it. NULL: it failed, with a line in *why. */
struct push_helper *push_helper__start(const struct pusher_options *options, const char *folder, struct reason *why);

/* Its counts so far, valid until the stop. If it has ended by itself, this is logged, once, and is_up is false. */
const struct push_counts *push_helper__counts(struct push_helper *helper);

/*
 * Ends it after a last attempt. Returns how many snapshots still waited at its last look. *ret_has_failed: it ended by
 * itself before, or its last look failed, so that more may wait.
 */
uint64_t push_helper__stop(struct push_helper *helper, bool *ret_has_failed);

#endif
