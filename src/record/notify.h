/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_NOTIFY_H
#define ALLOCSNAP_RECORD_NOTIFY_H

/*
 * Messages of a service to its manager (sd_notify(3), Type=notify): it is ready, its status, it is alive,
 * it ends. The protocol is lines in a datagram; a program with privileges takes no library
 * for that. If no manager asked for messages, all of this does nothing.
 *
 *	notify__open(&notify);
 *	… load, attach …
 *	notify__send_ready(&notify, "records 12 processes");
 *	while (…) {
 *		poll(…, until notify__due_ns(&notify) at most)
 *		notify__send_alive(&notify);		as often as possible, between snapshots, too
 *	}
 *	notify__send_stopping(&notify, "takes the last snapshots");
 *	notify__close(&notify);
 */

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
	int fd; /* -1: no manager asked */
	struct sockaddr_un to;
	socklen_t to_bytes;
	uint64_t watchdog_ns; /* the manager ends us after a longer silence; 0: it does not */
	uint64_t alive_ns;    /* when the last message that we are alive was sent; CLOCK_MONOTONIC */
};

/*
 * Reads NOTIFY_SOCKET (a path, or @NAME: abstract), WATCHDOG_USEC and WATCHDOG_PID, and removes them from the
 * environment: they are meant for us alone. A negative errno: messages cannot be sent, and the other functions do
 * nothing.
 */
int notify__open(struct notify *notify);

/* Waits for a busy manager, a second at most. Returns 0, or a negative errno: the manager does not know. */
int notify__send_ready(struct notify *notify, const char *status);

/* One line for `systemctl status`; bytes that are no text are made visible. */
void notify__send_status(const struct notify *notify, const char *status);

/* Sends that we are alive if half of the allowed silence is over. Cheap if it is not. */
void notify__send_alive(struct notify *notify);

/* Returns when notify__send_alive() will have something to send; CLOCK_MONOTONIC. UINT64_MAX: never. */
uint64_t notify__due_ns(const struct notify *notify);

void notify__send_stopping(const struct notify *notify, const char *status);

/* May also be called after a failed notify__open(). */
void notify__close(struct notify *notify);

#endif
