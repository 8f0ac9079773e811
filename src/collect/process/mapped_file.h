/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_MAPPED_FILE_H
#define ALLOCSNAP_COLLECT_MAPPED_FILE_H

/* What a mapping of a process leads to: told, and opened. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reason.h"
#include "collect/process/file_identity.h"
#include "shared/unwind_types.h"

struct file_opener;

/* What tells of a mapped file: a line of /proc/PID/maps, or an event of the kernel's. */
struct mapped_file {
	pid_t pid;
	uint32_t user;	     /* of the process: objects_user() */
	uint64_t start, end; /* where it is mapped */
	uint64_t dev, inode; /* 0: not told. Several files may have the same */
	const char *build_id; /* in hexadecimal; NULL: not told */
	const char *path;
	const char *root; /* the directory that the path begins in, for when the process is gone; or NULL */
};

struct opened {
	int fd; /* -1: it could not be, see `why` */
	struct file_identity identity; /* of a copy: device, inode and size only */
	struct unwind_file kernel_file; /* of a copy: as the kernel's side knows the file */
	bool is_copy; /* of a file system that may not answer (open_file.h) */
	bool is_silent; /* that does not answer now */
	bool is_first_silence;
	bool is_by_path;
	struct reason why;
};

/*
 * Through /proc/PID/map_files, which leads to the mapped file itself. 0, also where it cannot be opened; -ESRCH,
 * -ENOENT: it is not mapped there any more. The caller closes what was opened.
 */
int open_mapped(struct file_opener *opener, const struct mapped_file *file, struct opened *ret);

/* What the path of a file leads to below its root now. */
void open_by_path(struct file_opener *opener, const struct mapped_file *file, struct opened *ret);

/* A path of our own, and what it really is, for the caller to free. 0 or a negative errno: nothing is open. */
int open_own_path(struct file_opener *opener, const char *path, struct opened *ret, char **ret_path);

void close_opened(struct opened *opened);

/* Whether the kernel means it by `told`, with or without " (deleted)". */
bool is_path_of_mapping(const char *path, const char *told);

/* The path without " (deleted)", for the caller to free. */
char *path_of_mapping(const char *path);

#endif
