/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_ATOMIC_FILE_H
#define ALLOCSNAP_BASE_ATOMIC_FILE_H

#include <limits.h>
#include <stdbool.h>

/*
 * A file that is being written. It has no name, or a hidden one, until it is complete and on the disk,
 * so that its name never stands for a partial file. If the process dies, a nameless file leaves nothing.
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
	char hidden[NAME_MAX + 1]; /* the temporary name; "": there is none */
};

/*
 * Creates the file with mode 0600. It has a hidden name if `named` is set, or if the file system
 * does not support nameless files.
 */
int draft_open(struct draft *draft, int dir_fd, const char *name, bool named);

/* Syncs the file to the disk. */
int draft_sync(const struct draft *draft);

/* Gives the file a name. -EEXIST if the name is taken. */
int draft_link(struct draft *draft, const char *name);

/* Gives the file the name that it was opened with, and replaces a file of that name. */
int draft_replace(struct draft *draft);

/* Call this after a failure of draft_open(), too. Removes the file if it has no name yet. */
void draft_close(struct draft *draft);

/* Syncs a directory to the disk; no error if its file system cannot. */
int sync_dir(int dir_fd);

#endif
