// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A heap of glibc made by hand: found in each layout, counted by state, damaged. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "census/glibc_heap.h"

#define DATA 0x10000u
#define DATA_BYTES 0x3000u
#define HEAP 0x100000u
#define HEAP_BYTES 0x2000u
#define ARENA_AT 0x800u /* in the data */
#define PARAMETERS_AT 0x100u

static unsigned char data[DATA_BYTES], heap[HEAP_BYTES];

static unsigned int page_reads_to_growth; /* 0: the heap does not grow */

static void grow_heap(void);

static int read_made(void *, uint64_t address, void *to, size_t bytes)
{
	if (address >= DATA && address + bytes <= DATA + DATA_BYTES)
		memcpy(to, data + (address - DATA), bytes);
	else if (address >= HEAP && address + bytes <= HEAP + HEAP_BYTES)
		memcpy(to, heap + (address - HEAP), bytes);
	else
		return -EIO;
	if (address == HEAP && bytes == HEAP_BYTES / 2 && page_reads_to_growth && !--page_reads_to_growth)
		grow_heap();
	return 0;
}

static void put(uint64_t address, uint64_t value)
{
	memcpy(address < HEAP ? data + (address - DATA) : heap + (address - HEAP), &value, 8);
}

static uint64_t bins_of(uint64_t bins_offset)
{
	return DATA + ARENA_AT + bins_offset;
}

/* An arena whose heap is one top. */
static void make_heap(uint64_t bins_offset)
{
	uint64_t bins = bins_of(bins_offset), base = DATA + PARAMETERS_AT + 96;

	memset(data, 0, sizeof(data));
	memset(heap, 0, sizeof(heap));
	for (uint64_t i = 0; i < 2 * GLIBC_BINS; i++)
		put(bins + 8 * i, bins + 16 * (i / 2) - 16);
	put(bins + GLIBC_TOP, HEAP);
	put(bins + GLIBC_NEXT, DATA + ARENA_AT);
	put(bins + GLIBC_SYSTEM_MEM, HEAP_BYTES);
	put(bins + GLIBC_SYSTEM_MEM + 8, HEAP_BYTES);
	put(base, HEAP); /* sbrk_base */
	put(base - 32, 65536);
	put(base + 24, 7);
	put(HEAP + 8, HEAP_BYTES | CHUNK_PREV_INUSE);
}

/* The chunk becomes the first part of the top. */
static uint64_t make_chunk(uint64_t bins_offset, uint64_t bytes)
{
	uint64_t bins = bins_of(bins_offset), top, left;

	read_made(NULL, bins + GLIBC_TOP, &top, 8);
	read_made(NULL, top + 8, &left, 8);
	put(top + 8, bytes | CHUNK_PREV_INUSE);
	put(top + bytes + 8, (left & -8ull) - bytes + CHUNK_PREV_INUSE);
	put(bins + GLIBC_TOP, top + bytes);
	return top;
}

static void put_in_bin(uint64_t bins_offset, unsigned int bin, uint64_t chunk, uint64_t bytes)
{
	uint64_t header = bins_of(bins_offset) + 16 * bin - 16, next;

	put(header + 16, chunk);
	put(header + 24, chunk);
	put(chunk + 16, header);
	put(chunk + 24, header);
	read_made(NULL, chunk + bytes + 8, &next, 8);
	put(chunk + bytes + 8, next & ~(uint64_t)CHUNK_PREV_INUSE);
}

static void take_made_census(struct census *census)
{
	struct target_mapping mapping[] = {
		{ DATA, DATA + DATA_BYTES, .is_writable = true, .is_file = true },
		{ HEAP, HEAP + HEAP_BYTES, .is_writable = true, .is_heap = true },
	};
	struct target_memory memory = { .read = read_made, .mapping = mapping, .mapping_nr = 2 };

	*census = (struct census){};
	cr_assert_eq(heap_census(&memory, census), 0);
}

static void expect_state(const struct census *census, enum census_state state, uint64_t count, uint64_t bytes)
{
	const struct census_count *found = &census->arena[0].state[state];

	cr_expect(found->count == count && found->bytes == bytes, "%s: %lu chunks, %lu bytes", census_state_names[state],
		  found->count, found->bytes);
}

