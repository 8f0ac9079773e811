/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PUSH_PUSH_QUEUE_H
#define ALLOCSNAP_PUSH_PUSH_QUEUE_H

/*
 * The snapshots of a folder that wait to be pushed to an endpoint. The files are the queue; a file FOLDER/.push-ID notes
 * which of them are done, one queue for each URL. So a snapshot that could not be pushed waits for the next attempt, also
 * in another process, and none is forgotten unless the file itself is gone. A crash between a push and its note makes a
 * push happen twice.
 */

#include <stddef.h>
#include <stdint.h>

#include "reason.h"

struct push_queue;

/* How a snapshot left the queue. Append only: the names are in the file. */
enum push_outcome {
	OUTCOME_PUSHED = 0,
	OUTCOME_REJECTED, /* by the endpoint, or it cannot be read */
	OUTCOME_GIVEN_UP, /* too many wait */
};

/* The folder may not exist yet. NULL: it failed, with a line in *why; EBUSY: another process has the queue. */
struct push_queue *push_queue__open(const char *folder, const char *url, struct reason *why);
void push_queue__close(struct push_queue *queue); /* NULL is allowed */

/*
 * Looks at the folder and the folders in it: which snapshots wait, the oldest first by the moments in their names
 * (base/moment.h); files with other names count as taken when they were written. *ret_vanished counts snapshots that waited
 * at the last look and are gone. Returns 0 or a negative errno, with a line in *why.
 */
int push_queue__scan(struct push_queue *queue, uint64_t *ret_vanished, struct reason *why);

size_t push_queue__nr(const struct push_queue *queue);

/* The path of one that waits, valid until the next scan. */
const char *push_queue__path(const struct push_queue *queue, size_t at);

/* Notes that it waits no longer; the order of the others stays. Returns 0 or a negative errno, with a line in *why. */
int push_queue__note(struct push_queue *queue, size_t at, enum push_outcome outcome, struct reason *why);

#endif
