/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_FILE_IDENTITY_H
#define ALLOCSNAP_COLLECT_FILE_IDENTITY_H

/*
 * Which file a descriptor leads to, and as of which change, as statx() tells it of the opened file.
 * /proc/PID/maps has numbers of its own, which several files share on btrfs and overlay file systems,
 * and anybody can write another file's build-id into a file.
 */

#include <stdbool.h>
#include <stdint.h>

struct file_time {
	int64_t seconds;
	uint32_t nanoseconds;
};

/* Zeroed: no file. */
struct file_identity {
	uint64_t device; /* major << 32 | minor */
	uint64_t inode;
	struct file_time born; /* 0 where the file system does not know */
	uint64_t bytes;
	struct file_time modified, changed;
};

/* 0 or a negative errno. Does not wait for a network file system. */
int file_identity_read(int fd, struct file_identity *ret);

/* The same inode, whatever has been written to it since. */
bool file_identity_is_same_inode(const struct file_identity *a, const struct file_identity *b);

/* The same inode, and no byte was written as far as size and modification time tell. */
bool file_identity_is_unwritten(const struct file_identity *a, const struct file_identity *b);

/*
 * And nothing else was changed, either. Renames, new links and permissions change the change time, too; but only
 * that one cannot be set back by the file's owner.
 */
bool file_identity_is_same(const struct file_identity *a, const struct file_identity *b);

#endif
