/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_FILE_REPLACE_H
#define ALLOCSNAP_BASE_FILE_REPLACE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/reason.h"

/*
 * Writes a file that takes the place of what has this name when it is whole and on the disk;
 * mode 0600. Where that is a symbolic link, what it points to is replaced, but not through a link
 * that somebody else put into a folder such as /tmp; what is no regular file (a device, a pipe,
 * /dev/stdout) is written to.
 *
 * write() gets `what` and returns 0 or a negative errno; that of the stream is seen to. 0, or a
 * negative errno with "PATH: cannot write: …" in *why, and then the old file is as it was.
 */
int file_replace(const char *path, int (*write)(FILE *out, const void *what), const void *what,
		 struct reason *why);

struct file_stamp;

/*
 * The same for the file that was read before, and only that: what the path leads to otherwise stays
 * (-ESTALE), whoever changes it meanwhile. The new one keeps its owner, mode, time, ACL and other
 * attributes. Links are followed if they are ours or root's. -EINVAL: it is no regular file.
 */
int file_rewrite(const char *path, const struct file_stamp *read,
		 int (*write)(FILE *out, const void *what), const void *what, struct reason *why);

#endif
