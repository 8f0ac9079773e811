/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_CURSOR_H
#define ALLOCSNAP_UNWIND_CURSOR_H

/*
 * Reads bytes from `at` to `end`, little endian. A read beyond the end gives 0 and sets is_cut for
 * good, so a caller may read a whole record first and check is_cut afterwards.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const uint8_t *at, *end;
	bool is_cut;
};

static inline size_t cursor_left(const struct cursor *cursor)
{
	return cursor->end - cursor->at;
}

static inline void cursor_cut(struct cursor *cursor)
{
	cursor->at = cursor->end;
	cursor->is_cut = true;
}

/* size is at most 8 */
static inline uint64_t cursor_uint(struct cursor *cursor, size_t size)
{
	uint64_t value = 0;

	if (cursor_left(cursor) < size) {
		cursor_cut(cursor);
		return 0;
	}
	memcpy(&value, cursor->at, size);
	cursor->at += size;
	return value;
}

static inline int64_t cursor_int(struct cursor *cursor, size_t size)
{
	unsigned int unused = 64 - 8 * size;

	return (int64_t)(cursor_uint(cursor, size) << unused) >> unused;
}

static inline uint8_t cursor_u8(struct cursor *cursor)
{
	if (cursor->at == cursor->end) {
		cursor_cut(cursor);
		return 0;
	}
	return *cursor->at++;
}

/* Drops bits beyond the 64th; an unterminated number consumes the rest. */
static inline uint64_t cursor_leb(struct cursor *cursor, unsigned int *ret_bits, uint8_t *ret_last)
{
	uint64_t value = 0;
	uint8_t byte;

	*ret_bits = 0;
	do {
		byte = cursor_u8(cursor);
		if (*ret_bits < 64) {
			value |= (uint64_t)(byte & 0x7f) << *ret_bits;
			*ret_bits += 7;
		}
	} while (byte & 0x80);
	*ret_last = byte;
	return value;
}

static inline uint64_t cursor_uleb(struct cursor *cursor)
{
	unsigned int bits;
	uint8_t last;

	return cursor_leb(cursor, &bits, &last);
}

static inline int64_t cursor_sleb(struct cursor *cursor)
{
	unsigned int bits;
	uint8_t last;
	uint64_t value = cursor_leb(cursor, &bits, &last);

	if (bits < 64 && (last & 0x40))
		value |= ~0ULL << bits;
	return (int64_t)value;
}

/* The next size bytes, as a separate cursor. */
static inline struct cursor cursor_take(struct cursor *cursor, uint64_t size)
{
	struct cursor taken = { .at = cursor->at, .end = cursor->at };

	if (size > cursor_left(cursor)) {
		cursor_cut(cursor);
		taken.is_cut = true;
		return taken;
	}
	cursor->at += size;
	taken.end = cursor->at;
	return taken;
}

#endif
