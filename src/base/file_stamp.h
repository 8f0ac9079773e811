/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_FILE_STAMP_H
#define ALLOCSNAP_BASE_FILE_STAMP_H

#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

/* Identifies a file that was read, and its version: the path may lead to another file by now. */
struct file_stamp {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime;
};

struct file_stamp file_stamp_of(const struct stat *st);

/* Whether this is a regular file, the same one, and not written to since. */
bool file_stamp_fits(const struct file_stamp *stamp, const struct stat *st);

#endif
