// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/drain/map_sizes.h"

#include <errno.h>
#include <stddef.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "collect.h"
#include "collect/drain/map_reader.h"
#include "shared/bpf_types.h"
#include "shared/page_types.h"
#include "shared/unwind_types.h"

#define BLOCKS_DEFAULT (4u << 20)
#define TRACEBACKS_DEFAULT (256u << 10)
#define STARTS_MOST (256u << 10)
#define REST_LEAST (64u << 10) /* without --max-memory */
#define LEAVES_DEFAULT (1u << 20) /* of pages: 128 GiB without holes */
#define LEAVES_UNSEEN (64u << 10) /* of one page in eight: 64 GiB */

/* How --max-memory is divided. */
#define BLOCKS_LEAST 1024
#define REST_SHARE 4 /* one quarter of the blocks */
#define TRACEBACK_SHARE 16
#define SLAB_SHARE 8 /* one eighth of the bytes */
#define SLABS_LEAST 2
#define SLAB_BYTES (UNWIND_SLAB_WORDS * sizeof(uint64_t))

/*
 * The maps of constant size in bpf/maps.bpf.h: processes, unwind_places (64 Ki of 112 bytes, and the kernel's
 * overhead), unwind_objects (4096 of 512), process_slots, unwind_cache, known_walks, the doorbell; and the memory
 * that the kernel's allocator keeps ready for each processor.
 */
#define FIXED_BYTES ((uint64_t)PROCESSES_MAX * sizeof(struct process) + (14ULL << 20))

/* ---- kernel memory for a hash map that allocates its entries on demand ---- */

#define ELEMENT_BYTES 48 /* struct htab_elem, before the key */
#define LINK_BYTES 8	 /* added by bpf_mem_alloc */
#define BUCKET_BYTES 16

