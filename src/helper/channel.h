/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_HELPER_CHANNEL_H
#define ALLOCSNAP_HELPER_CHANNEL_H

/*
 * Messages, and descriptors beside them, over one end of a socket pair. Functions
 * return 0 or a negative errno: -EPIPE if the other end is closed.
 */

#include <stdint.h>
#include <sys/uio.h>

/* The head of a message. */
struct message {
	uint32_t kind;
	uint32_t bytes; /* length of what follows */
};

struct channel {
	int fd;
	/*
	 * Called after each CHANNEL_SLICE_MS in which nothing was transferred, and after each
	 * partial transfer. 0: keep waiting. NULL: wait forever.
	 */
	int (*is_too_long)(void *who);
	void *who;
};

#define CHANNEL_SLICE_MS 100
#define CHANNEL_PIECES_MAX 6

/* Opens both ends, close-on-exec. A wait at ret_end[0] is divided into slices. */
int channel__pair(int ret_end[2]);

/* Sends a message of these pieces, together with fd, unless that is -1. */
int channel__send(const struct channel *channel, uint32_t kind, const struct iovec *piece,
		  int piece_nr, int fd);

/* Receives the head of a message, and the descriptor that came with it (-1: none; NULL: not wanted). */
int channel__head(const struct channel *channel, struct message *ret, int *ret_fd);

/* Receives the next bytes of the message. */
int channel__receive(const struct channel *channel, void *to, size_t bytes);

#endif
