/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_HELPER_CHANNEL_H
#define ALLOCSNAP_HELPER_CHANNEL_H

/*
 * Messages, and descriptors beside them, over one end of a socket pair:
 *
 *	struct message │ pieces of `bytes` bytes in all        descriptors arrive with the first byte
 *
 * Functions return 0 or a negative errno: -EPIPE if the other end is closed. After any error the rest of a message may
 * still be on its way, so the channel is of no more use. Received descriptors are the caller's; those that no one wants,
 * the kernel closes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* The head of a message. */
struct message {
	uint32_t kind;
	uint32_t bytes; /* length of what follows */
};

/*
 * The limits are checked after each CHANNEL_SLICE_MS in which nothing was transferred, and after each partial transfer: a
 * message may come one byte at a time. Without limits a transfer waits for ever.
 */
struct channel {
	int fd; /* -1: no connection */
	uint64_t until_ns; /* then -ETIMEDOUT (monotonic_now_ns()); 0: no such limit */
	int (*is_too_long)(void *who); /* 0: keep waiting. May be NULL */
	void *who;
};

#define CHANNEL_SLICE_MS 100
#define CHANNEL_PIECES_MAX 6
#define CHANNEL_FDS_MAX 4

/* Opens both ends, close-on-exec. A wait at ret_end[0] is divided into slices. */
int channel__pair(int ret_end[2]);

/* Divides the waits at the other end, too: only for one that does not wait there for its next order. */
void channel__slice(int fd);

void channel__close(struct channel *channel);

/* Sends a message of these pieces, together with fd, unless that is -1; or with fd_nr descriptors. */
int channel__send(const struct channel *channel, uint32_t kind, const struct iovec *piece,
		  int piece_nr, int fd);
int channel__send_fds(const struct channel *channel, uint32_t kind, const struct iovec *piece, int piece_nr,
		      const int *fd, int fd_nr);

/*
 * Receives the head of a message, and the descriptor that came with it (-1: none; NULL: not wanted); or up to fd_nr
 * descriptors, -1 for those that did not come.
 */
int channel__head(const struct channel *channel, struct message *ret, int *ret_fd);
int channel__head_fds(const struct channel *channel, struct message *ret, int *ret_fd, int fd_nr);

/* Receives the next bytes of the message. */
int channel__receive(const struct channel *channel, void *to, size_t bytes);

/* Receives a message of this kind and length, and the descriptor that came with it. -EPROTO: it is another one. */
int channel__answer(const struct channel *channel, uint32_t kind, void *to, size_t bytes, int *ret_fd);

/* Whether there is a channel, and nothing to receive: the other end sends nothing without an order, and is not closed. */
bool channel__is_quiet(const struct channel *channel);

#endif