Test(census_heap, is_found_in_each_layout)
{
	static const uint64_t bins_offset[] = { 104, 112, 24 };

	for (size_t i = 0; i < 3; i++) {
		struct census census;

		make_heap(bins_offset[i]);
		make_chunk(bins_offset[i], 64);
		take_made_census(&census);
		cr_assert_eq(census.arena_nr, 1, "bins at %lu", bins_offset[i]);
		cr_expect_eq(census.arena[0].address, DATA + ARENA_AT);
		expect_state(&census, CENSUS_IN_USE, 1, 64);
		expect_state(&census, CENSUS_TOP, 1, HEAP_BYTES - 64);
		cr_expect_eq(census.arena[0].unwalked_bytes, 0);
		census_release(&census);
	}
}

Test(census_heap, has_chunks_in_each_state)
{
	struct census census;
	uint64_t tcache, cached, larger, fast, bin;

	make_heap(112);
	tcache = make_chunk(112, 0x290);
	make_chunk(112, 48);
	cached = make_chunk(112, 32);
	larger = make_chunk(112, 48);
	fast = make_chunk(112, 48);
	bin = make_chunk(112, 512);
	make_chunk(112, 4000);
	put_in_bin(112, 0, bin, 512);
	put(tcache + 16, 0x10001); /* one chunk in each of the first two bins */
	put(tcache + 16 + 128, cached + 16);
	put(tcache + 16 + 128 + 8, larger + 16);
	put(cached + 16, (cached + 16) >> 12); /* the end of a list, mixed with its address */
	put(larger + 16, (larger + 16) >> 12);
	put(DATA + ARENA_AT + 16 + 8, fast);
	put(fast + 16, (fast + 16) >> 12);
	take_made_census(&census);
	expect_state(&census, CENSUS_IN_USE, 3, 0x290 + 48 + 4000);
	expect_state(&census, CENSUS_TCACHE, 2, 32 + 48);
	expect_state(&census, CENSUS_FASTBINS, 1, 48);
	expect_state(&census, CENSUS_UNSORTED, 1, 512);
	expect_state(&census, CENSUS_SMALL, 0, 0);
	cr_expect_eq(census.loss[CENSUS_LOSS_LISTS_BROKEN] + census.loss[CENSUS_LOSS_BYTES_UNWALKED], 0);
	census_release(&census);
}

Test(census_heap, that_is_damaged_is_counted_as_unwalked)
{
	static const uint64_t sizes[] = { 1, 17, 41, 1ull << 40 | 1, UINT64_MAX, HEAP_BYTES | 1, 64 | CHUNK_IS_MMAPPED | 1 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct census census;
		const struct census_arena *arena = NULL;
		uint64_t damaged, sum;

		make_heap(112);
		make_chunk(112, 64);
		damaged = make_chunk(112, 96);
		for (size_t j = 0; j < 20; j++)
			make_chunk(112, 64);
		put(damaged + 8, sizes[i]);
		take_made_census(&census);
		cr_assert_eq(census.arena_nr, 1);
		arena = &census.arena[0];
		sum = arena->overhead_bytes + arena->unwalked_bytes;
		for (enum census_state s = 0; s < CENSUS_STATE_NR; s++)
			sum += arena->state[s].bytes;
		cr_expect_eq(sum, HEAP_BYTES, "size %lx: the parts are %lu bytes", sizes[i], sum);
		cr_expect_eq(arena->unwalked_bytes, 96, "size %lx: %lu bytes", sizes[i], arena->unwalked_bytes);
		expect_state(&census, CENSUS_IN_USE, 21, 21 * 64);
		census_release(&census);
	}
}

Test(census_heap, lists_in_a_circle_end)
{
	struct census census;
	uint64_t one, two;

	make_heap(112);
	make_chunk(112, 64);
	one = make_chunk(112, 48);
	two = make_chunk(112, 48);
	put(DATA + ARENA_AT + 16 + 8, one);
	put(one + 16, two);
	put(two + 16, one);
	take_made_census(&census);
	cr_expect_eq(census.loss[CENSUS_LOSS_LISTS_BROKEN], 1);
	expect_state(&census, CENSUS_IN_USE, 3, 160);
	census_release(&census);
}

