/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PROCESS_MAPPED_FILE_H
#define ALLOCSNAP_PROCESS_MAPPED_FILE_H

/* Describes the file of a mapping, and opens it. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reason.h"
#include "shared/unwind_types.h"

struct file_opener;

/*
 * Which file a descriptor refers to, and which version of it: statx() of the opened file. The numbers in
 * /proc/PID/maps do not suffice: on btrfs and overlay file systems several files share them. A build-id does not,
 * either: anyone can write another file's build-id into a file.
 */

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

/* A mapped file as a line of /proc/PID/maps or an event of the kernel describes it. */
struct mapped_file {
	pid_t pid;
	uint32_t user;	     /* objects_user() of the process */
	uint64_t start, end; /* where it is mapped */
	uint64_t dev, inode; /* 0: unknown. Several files may have the same numbers */
	const char *build_id; /* in hexadecimal; NULL: unknown */
	const char *path;
	const char *root; /* of an event: the directory that the path starts in, for when the file is mapped no more */
};

struct opened {
	int fd; /* -1: it could not be opened, see `why` */
	struct file_identity identity; /* if it is a copy: device, inode and size only */
	struct unwind_file kernel_file; /* if it is a copy: the file as the kernel side knows it */
	struct unwind_file below; /* as in open_file.h */
	bool is_copy; /* the file system might not answer, so fd is a copy (open_file.h) */
	bool is_silent; /* the file system does not answer now */
	bool is_first_silence;
	bool is_by_path;
	bool is_other; /* the file does not have the build-id that was mapped */
	struct reason why;
};

/*
 * Opens through /proc/PID/map_files, which leads to the mapped file itself. 0, even if the file cannot be opened;
 * -ESRCH, -ENOENT: it is no longer mapped there. The caller calls close_opened().
 */
int open_mapped(struct file_opener *opener, const struct mapped_file *file, struct opened *ret);

/* Opens the file that has this path below its root now. */
void open_by_path(struct file_opener *opener, const struct mapped_file *file, struct opened *ret);

/*
 * Opens a path in the recorder's own root; *ret_path is its real path, for the caller to free. 0 or a negative
 * errno: nothing is open.
 */
int open_own_path(struct file_opener *opener, const char *path, struct opened *ret, char **ret_path);

void close_opened(struct opened *opened);

/* Whether the kernel's text `told` means this path, with or without " (deleted)". */
bool is_path_of_mapping(const char *path, const char *told);

/* The path without " (deleted)", for the caller to free. */
char *path_of_mapping(const char *path);

#endif
