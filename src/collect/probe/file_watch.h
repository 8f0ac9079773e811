/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_FILE_WATCH_H
#define ALLOCSNAP_COLLECT_FILE_WATCH_H

/*
 * Tells when a file that is probed is written to (inotify): its probes must be gone before the new program is
 * started, since the kernel puts breakpoints where the old program had instructions. The first write tells,
 * and so does closing a descriptor that was open for writing: memory that is mapped and written tells nothing.
 *
 * What is not told: writes that go around the file as we have it open: to the layer below an overlay, on
 * another host of a network file system, to the block device.
 */

#include <stddef.h>

/* fd -1: there is none. */
struct file_watch {
	int fd; /* readable: file_watch_next() has something to tell */
	size_t at, bytes; /* of what was read and is not told yet */
	char event[4096] __attribute__((aligned(8)));
};

/* 0 or a negative errno. */
int file_watch_open(struct file_watch *watch);
void file_watch_close(struct file_watch *watch);

/* The watch of the file behind fd, which is one however often it is asked for; or a negative errno. */
int file_watch_add(struct file_watch *watch, int fd);
void file_watch_remove(struct file_watch *watch, int number);

#define FILE_WATCH_NONE (-1)
#define FILE_WATCH_ALL (-2) /* events were dropped: it may be any file */

/* The watch of a file that was written to, or one of these. Does not wait. */
int file_watch_next(struct file_watch *watch);

#endif