/* The sizes that the kernel's allocator offers. */
static uint64_t allocated_bytes(uint64_t bytes)
{
	static const uint64_t sizes[] = { 64, 96, 128, 192, 256, 512, 1024, 2048, 4096 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (bytes <= sizes[i])
			return sizes[i];
	return bytes;
}

static uint64_t bucket_bytes(uint64_t entries)
{
	uint64_t nr = 1;

	while (nr < entries)
		nr *= 2;
	return nr * BUCKET_BYTES;
}

static uint64_t hash_bytes_of(uint64_t entries, size_t key_bytes, size_t value_bytes)
{
	return bucket_bytes(entries) +
	       entries * allocated_bytes(ELEMENT_BYTES + key_bytes + value_bytes + LINK_BYTES);
}

uint64_t map_room_bytes(const struct map_room *room, uint32_t traceback_limit)
{
	size_t traceback_bytes = offsetof(struct traceback, pc) + traceback_limit * sizeof(uint64_t);

	return FIXED_BYTES + room->slabs * SLAB_BYTES + room->free_filter * sizeof(uint64_t) +
	       hash_bytes_of(room->blocks, sizeof(struct block_key), sizeof(struct block)) +
	       hash_bytes_of(room->rest, sizeof(struct handed_key), sizeof(struct handed_block)) +
	       hash_bytes_of(room->rest, sizeof(struct block_key), sizeof(uint64_t)) +
	       hash_bytes_of(room->tracebacks, sizeof(uint64_t), traceback_bytes) +
	       hash_bytes_of(room->starts, sizeof(struct start_key), sizeof(uint64_t)) +
	       hash_bytes_of(room->leaves, sizeof(struct page_key), sizeof(struct page_leaf));
}

/* ---- numbers of entries ---- */

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static uint32_t smaller(uint64_t a, uint32_t b)
{
	return a < b ? a : b;
}

bool free_filter_is_needed(const struct collector_options *options)
{
	return options->sample_bytes || options->min_size || options->max_size || options->max_overhead;
}

/*
 * With a budget a process that allocates much is sampled, and the frees of what is not recorded need the filter. More
 * blocks than that are recorded only of processes that have the time to look their frees up in the map.
 */
#define BUDGET_BYTES_EACH (128 << 10)

static uint32_t free_filter_of(const struct collector_options *options, uint32_t blocks)
{
	uint64_t each = options->sample_bytes ?: options->max_overhead ? BUDGET_BYTES_EACH : 0;

	return free_filter_is_needed(options) ? free_filter_entries(each, options->min_size, blocks) : 1;
}

/* Leaves of processes that nothing else sees, beside the blocks of other processes. */
static uint32_t leaves_beside(const struct collector_options *options, uint32_t blocks)
{
	return options->unseen_pages ? smaller(blocks / LEAF_PAGES + 1, LEAVES_UNSEEN) : 1;
}

/*
 * Each possible entry of a map takes 16 bytes even if it is not used: so maps that are seldom full get fewer
 * entries. Losses for lack of room are counted.
 */
static struct map_room default_room(const struct collector_options *options)
{
	bool has_pages = options->domains & COLLECTOR_PAGES;
	uint32_t blocks = has_pages ? BLOCKS_LEAST : options->max_blocks ?: BLOCKS_DEFAULT;

	return (struct map_room){
		.blocks = blocks,
		.rest = has_pages ? BLOCKS_LEAST : larger(blocks / REST_SHARE, REST_LEAST),
		.leaves = !has_pages ? leaves_beside(options, blocks) :
			  options->max_blocks ? options->max_blocks / LEAF_PAGES + 1 : LEAVES_DEFAULT,
		.tracebacks = options->max_tracebacks ?: TRACEBACKS_DEFAULT,
		.starts = options->domains & COLLECTOR_MMAP ? STARTS_MOST : 1,
		.slabs = UNWIND_SLABS_MAX,
		.free_filter = free_filter_of(options, blocks),
	};
}

static struct map_room room_for(const struct collector_options *options, uint32_t blocks)
{
	uint64_t slabs = options->max_memory / SLAB_SHARE / SLAB_BYTES;
	bool has_pages = options->domains & COLLECTOR_PAGES;

	return (struct map_room){
		.blocks = has_pages ? BLOCKS_LEAST : blocks,
		.rest = has_pages ? BLOCKS_LEAST : blocks / REST_SHARE,
		.leaves = has_pages ? blocks : leaves_beside(options, blocks),
		.tracebacks = blocks / TRACEBACK_SHARE,
		.starts = options->domains & COLLECTOR_MMAP ? smaller(blocks, STARTS_MOST) : 1,
		.slabs = larger(smaller(slabs, UNWIND_SLABS_MAX), SLABS_LEAST),
		.free_filter = free_filter_of(options, blocks),
	};
}

static uint64_t bytes_for(const struct collector_options *options, uint32_t blocks)
{
	const struct map_room room = room_for(options, blocks);

	return map_room_bytes(&room, options->traceback_limit ?: TRACEBACK_LIMIT_DEFAULT);
}

/* The largest number of blocks that fits: more blocks never take less memory. */
static uint32_t blocks_that_fit(const struct collector_options *options)
{
	return BLOCKS_LEAST + array_first(COLLECTOR_MAX_BLOCKS_MOST - BLOCKS_LEAST, more,
					  bytes_for(options, BLOCKS_LEAST + more + 1) > options->max_memory);
}

static int refuse_max_memory(const struct collector_options *options, struct reason *why)
{
	char given[UNIT_TEXT_MAX], needed[UNIT_TEXT_MAX];

	return reason_set(why, -ERANGE, "--max-memory: %s is too little: %s at least",
			  format_size(given, options->max_memory, false),
			  format_size(needed, bytes_for(options, BLOCKS_LEAST), false));
}

int map_room_choose(struct map_room *ret, const struct collector_options *options,
		    struct reason *why)
{
	if (!options->max_memory) {
		*ret = default_room(options);
		return 0;
	}
	if (bytes_for(options, BLOCKS_LEAST) > options->max_memory)
		return refuse_max_memory(options, why);
	*ret = room_for(options, blocks_that_fit(options));
	return 0;
}
