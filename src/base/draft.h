/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_DRAFT_H
#define ALLOCSNAP_BASE_DRAFT_H

#include <limits.h>
#include <stdbool.h>

#include "base/file_stamp.h"

/*
 * A file on its way: it has no name, or a hidden one, until it is whole and on the disk, so that
 * there is never half a file under its name. Whatever ends us, a nameless file leaves nothing.
 *
 *	err = draft_open(&draft, dir_fd, name, false);
 *	if (!err)
 *		err = … write to draft.fd … ?: draft_sync(&draft) ?: draft_replace(&draft);
 *	draft_close(&draft);
 *
 * The functions return 0 or a negative errno.
 */
struct draft {
	int dir_fd; /* the caller's */
	int fd;
	const char *name;
	char hidden[NAME_MAX + 1]; /* the temporary name; "": none */
};

/* Mode 0600. With named, and where the file system knows no nameless files, it is hidden. */
int draft_open(struct draft *draft, int dir_fd, const char *name, bool named);

/* To the disk. */
int draft_sync(const struct draft *draft);

/* Gives the file a name. -EEXIST where it is taken. */
int draft_link(struct draft *draft, const char *name);

/* Gives it the name that it was opened with, in place of what has that. */
int draft_replace(struct draft *draft);

/* The same, but in place of this file only: -ESTALE where something else has the name by now, which stays. */
int draft_replace_only(struct draft *draft, const struct file_stamp *old);

/* Also after a failure of draft_open(); removes what has got no name. */
void draft_close(struct draft *draft);

/* A directory to the disk; where its file system cannot, that is no error. */
int sync_dir(int dir_fd);

#endif
