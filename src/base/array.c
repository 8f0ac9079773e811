// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int array_reserve_bytes(void **items, size_t *alloc, size_t want, size_t item_size)
{
	size_t grown = *alloc + *alloc / 2 + 16;
	void *moved;

	if (want <= *alloc)
		return 0;
	if (grown < want)
		grown = want;
	moved = reallocarray(*items, grown, item_size);
	if (!moved)
		return -ENOMEM;
	*items = moved;
	*alloc = grown;
	return 0;
}

int array_by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

#define MAPPED_LEAST (256 << 10) /* for less, malloc's memory is as good */
#define HUGE_LEAST (2 << 20)

void *huge_pages_new(size_t len)
{
	void *pages;

	if (len < MAPPED_LEAST)
		return calloc(1, len ?: 1);
	pages = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED) {
		errno = ENOMEM;
		return NULL;
	}
	if (len >= HUGE_LEAST)
		madvise(pages, len, MADV_HUGEPAGE);
	return pages;
}

void huge_pages_free(void *pages, size_t len)
{
	if (len < MAPPED_LEAST)
		free(pages);
	else if (pages)
		munmap(pages, len);
}

void huge_pages_will_be_used(void *bytes, size_t len)
{
	size_t page = sysconf(_SC_PAGESIZE), skipped = -(size_t)bytes % page;

	if (len >= 2 * HUGE_LEAST)
		madvise((char *)bytes + skipped, len - skipped, MADV_HUGEPAGE);
}

void huge_pages_drop(void *pages, size_t len, size_t from, size_t to)
{
	size_t page = sysconf(_SC_PAGESIZE);

	from = (from + page - 1) / page * page;
	to = to / page * page;
	if (len >= MAPPED_LEAST && from < to)
		madvise((char *)pages + from, to - from, MADV_DONTNEED);
}
