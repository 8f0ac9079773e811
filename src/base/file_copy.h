/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_FILE_COPY_H
#define ALLOCSNAP_BASE_FILE_COPY_H

/*
 * A copy of a file's content in memory that no process can change. Facts about these bytes are true
 * of every file that has the same bytes.
 */

#include <stdbool.h>
#include <stdint.h>

struct file_copy;

/*
 * NULL and errno: EFBIG if the file has more than bytes_max bytes, ENODATA if it is empty, or the error of
 * reading it.
 */
struct file_copy *file_copy__new(int fd, uint64_t bytes_max);
void file_copy__free(struct file_copy *copy); /* NULL is allowed */

/* A sealed descriptor, to read or to send to another process; the copy owns it. */
int file_copy__fd(const struct file_copy *copy);
uint64_t file_copy__bytes(const struct file_copy *copy);

/* Whether the file has the same bytes now. Reads the file up to the first difference. */
bool file_copy__is_of(const struct file_copy *copy, int fd);

/* Whether the first `bytes` bytes of both files are equal; false if a file has fewer. */
bool file_bytes_are_same(int a, int b, uint64_t bytes);

#endif
