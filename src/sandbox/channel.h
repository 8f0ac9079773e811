/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PARSER_CHANNEL_H
#define ALLOCSNAP_PARSER_CHANNEL_H

/*
 * Messages (messages.h), and descriptors beside them, over one end of a socket pair. Functions
 * return 0 or a negative errno: -EPIPE where the other end is gone.
 */

#include <stdint.h>
#include <sys/uio.h>

#include "sandbox/messages.h"

struct channel {
	int fd;
	/*
	 * Asked each CHANNEL_SLICE_MS that nothing moves, and where only a part has: 0 to go on
	 * waiting. NULL: wait for ever.
	 */
	int (*is_too_long)(void *who);
	void *who;
};

#define CHANNEL_SLICE_MS 100
#define CHANNEL_PIECES_MAX 6

/* Both ends, closed on exec; waiting at ret_end[0] is in slices. */
int channel__pair(int ret_end[2]);

/* A message of these pieces; fd goes with it, unless it is -1. */
int channel__send(const struct channel *channel, uint32_t kind, const struct iovec *piece,
		  int piece_nr, int fd);

/* Begins a message: its head, and the descriptor that came with it (-1: none; NULL: not wanted). */
int channel__head(const struct channel *channel, struct message *ret, int *ret_fd);

/* The next bytes of it. */
int channel__receive(const struct channel *channel, void *to, size_t bytes);

#endif
