// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "books_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"

void make_file_of_books(struct made_books *made)
{
	*made = (struct made_books){ .fd = memfd_create("books", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
	cr_assert(made->fd >= 0);
	cr_assert_eq(ftruncate(made->fd, BOOKS_BYTES), 0);
	cr_assert_eq(fcntl(made->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	made->base = mmap(NULL, BOOKS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, made->fd, 0);
	cr_assert_neq(made->base, MAP_FAILED);
	memcpy(MADE_HEAD(made)->magic, BOOKS_MAGIC, sizeof(MADE_HEAD(made)->magic));
	MADE_HEAD(made)->version = BOOKS_VERSION;
}

void open_made_books(struct made_books *made)
{
	cr_assert_eq(books_open(fcntl(made->fd, F_DUPFD_CLOEXEC, 0), MADE_HEAD(made)->kind, 1, &made->books), 0);
}

void release_made_books(struct made_books *made)
{
	books_close(made->books);
	munmap(made->base, BOOKS_BYTES);
	close(made->fd);
}

int keep_read_block(void *read_, const struct books_block *block)
{
	struct read_books *read = read_;

	return array_push(read, block, *block);
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct books_block *)a)->address, y = ((const struct books_block *)b)->address;

	return (x > y) - (x < y);
}

int cut_and_read(struct made_books *made, uint64_t now_ns, bool has_ended, struct read_books *ret)
{
	int err;

	ret->block_nr = 0;
	err = books_cut(made->books, now_ns, has_ended) ?: books_read_blocks(made->books, keep_read_block, ret);
	if (ret->block_nr)
		qsort(ret->block, ret->block_nr, sizeof(*ret->block), by_address);
	return err;
}

void release_read_books(struct read_books *read)
{
	free(read->block);
	*read = (struct read_books){};
}
