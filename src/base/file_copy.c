// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/file_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_BYTES (64 << 10) /* bytes copied or compared at a time */

struct file_copy {
	int fd;
	uint64_t bytes;
	const char *memory;
};

/* 0, -EIO if the file has become shorter, or the error of reading it. */
static int read_file_bytes(int fd, uint64_t offset, void *to, size_t bytes)
{
	char *at = to;

	while (bytes) {
		ssize_t got = pread(fd, at, bytes, offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? -errno : -EIO;
		at += got;
		offset += got;
		bytes -= got;
	}
	return 0;
}

static size_t part_at(const struct file_copy *copy, uint64_t at)
{
	uint64_t left = copy->bytes - at;

	return left < PART_BYTES ? left : PART_BYTES;
}

/* Uses pwrite: the kernel would zero the pages of a mapping first, which takes twice as long. */
static int fill_copy(const struct file_copy *copy, int from)
{
	char part[PART_BYTES];
	int err;

	for (uint64_t at = 0; at < copy->bytes; at += PART_BYTES) {
		size_t bytes = part_at(copy, at);

		err = read_file_bytes(from, at, part, bytes);
		if (err)
			return err;
		if (pwrite(copy->fd, part, bytes, at) != (ssize_t)bytes)
			return -ENOMEM;
	}
	return 0;
}

static int seal(struct file_copy *copy)
{
	void *memory;

	if (fcntl(copy->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	memory = mmap(NULL, copy->bytes, PROT_READ, MAP_SHARED, copy->fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	copy->memory = memory;
	return 0;
}

static int make_copy(struct file_copy *copy, int from, uint64_t bytes_max)
{
	struct stat st;
	int err;

	if (fstat(from, &st))
		return -errno;
	if ((uint64_t)st.st_size > bytes_max)
		return -EFBIG;
	if (!st.st_size)
		return -ENODATA;
	copy->bytes = st.st_size;
	copy->fd = memfd_create("allocsnap-copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (copy->fd < 0)
		return -errno;
	err = fill_copy(copy, from);
	return err ?: seal(copy);
}

struct file_copy *file_copy__new(int fd, uint64_t bytes_max)
{
	struct file_copy *copy = calloc(1, sizeof(*copy));
	int err;

	if (!copy)
		return NULL;
	copy->fd = -1;
	err = make_copy(copy, fd, bytes_max);
	if (!err)
		return copy;
	file_copy__free(copy);
	errno = -err;
	return NULL;
}

void file_copy__free(struct file_copy *copy)
{
	if (!copy)
		return;
	if (copy->memory)
		munmap((void *)copy->memory, copy->bytes);
	if (copy->fd >= 0)
		close(copy->fd);
	free(copy);
}

int file_copy__fd(const struct file_copy *copy)
{
	return copy->fd;
}

uint64_t file_copy__bytes(const struct file_copy *copy)
{
	return copy->bytes;
}

bool file_copy__is_of(const struct file_copy *copy, int fd)
{
	char part[PART_BYTES];
	struct stat st;

	if (fstat(fd, &st) || (uint64_t)st.st_size != copy->bytes)
		return false;
	for (uint64_t at = 0; at < copy->bytes; at += PART_BYTES) {
		size_t bytes = part_at(copy, at);

		if (read_file_bytes(fd, at, part, bytes) || memcmp(part, copy->memory + at, bytes))
			return false;
	}
	return true;
}

bool file_bytes_are_same(int a, int b, uint64_t bytes)
{
	char x[PART_BYTES], y[PART_BYTES];

	for (uint64_t at = 0; at < bytes; at += PART_BYTES) {
		size_t part = bytes - at < PART_BYTES ? bytes - at : PART_BYTES;

		if (read_file_bytes(a, at, x, part) || read_file_bytes(b, at, y, part) || memcmp(x, y, part))
			return false;
	}
	return true;
}
