/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_NAMING_ORDINARY_FILE_H
#define ALLOCSNAP_NAMING_ORDINARY_FILE_H

/*
 * Inside naming: opens the file of an O_PATH descriptor for reading, if it is a regular file on a
 * disk or in memory. Opening a device can have effects. So can opening some files that the kernel
 * makes up and calls regular (/proc/kmsg, free_buffer of tracefs). A file that a user's process
 * serves (FUSE) may never answer. Returns a descriptor; -EINVAL: it is no regular file, -EXDEV: it
 * is in such a file system; another negative errno.
 */
int open_ordinary(int path_fd);

/* The text for a negative errno from open_ordinary(). */
const char *why_not_ordinary(int err);

#endif
