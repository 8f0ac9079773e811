/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_FILE_COPY_H
#define ALLOCSNAP_BASE_FILE_COPY_H

/*
 * What a file held at one time, in memory that nobody can change: what is found out about these
 * bytes is true of every file that has the same ones.
 */

#include <stdbool.h>
#include <stdint.h>

struct file_copy;

/* NULL and errno: EFBIG where there are more bytes, ENODATA none, or what reading it gave. */
struct file_copy *file_copy__new(int fd, uint64_t bytes_max);
void file_copy__free(struct file_copy *copy); /* NULL is allowed */

/* To be read, or handed to another process; sealed, and the copy's own. */
int file_copy__fd(const struct file_copy *copy);
uint64_t file_copy__bytes(const struct file_copy *copy);

/* Whether the file holds the very same bytes now. It is read up to the first that is another one. */
bool file_copy__is_of(const struct file_copy *copy, int fd);

/* Whether both files have the same bytes, up to this many. */
bool file_bytes_are_same(int a, int b, uint64_t bytes);

#endif
