// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "exact/books_epochs.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exact/books.h"

#define WINDOW_BYTES (UINT64_C(4) << 20)

static void map_word(uint64_t *word, const uint16_t *map)
{
	uint64_t was = __atomic_load_n(word, __ATOMIC_RELAXED), new;

	do {
		new = (was & ~(UINT64_MAX << BLOCK_EPOCH_SHIFT)) | (uint64_t)map[BLOCK_EPOCH(was)] << BLOCK_EPOCH_SHIFT;
	} while (was && new != was && !__atomic_compare_exchange_n(word, &was, new, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/* Words at `first`, and at each `step` bytes behind it, in a range of pages. */
static int map_range(int fd, uint64_t from, uint64_t to, const uint16_t *map, uint64_t first, uint64_t step)
{
	char *window = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED, fd, from);

	if (window == MAP_FAILED)
		return -errno;
	for (uint64_t at = from <= first ? first : first + (from - first + step - 1) / step * step; at < to; at += step)
		map_word((uint64_t *)(window + (at - from)), map);
	munmap(window, to - from);
	return 0;
}

/* Holes stay holes. */
static int map_table(int fd, uint64_t from, uint64_t to, const uint16_t *map, uint64_t first, uint64_t step)
{
	int err = 0;

	while (!err) {
		off_t data = lseek(fd, from, SEEK_DATA), hole;
		uint64_t end;

		if (data < 0 || (uint64_t)data >= to)
			break;
		hole = lseek(fd, data, SEEK_HOLE);
		end = hole < 0 || (uint64_t)hole > to ? to : (uint64_t)hole;
		end = end - data > WINDOW_BYTES ? data + WINDOW_BYTES : end;
		err = map_range(fd, data, end, map, first, step);
		from = end;
	}
	return err;
}

int books_map_epochs(int fd, const uint16_t *map)
{
	return map_table(fd, BOOKS_AT_CHUNKS, BOOKS_AT_LEVELS, map, BOOKS_AT_CHUNKS, sizeof(uint64_t)) ?:
	       map_table(fd, BOOKS_AT_LEVELS, BOOKS_AT_HANDED, map, BOOKS_AT_LEVELS + offsetof(struct books_large, word),
			 sizeof(struct books_large));
}
