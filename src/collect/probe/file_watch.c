// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/file_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

int file_watch_open(struct file_watch *watch)
{
	*watch = (struct file_watch){ .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC) };
	return watch->fd < 0 ? -errno : 0;
}

void file_watch_close(struct file_watch *watch)
{
	if (watch->fd >= 0)
		close(watch->fd);
	watch->fd = -1;
}

int file_watch_add(struct file_watch *watch, int fd)
{
	char path[32];
	int number;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	number = inotify_add_watch(watch->fd, path, IN_MODIFY | IN_CLOSE_WRITE);
	return number < 0 ? -errno : number;
}

void file_watch_remove(struct file_watch *watch, int number)
{
	inotify_rm_watch(watch->fd, number);
}

static bool read_more(struct file_watch *watch)
{
	ssize_t got = read(watch->fd, watch->event, sizeof(watch->event));

	watch->at = 0;
	watch->bytes = got > 0 ? got : 0;
	return watch->bytes != 0;
}

int file_watch_next(struct file_watch *watch)
{
	while (watch->at < watch->bytes || read_more(watch)) {
		const struct inotify_event *event = (const void *)(watch->event + watch->at);

		watch->at += sizeof(*event) + event->len;
		if (event->mask & IN_Q_OVERFLOW)
			return FILE_WATCH_ALL;
		if (event->mask & (IN_MODIFY | IN_CLOSE_WRITE))
			return event->wd;
	}
	return FILE_WATCH_NONE;
}

int file_lease_take(int fd, bool *ret_has)
{
	char path[32];
	int own;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	*ret_has = own >= 0 && !fcntl(own, F_SETSIG, LEASE_SIGNAL) && !fcntl(own, F_SETLEASE, F_RDLCK);
	if (own < 0 || *ret_has || errno != EAGAIN)
		return own < 0 ? -errno : own;
	close(own);
	return -ETXTBSY;
}

bool file_lease_is_broken(int fd)
{
	return fcntl(fd, F_GETLEASE) != F_RDLCK;
}
