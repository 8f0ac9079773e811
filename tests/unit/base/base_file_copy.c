// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/file_copy.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Not a multiple of the bytes that are compared at a time. */
#define BYTES (200 * 1000)
#define BYTES_MAX (1 << 20)

static char text[BYTES];

static int file_of(const void *bytes, size_t nr)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	cr_assert_eq(pwrite(fd, bytes, nr, 0), (ssize_t)nr);
	return fd;
}

static void fill_text(void)
{
	for (size_t i = 0; i < BYTES; i++)
		text[i] = i * 31 % 251;
}

TestSuite(file_copy, .init = fill_text);

Test(file_copy, matches_every_file_with_the_same_bytes)
{
	int file = file_of(text, BYTES), other = file_of(text, BYTES);
	struct file_copy *copy = file_copy__new(file, BYTES);

	cr_assert(copy);
	cr_expect_eq(file_copy__bytes(copy), BYTES);
	cr_expect(file_copy__is_of(copy, file));
	cr_expect(file_copy__is_of(copy, other));
	file_copy__free(copy);
	close(file);
	close(other);
}

Test(file_copy, matches_no_other_file)
{
	static const size_t places[] = { 0, 64 << 10, BYTES / 2, BYTES - 1 };
	int file = file_of(text, BYTES);
	struct file_copy *copy = file_copy__new(file, BYTES_MAX);

	cr_assert(copy);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		char byte = text[places[i]] + 1;

		cr_assert_eq(pwrite(file, &byte, 1, places[i]), 1);
		cr_expect(!file_copy__is_of(copy, file), "another byte at %zu", places[i]);
		cr_assert_eq(pwrite(file, &text[places[i]], 1, places[i]), 1);
		cr_expect(file_copy__is_of(copy, file));
	}
	cr_assert_eq(ftruncate(file, BYTES + 1), 0);
	cr_expect(!file_copy__is_of(copy, file), "longer");
	cr_assert_eq(ftruncate(file, BYTES - 1), 0);
	cr_expect(!file_copy__is_of(copy, file), "shorter");
	cr_expect(!file_copy__is_of(copy, -1), "none");
	file_copy__free(copy);
	close(file);
}

/* The copy is handed to a process that may be hostile. */
Test(file_copy, cannot_be_changed)
{
	int file = file_of(text, BYTES), fd;
	struct file_copy *copy = file_copy__new(file, BYTES_MAX);
	char got[BYTES];

	cr_assert(copy);
	fd = file_copy__fd(copy);
	cr_expect_eq(pwrite(fd, "x", 1, 0), -1);
	cr_expect_eq(ftruncate(fd, 1), -1);
	cr_expect_eq(ftruncate(fd, BYTES_MAX), -1);
	cr_expect_eq(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	cr_assert_eq(ftruncate(file, 1), 0);
	cr_assert_eq(pread(fd, got, BYTES, 0), BYTES);
	cr_expect(!memcmp(got, text, BYTES), "it is the file's, whatever that is now");
	file_copy__free(copy);
	close(file);
}

Test(file_copy, is_refused_for_a_file_above_the_limit)
{
	int file = file_of(text, BYTES), empty = file_of("", 0);

	cr_expect_null(file_copy__new(file, BYTES - 1));
	cr_expect_eq(errno, EFBIG);
	cr_expect_null(file_copy__new(empty, BYTES));
	cr_expect_eq(errno, ENODATA);
	cr_expect_null(file_copy__new(-1, BYTES));
	cr_expect_eq(errno, EBADF);
	file_copy__free(NULL);
	close(file);
	close(empty);
}
