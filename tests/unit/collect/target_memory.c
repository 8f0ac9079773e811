// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Pages that were never touched: zeros that are not read. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "census/target_memory.h"

#define START 0x100000u
#define PAGES 600u /* more than are asked for at once */
#define BYTES (PAGES * TARGET_PAGE)
#define PRESENT (UINT64_C(1) << 63)
#define SWAPPED (UINT64_C(1) << 62)

static unsigned char memory_byte[BYTES], page_is_read[PAGES];
static uint64_t page_entry[PAGES];
static bool pages_fail;

static int read_made(void *, uint64_t address, void *to, size_t bytes)
{
	uint64_t at = address - START;

	if (!bytes || address < START || at + bytes > BYTES)
		return -EIO;
	for (uint64_t page = at / TARGET_PAGE; page <= (at + bytes - 1) / TARGET_PAGE; page++)
		page_is_read[page]++;
	memcpy(to, memory_byte + at, bytes);
	return 0;
}

static int read_entries(void *, uint64_t address, uint64_t *entry, size_t nr)
{
	uint64_t page = (address - START) / TARGET_PAGE;

	if (pages_fail || page + nr > PAGES)
		return -EIO;
	memcpy(entry, page_entry + page, nr * sizeof(*entry));
	return 0;
}

/* Reads a piece of a mapping whose first page is there, whose third one is in swap, and whose other pages are not there. */
static void read_piece(struct target_mapping mapping, uint64_t at, unsigned char *to, size_t bytes)
{
	struct target_memory memory = { .read = read_made, .pages = read_entries, .mapping = &mapping, .mapping_nr = 1 };

	memset(memory_byte, 'x', sizeof(memory_byte));
	memset(page_is_read, 0, sizeof(page_is_read));
	page_entry[0] = PRESENT;
	page_entry[2] = SWAPPED;
	cr_assert_eq(target_read_touched(&memory, START + at, to, bytes), 0);
}

static size_t bytes_read(const unsigned char *piece, size_t bytes)
{
	size_t nr = 0;

	for (size_t i = 0; i < bytes; i++)
		nr += piece[i] == 'x';
	return nr;
}

static const struct target_mapping heap = { START, START + BYTES, .is_writable = true, .is_heap = true, .is_named = true };
static const struct target_mapping anonymous = { START, START + BYTES, .is_writable = true };

Test(target_memory, gives_zeros_for_pages_that_were_never_touched)
{
	static unsigned char piece[3 * TARGET_PAGE];
	const struct target_mapping *mapping[] = { &heap, &anonymous };

	for (size_t i = 0; i < 2; i++) {
		memset(piece, 'o', sizeof(piece));
		read_piece(*mapping[i], TARGET_PAGE - 8, piece, 2 * TARGET_PAGE + 24);
		cr_expect_eq(bytes_read(piece, 8), 8, "the end of the first page");
		cr_expect_eq(piece[8], 0);
		cr_expect_eq(piece[8 + TARGET_PAGE - 1], 0);
		cr_expect_eq(bytes_read(piece + 8 + TARGET_PAGE, TARGET_PAGE), TARGET_PAGE, "the page in swap");
		cr_expect_eq(piece[8 + 2 * TARGET_PAGE], 0);
		cr_expect_eq(piece[8 + 2 * TARGET_PAGE + 15], 0);
		cr_expect_eq(piece[8 + 2 * TARGET_PAGE + 16], 'o', "behind the piece");
		cr_expect(page_is_read[0] == 1 && page_is_read[2] == 1);
		cr_expect(!page_is_read[1] && !page_is_read[3]);
	}
}

Test(target_memory, reads_all_pages_of_a_file)
{
	static unsigned char piece[2 * TARGET_PAGE];
	const struct target_mapping file = { START, START + BYTES, .is_writable = true, .is_file = true };
	const struct target_mapping named = { START, START + BYTES, .is_writable = true, .is_named = true };

	read_piece(file, 0, piece, sizeof(piece));
	cr_expect_eq(bytes_read(piece, sizeof(piece)), sizeof(piece));
	read_piece(named, 0, piece, sizeof(piece));
	cr_expect_eq(bytes_read(piece, sizeof(piece)), sizeof(piece));
}

Test(target_memory, reads_all_pages_if_it_does_not_know)
{
	static unsigned char piece[BYTES];
	struct target_mapping first = anonymous;

	first.end = START + TARGET_PAGE; /* the piece reaches beyond */
	read_piece(first, 0, piece, 2 * TARGET_PAGE);
	cr_expect_eq(bytes_read(piece, 2 * TARGET_PAGE), 2 * TARGET_PAGE);
	read_piece(anonymous, 0, piece, sizeof(piece)); /* too many pages */
	cr_expect_eq(bytes_read(piece, sizeof(piece)), sizeof(piece));
	pages_fail = true;
	read_piece(anonymous, 0, piece, 2 * TARGET_PAGE);
	cr_expect_eq(bytes_read(piece, 2 * TARGET_PAGE), 2 * TARGET_PAGE);
}
