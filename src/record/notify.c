// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"

#define MESSAGE_MAX 1024
#define STATUS_MAX 512

/* An abstract name has a zero byte in place of its @, and ends by its length only. */
static int read_address(struct notify *notify, const char *name)
{
	size_t len = strlen(name);

	if ((*name != '/' && *name != '@') || len < 2)
		return -EAFNOSUPPORT;
	if (len >= sizeof(notify->to.sun_path))
		return -ENAMETOOLONG;
	notify->to.sun_family = AF_UNIX;
	memcpy(notify->to.sun_path, name, len + 1);
	notify->to_bytes = offsetof(struct sockaddr_un, sun_path) + len + (*name == '/');
	if (*name == '@')
		notify->to.sun_path[0] = '\0';
	return 0;
}

/* WATCHDOG_PID, if set, names the process that the watchdog is for. */
static uint64_t read_watchdog(void)
{
	const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	uint64_t usec = 0;

	if (!text || (pid && strtol(pid, NULL, 10) != getpid()))
		return 0;
	return sscanf(text, "%" SCNu64, &usec) == 1 && usec < UINT64_MAX / 1000 ? usec * 1000 : 0;
}

static int open_socket(struct notify *notify)
{
	const struct timeval patience = { .tv_sec = 1 };

	notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (notify->fd < 0)
		return -errno;
	setsockopt(notify->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return 0;
}

int notify__open(struct notify *notify)
{
	const char *name = getenv("NOTIFY_SOCKET");
	int err = 0;

	*notify = (struct notify){ .fd = -1 };
	if (name && *name)
		err = read_address(notify, name) ?: open_socket(notify);
	if (notify->fd >= 0)
		notify->watchdog_ns = read_watchdog();
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return err;
}

/* Cuts a status that does not fit: the lines before it matter more. */
static int notify_send(const struct notify *notify, int flags, const char *state, const char *status)
{
	char text[MESSAGE_MAX], clean[STATUS_MAX];
	ssize_t sent;
	int len;

	if (notify->fd < 0)
		return 0;
	len = snprintf(text, sizeof(text), "%s%s%s", state, status ? "STATUS=" : "",
		       status ? clean_text(clean, sizeof(clean), status) : "");
	while ((sent = sendto(notify->fd, text, len, flags | MSG_NOSIGNAL,
			      (const struct sockaddr *)&notify->to, notify->to_bytes)) < 0 &&
	       errno == EINTR)
		;
	return sent < 0 ? -errno : 0;
}

int notify__send_ready(struct notify *notify, const char *status)
{
	notify->alive_ns = monotonic_now_ns();
	return notify_send(notify, 0, "READY=1\nWATCHDOG=1\n", status);
}

void notify__send_status(const struct notify *notify, const char *status)
{
	notify_send(notify, MSG_DONTWAIT, "", status);
}

uint64_t notify__due_ns(const struct notify *notify)
{
	return notify->watchdog_ns ? notify->alive_ns + notify->watchdog_ns / 2 : UINT64_MAX;
}

/* If the manager is too busy for the message, the next call sends it again. */
void notify__send_alive(struct notify *notify)
{
	uint64_t now = monotonic_now_ns();

	if (now >= notify__due_ns(notify) && !notify_send(notify, MSG_DONTWAIT, "WATCHDOG=1\n", NULL))
		notify->alive_ns = now;
}

void notify__send_stopping(const struct notify *notify, const char *status)
{
	notify_send(notify, 0, "STOPPING=1\n", status);
}

void notify__close(struct notify *notify)
{
	if (notify->fd >= 0)
		close(notify->fd);
	notify->fd = -1;
	notify->watchdog_ns = 0;
}
