// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/python/python_pool.h"

#include <string.h>

struct pool_header {
	uint32_t live_nr, pad;
	uint64_t free_block, next, previous;
	uint32_t arena, class, next_offset, last_offset;
};
_Static_assert(sizeof(struct pool_header) == PYTHON_POOL_HEADER, "as CPython's");

/* Marks the blocks of the free list. False: it is no such list. */
static bool mark_free_blocks(const uint64_t *word, uint64_t address, const struct pool_header *header, struct python_pool *ret)
{
	size_t free_nr = 0, ever_nr = (header->next_offset - PYTHON_POOL_HEADER) / ret->block_bytes;

	for (uint64_t block = header->free_block; block; free_nr++) {
		uint64_t offset = block - address, number = (offset - PYTHON_POOL_HEADER) / ret->block_bytes;

		if (offset < PYTHON_POOL_HEADER || offset >= header->next_offset ||
		    (offset - PYTHON_POOL_HEADER) % ret->block_bytes || ret->is_free[number])
			return false;
		ret->is_free[number] = true;
		block = word[offset / 8];
	}
	return ever_nr - free_nr == header->live_nr;
}

uint32_t python_pool_used(const uint64_t *word, uint32_t pool_bytes)
{
	struct pool_header header;

	memcpy(&header, word, sizeof(header));
	if (!header.live_nr)
		return PYTHON_POOL_HEADER;
	return header.next_offset < pool_bytes ? header.next_offset : pool_bytes;
}

bool python_pool_read(const uint64_t *word, uint64_t address, uint32_t pool_bytes, struct python_pool *ret)
{
	struct pool_header header;

	memcpy(&header, word, sizeof(header));
	memset(ret, 0, sizeof(*ret));
	if (!header.live_nr)
		return true;
	if (pool_bytes > PYTHON_POOL_MOST || header.class >= PYTHON_POOL_CLASSES || header.next_offset < PYTHON_POOL_HEADER ||
	    header.next_offset > pool_bytes)
		return false;
	ret->block_bytes = (header.class + 1) * PYTHON_BLOCK_STEP;
	ret->live_nr = header.live_nr;
	ret->used_end = header.next_offset;
	return mark_free_blocks(word, address, &header, ret);
}
