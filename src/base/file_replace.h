/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_FILE_REPLACE_H
#define ALLOCSNAP_BASE_FILE_REPLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "base/reason.h"

/*
 * Writes a file that replaces the one of this name when it is complete and on the disk; mode 0600.
 * If the name is a symbolic link, its target is replaced; a link that another user put into a folder
 * such as /tmp is an error. If the name is no regular file (a device, a pipe, /dev/stdout), this writes
 * to it instead.
 *
 * write() gets `what` and returns 0 or a negative errno; this function checks the stream's errors
 * itself. 0, or a negative errno with "PATH: cannot write: …" in *why; then the old file is
 * unchanged.
 */
int file_replace(const char *path, int (*write)(FILE *out, const void *what), const void *what,
		 struct reason *why);

/* The same; a file that is made or replaced is given to this user. NULL: it is the caller's. */
struct file_owner {
	uid_t uid;
	gid_t gid;
};

int file_replace_for(const char *path, const struct file_owner *owner, int (*write)(FILE *out, const void *what),
		     const void *what, struct reason *why);

/* Writes through a separate stream on the same open file; the caller keeps the descriptor. 0 or a negative errno. */
int file_fill(int fd, int (*write)(FILE *out, const void *what), const void *what);

/* Identifies a file that was read, and its version: the path may lead to another file by now. */
struct file_version {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime;
};

struct file_version file_version_of(const struct stat *st);

/* Whether this is a regular file, the same one, and not written to since. */
bool file_version_fits(const struct file_version *stamp, const struct stat *st);

/*
 * The same for a file that was read before, and only for that file: if the path leads to another
 * file by now, that file stays (-ESTALE). A link of another user is not followed (-EACCES), root's is. The new file keeps
 * the owner, mode, time, ACL and extended attributes. -EINVAL: it is no regular file.
 */
int file_rewrite(const char *path, const struct file_version *read,
		 int (*write)(FILE *out, const void *what), const void *what, struct reason *why);

/*
 * A file that is being written. It has no name, or a hidden one, until it is complete and on the disk,
 * so that its name never stands for a partial file. If the process dies, a nameless file leaves nothing.
 *
 *	err = atomic_file_open(&draft, dir_fd, name, false);
 *	if (!err)
 *		err = … write to draft.fd … ?: atomic_file_sync(&draft) ?: atomic_file_replace(&draft);
 *	atomic_file_close(&draft);
 *
 * The functions return 0 or a negative errno.
 */
struct atomic_file {
	int dir_fd; /* the caller's */
	int fd;
	const char *name;
	char hidden[NAME_MAX + 1]; /* the temporary name; "": the file is nameless */
};

/*
 * Creates the file with mode 0600. It has a hidden name if `named` is set, or if the file system
 * does not support nameless files.
 */
int atomic_file_open(struct atomic_file *draft, int dir_fd, const char *name, bool named);

/* Syncs the file to the disk. */
int atomic_file_sync(const struct atomic_file *draft);

/* Gives the file a name. -EEXIST if the name is taken. */
int atomic_file_link(struct atomic_file *draft, const char *name);

/* Gives the file the name that it was opened with, and replaces a file of that name. */
int atomic_file_replace(struct atomic_file *draft);

/* Call this after a failure of atomic_file_open(), too. Removes the file if it has no name yet. */
void atomic_file_close(struct atomic_file *draft);

/* Syncs a directory to the disk; no error if its file system cannot. */
int sync_dir(int dir_fd);

#endif
