/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROCESS_FILE_IDENTITY_H
#define ALLOCSNAP_COLLECT_PROCESS_FILE_IDENTITY_H

/*
 * Which file a descriptor refers to, and which version of it: statx() of the opened file. The numbers in
 * /proc/PID/maps do not suffice: on btrfs and overlay file systems several files share them. A build-id does not,
 * either: anyone can write another file's build-id into a file.
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
	struct file_time born; /* 0 if the file system does not record it */
	uint64_t bytes;
	struct file_time modified, changed;
};

/* 0 or a negative errno. Does not wait for a network file system. */
int file_identity_read(int fd, struct file_identity *ret);

/* The same inode, even if it has been written to since. */
bool file_identity_is_same_inode(const struct file_identity *a, const struct file_identity *b);

/* The same inode, and not written to, as far as size and modification time show. */
bool file_identity_is_unwritten(const struct file_identity *a, const struct file_identity *b);

/*
 * The same inode, unwritten, and with the same change time. Renames, new links and permissions change that, too;
 * but the file's owner cannot set it back, unlike the modification time.
 */
bool file_identity_is_same(const struct file_identity *a, const struct file_identity *b);

#endif