Test(census_heap, without_an_arena_has_a_reason)
{
	struct census census;

	make_heap(112);
	put(bins_of(112) + GLIBC_NEXT, 0); /* no ring */
	take_made_census(&census);
	cr_expect_eq(census.arena_nr, 0);
	cr_expect(*census.no_heap);
	make_heap(112);
	for (uint64_t i = 0; i < 40; i++)
		put(bins_of(112) + 8 * i, 0x41414141); /* no bins */
	take_made_census(&census);
	cr_expect_eq(census.arena_nr, 0);
}

/* ---- mappings that grow while they are read ---- */

static unsigned int maps_read;

/* The heap has grown to all of its bytes. */
static int map_grown(struct target_memory *memory)
{
	maps_read++;
	memory->mapping[1].end = HEAP + HEAP_BYTES;
	return 0;
}

static int map_same(struct target_memory *)
{
	maps_read++;
	return 0;
}

/* The mappings were read when the heap had its first page only; its top is in the second one. */
static void take_grown_census(int (*map)(struct target_memory *), struct census *census)
{
	struct target_mapping mapping[] = {
		{ DATA, DATA + DATA_BYTES, .is_writable = true, .is_file = true },
		{ HEAP, HEAP + HEAP_BYTES / 2, .is_writable = true, .is_heap = true },
	};
	struct target_memory memory = { .read = read_made, .map = map, .mapping = mapping, .mapping_nr = 2 };

	make_heap(112);
	make_chunk(112, HEAP_BYTES / 2 + 64);
	maps_read = 0;
	*census = (struct census){};
	cr_assert_eq(heap_census(&memory, census), 0);
	cr_assert_eq(census->arena_nr, 1);
}

Test(census_heap, beyond_its_mapping_has_the_mappings_read_again)
{
	struct census census;

	take_grown_census(map_grown, &census);
	expect_state(&census, CENSUS_IN_USE, 1, HEAP_BYTES / 2 + 64);
	expect_state(&census, CENSUS_TOP, 1, HEAP_BYTES / 2 - 64);
	cr_expect_eq(census.loss[CENSUS_LOSS_BYTES_UNWALKED], 0);
	cr_expect(maps_read && maps_read < 4, "%u times", maps_read);
	census_release(&census);
}

Test(census_heap, beyond_all_mappings_is_counted_as_unwalked)
{
	struct census census;

	take_grown_census(map_same, &census);
	cr_expect_eq(census.loss[CENSUS_LOSS_BYTES_UNWALKED], HEAP_BYTES);
	cr_expect(maps_read && maps_read <= TARGET_MAPS_MOST, "%u times", maps_read);
	census_release(&census);
}

/* ---- a heap that grows while it is read ---- */

/* One page is in use but for 64 bytes; the second page is given to the top. */
static void make_small_heap(void)
{
	uint64_t bins = bins_of(112);

	make_heap(112);
	put(HEAP + 8, HEAP_BYTES / 2 | CHUNK_PREV_INUSE);
	put(bins + GLIBC_SYSTEM_MEM, HEAP_BYTES / 2);
	make_chunk(112, HEAP_BYTES / 2 - 64);
}

static void grow_heap(void)
{
	put(bins_of(112) + GLIBC_SYSTEM_MEM, HEAP_BYTES);
	put(HEAP + HEAP_BYTES / 2 - 64 + 8, (HEAP_BYTES / 2 + 64) | CHUNK_PREV_INUSE);
}

/* Each piece is read twice: growth between both is seen, growth after them is left out. */
Test(census_heap, that_grows_is_that_of_one_moment)
{
	for (unsigned int reads = 1; reads <= 2; reads++) {
		uint64_t bytes = reads == 1 ? HEAP_BYTES : HEAP_BYTES / 2;
		struct census census;

		make_small_heap();
		page_reads_to_growth = reads;
		take_made_census(&census);
		cr_expect_eq(page_reads_to_growth, 0);
		cr_expect_eq(census.arena[0].system_bytes, bytes, "%lu bytes", census.arena[0].system_bytes);
		cr_expect_eq(census.loss[CENSUS_LOSS_BYTES_UNWALKED], 0, "%lu unwalked", census.loss[CENSUS_LOSS_BYTES_UNWALKED]);
		expect_state(&census, CENSUS_IN_USE, 1, HEAP_BYTES / 2 - 64);
		expect_state(&census, CENSUS_TOP, 1, bytes - HEAP_BYTES / 2 + 64);
		census_release(&census);
	}
}
