/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_FILE_STAMP_H
#define ALLOCSNAP_BASE_FILE_STAMP_H

#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

/* Which file it was that was read, and as of when: a path may lead to another one by now. */
struct file_stamp {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime;
};

struct file_stamp file_stamp_of(const struct stat *st);

/* A regular file, the same one, not written to since. */
bool file_stamp_fits(const struct file_stamp *stamp, const struct stat *st);

#endif
