/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_FILE_WATCH_H
#define ALLOCSNAP_COLLECT_PROBE_FILE_WATCH_H

/*
 * Reports that a file with probes is written to (inotify): its probes must be gone before the new program is
 * started, because the kernel would put breakpoints where the old program had instructions. It reports the first
 * write, and the closing of a descriptor that was open for writing. It does not see writes to mapped memory.
 *
 * It also misses writes that bypass the file as it is open here: to the layer below an overlay, on another host
 * of a network file system, or to the block device.
 */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* fd -1: no watch. */
struct file_watch {
	int fd; /* readable: file_watch_next() has an event */
	size_t at, bytes; /* of what was read and is not returned yet */
	char event[4096] __attribute__((aligned(8)));
};

/* 0 or a negative errno. */
int file_watch_open(struct file_watch *watch);
void file_watch_close(struct file_watch *watch);

/* The watch number of the file behind fd, the same for each call; or a negative errno. */
int file_watch_add(struct file_watch *watch, int fd);
void file_watch_remove(struct file_watch *watch, int number);

#define FILE_WATCH_NONE (-1)
#define FILE_WATCH_ALL (-2) /* events were dropped: any file may have been written to */

/* The watch number of a file that was written to, or one of the above. Does not wait. */
int file_watch_next(struct file_watch *watch);

#define LEASE_SIGNAL SIGURG /* is ignored, unless a process asks for it */

/*
 * Opens the file behind fd once more, with a lease (fcntl(2), F_SETLEASE): a process that opens it for writing waits until this
 * descriptor is closed or the lease is given up, and LEASE_SIGNAL is sent. Returns the descriptor, even if there can be no lease:
 * *ret_has says which. -ETXTBSY: the file is open for writing. Other negative errnos: it cannot be opened.
 */
int file_lease_take(int fd, bool *ret_has);

/* A process waits to open the file for writing. */
bool file_lease_is_broken(int fd);

#endif
