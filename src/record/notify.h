/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SERVICE_NOTIFY_H
#define ALLOCSNAP_SERVICE_NOTIFY_H

/*
 * What a service tells its manager (sd_notify(3), Type=notify): that it is ready, how it does, that it
 * is alive, that it ends. The protocol is lines in a datagram; a program with privileges takes no library
 * for that. Where no manager asked to be told, all of this does nothing.
 *
 *	notify__open(&notify);
 *	… load, attach …
 *	notify__ready(&notify, "records 12 processes");
 *	while (…) {
 *		poll(…, until notify__due_ns(&notify) at most)
 *		notify__alive(&notify);		as often as may be, between snapshots, too
 *	}
 *	notify__stopping(&notify, "takes the last snapshots");
 *	notify__close(&notify);
 */

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
	int fd; /* -1: nobody asked */
	struct sockaddr_un to;
	socklen_t to_bytes;
	uint64_t watchdog_ns; /* a longer silence ends us; 0: it may last */
	uint64_t alive_ns;    /* when that was told last; CLOCK_MONOTONIC */
};

/*
 * By NOTIFY_SOCKET (a path, or @NAME: abstract), WATCHDOG_USEC and WATCHDOG_PID, which are taken out of
 * the environment: they are meant for us alone. A negative errno: the manager cannot be told,
 * and will not be.
 */
int notify__open(struct notify *notify);

/* Waits for a manager that is busy, a second at most. 0, or a negative errno: it does not know. */
int notify__ready(struct notify *notify, const char *status);

/* One line for `systemctl status`; what is no text is made visible. */
void notify__status(const struct notify *notify, const char *status);

/* Tells that we are alive, where half of the allowed silence is over. Cheap where it is not. */
void notify__alive(struct notify *notify);

/* When notify__alive() will have something to tell; CLOCK_MONOTONIC. UINT64_MAX: never. */
uint64_t notify__due_ns(const struct notify *notify);

void notify__stopping(const struct notify *notify, const char *status);

/* Also after a failed notify__open(). */
void notify__close(struct notify *notify);

#endif
