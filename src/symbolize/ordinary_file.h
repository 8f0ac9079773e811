/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_NAMING_ORDINARY_FILE_H
#define ALLOCSNAP_NAMING_ORDINARY_FILE_H

/*
 * Inside naming: opens for reading what an O_PATH descriptor stands for, if that is a regular file that
 * lies on a disk or in memory. Devices do things when they are opened, and so do some files that the
 * kernel makes up and calls regular (/proc/kmsg, free_buffer of tracefs); what a user's process serves
 * (FUSE) may never answer. A descriptor; -EINVAL: it is no regular file, -EXDEV: it lies in such a
 * file system; another negative errno.
 */
int open_ordinary(int path_fd);

/* The same in words, of a negative errno of it. */
const char *why_not_ordinary(int err);

#endif
