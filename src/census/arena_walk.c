// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "census/glibc_heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define WINDOW (256u << 10)
#define TRIES 8
#define END_TRIES 1000	  /* the top moves with each allocation */
#define SURE_CHUNKS 12		  /* in a row: chance, or data, does not look like that */
#define ROW_MOST (16u << 10)	  /* bytes that they may need */
#define CANDIDATES_MOST 65536
#define LARGE_FROM 1024		  /* glibc's MIN_LARGE_SIZE */
#define CHUNK_STRUCT 48		  /* malloc_trim() keeps these bytes of a free chunk */

/* A range is read in pieces, each twice. */
struct walk {
	struct heap_reader *reader;
	struct census_arena *arena;
	bool is_main;
	bool is_last; /* the range ends with the top */
	uint64_t end;
	uint64_t window; /* address of what is in the buffers */
	size_t window_bytes;
	unsigned char *first, *second;
	uint64_t moved; /* the last chunk that was counted as moved */
};

/* ---- reading ---- */

static int window_move(struct walk *walk, uint64_t address)
{
	const struct target_memory *memory = walk->reader->memory;
	size_t bytes = walk->end - address < WINDOW ? walk->end - address : WINDOW;
	int err = target_read_touched(memory, address, walk->first, bytes) ?:
			  target_read_touched(memory, address, walk->second, bytes);
	walk->window = address;
	walk->window_bytes = err ? 0 : bytes;
	return err;
}

static bool walk_has(const struct walk *walk, uint64_t address, uint64_t bytes)
{
	return address >= walk->window && address + bytes <= walk->window + walk->window_bytes;
}

/* The size and flags of the chunk at an address that lies in the range. */
static int window_head(struct walk *walk, uint64_t address, uint64_t *ret)
{
	uint64_t head[2];
	int err = 0;

	if (!walk_has(walk, address, 16))
		err = window_move(walk, address);
	if (!err && !walk_has(walk, address, 16))
		err = -EINVAL;
	if (err)
		return err;
	memcpy(&head[0], walk->first + (address - walk->window) + 8, 8);
	memcpy(&head[1], walk->second + (address - walk->window) + 8, 8);
	if (head[0] != head[1] && address > walk->moved) {
		walk->reader->census->loss[CENSUS_LOSS_CHUNKS_MOVED]++;
		walk->moved = address;
	}
	*ret = head[1];
	return 0;
}

/* ---- accounting ---- */

static void count_chunk(struct census_count *count, uint64_t bytes)
{
	count->count++;
	count->bytes += bytes;
}

/* Keeps the address of a chunk that may be a tcache. */
static int note_candidate(struct walk *walk, uint64_t chunk, uint64_t bytes)
{
	const struct tcache_shape *shape = tcache_shape_of(bytes);
	struct heap_reader *reader = walk->reader;
	uint64_t content[128];

	if (!shape || reader->candidate_nr == CANDIDATES_MOST)
		return 0;
	if (walk_has(walk, chunk + 16, bytes - 8))
		memcpy(content, walk->second + (chunk - walk->window) + 16, bytes - 8);
	else if (reader->memory->read(reader->memory->process, chunk + 16, content, bytes - 8))
		return 0;
	return tcache_is_likely(shape, &reader->state, content) ? array_push(reader, candidate, chunk) : 0;
}

static int add_in_use(struct walk *walk, uint64_t chunk, uint64_t bytes)
{
	count_chunk(&walk->arena->state[CENSUS_IN_USE], bytes);
	count_chunk(&walk->arena->class[census_class_of(bytes)].in_use, bytes);
	return note_candidate(walk, chunk, bytes);
}

/* Counts the whole pages in a free chunk. malloc_trim() gives them back, except in the tops of other arenas. */
static void add_free_pages(struct walk *walk, uint64_t chunk, uint64_t bytes, bool is_trimmed)
{
	uint64_t start = (chunk + CHUNK_STRUCT + TARGET_PAGE - 1) & -(uint64_t)TARGET_PAGE;
	uint64_t end = (chunk + bytes) & -(uint64_t)TARGET_PAGE, resident;

	if (start >= end)
		return;
	resident = target_resident(walk->reader->memory, start, end,
				   &walk->reader->census->loss[CENSUS_LOSS_PAGES_UNKNOWN]);
	walk->arena->absent_bytes += end - start - resident;
	walk->arena->trimmable_bytes += is_trimmed ? resident : 0;
}

static void add_binned(struct walk *walk, uint64_t chunk, uint64_t bytes)
{
	count_chunk(&walk->arena->state[bytes < LARGE_FROM ? CENSUS_SMALL : CENSUS_LARGE], bytes);
	count_chunk(&walk->arena->class[census_class_of(bytes)].free, bytes);
	add_free_pages(walk, chunk, bytes, true);
}

static void add_top(struct walk *walk, uint64_t chunk, uint64_t bytes)
{
	count_chunk(&walk->arena->state[CENSUS_TOP], bytes);
	add_free_pages(walk, chunk, bytes, walk->is_main);
}

/* ---- where a range ends ---- */

/* Where the range with the top ended at some moment. */
struct arena_end {
	uint64_t top, end;
	uint64_t system_bytes; /* of the whole arena at that moment */
};

/* False: what was read is not plausible. */
static bool read_end_once(const struct heap_reader *reader, uint64_t arena, struct arena_end *ret)
{
	uint64_t bins = arena + reader->state.bins_offset, head, system;

	if (target_read_word(reader->memory, bins + GLIBC_SYSTEM_MEM, &ret->system_bytes) ||
	    target_read_word(reader->memory, bins + GLIBC_TOP, &ret->top) || ret->top % 16 ||
	    target_read_word(reader->memory, ret->top + 8, &head) ||
	    target_read_word(reader->memory, bins + GLIBC_SYSTEM_MEM, &system))
		return false;
	ret->end = ret->top + CHUNK_SIZE(head);
	return system == ret->system_bytes && CHUNK_SIZE(head) < TARGET_TOP && !(head & CHUNK_IS_MMAPPED) &&
	       ret->end % TARGET_PAGE == 0 && target_is_writable(reader->memory, ret->top, 16);
}

/* The top may move while it is read, and a thread that moves it may not be running. */
static bool read_end(const struct heap_reader *reader, uint64_t arena, struct arena_end *ret)
{
	for (unsigned int try = 0; try < END_TRIES; try++) {
		if (read_end_once(reader, arena, ret))
			return true;
		if (try % TRIES == TRIES - 1)
			target_wait(reader->memory);
	}
	return false;
}

struct heap_info { /* glibc's struct _heap_info, its first words */
	uint64_t arena, previous, bytes, writable_bytes;
};

static bool read_heap_info(const struct heap_reader *reader, uint64_t heap, uint64_t arena, struct heap_info *ret)
{
	const struct target_memory *memory = reader->memory;

	return !memory->read(memory->process, heap, ret, sizeof(*ret)) && ret->arena == arena && ret->bytes <= HEAP_MOST &&
	       ret->bytes % TARGET_PAGE == 0 && ret->bytes >= TARGET_PAGE && ret->previous % HEAP_MOST == 0;
}

/* The arena goes on in another heap: this one ends with a fence. */
static void end_with_heap(struct walk *walk, uint64_t heap)
{
	struct heap_info info;

	if (!read_heap_info(walk->reader, heap, walk->arena->address, &info))
		return;
	walk->is_last = false;
	walk->end = heap + info.bytes;
}

/* The census leaves out what the arena gets from the system later. */
static void end_with_top(struct walk *walk, const struct arena_end *end)
{
	walk->end = end->end;
	walk->arena->system_bytes = end->system_bytes;
}

/* The range may have grown or shrunk meanwhile. It ends with the arena's top now, or with its own heap. */
static void look_for_end(struct walk *walk, uint64_t chunk)
{
	struct arena_end now;

	if (!walk->is_last || !read_end(walk->reader, walk->arena->address, &now))
		return;
	if (!walk->is_main && (now.top ^ chunk) & -HEAP_MOST)
		end_with_heap(walk, chunk & -HEAP_MOST);
	else if (now.top >= chunk && now.end - chunk < TARGET_TOP)
		end_with_top(walk, &now);
}

/* ---- a range ---- */

static bool is_chunk(const struct walk *walk, uint64_t chunk, uint64_t head)
{
	uint64_t bytes = CHUNK_SIZE(head);

	return bytes >= CHUNK_MIN && bytes % 16 == 0 && bytes <= walk->end - chunk && !(head & CHUNK_IS_MMAPPED) &&
	       !(walk->is_main && head & CHUNK_NON_MAIN) && (bytes < walk->end - chunk || walk->is_last);
}

/* The last header of a range that is not the last one. */
static bool is_fence(const struct walk *walk, uint64_t head)
{
	return !walk->is_last && CHUNK_SIZE(head) <= 16;
}

/* The head of a chunk, and of the next one (0: it is the last). False: they cannot be read. */
static bool read_heap_chunk(struct walk *walk, uint64_t chunk, uint64_t *ret_head, uint64_t *ret_next)
{
	for (unsigned int try = 0; try < TRIES; try++) {
		*ret_next = 0;
		if (!window_head(walk, chunk, ret_head)) {
			if (is_fence(walk, *ret_head))
				return true;
			if (is_chunk(walk, chunk, *ret_head) &&
			    (CHUNK_SIZE(*ret_head) == walk->end - chunk ||
			     !window_head(walk, chunk + CHUNK_SIZE(*ret_head), ret_next)))
				return true;
		}
		if (try)
			walk->reader->census->loss[CENSUS_LOSS_CHUNKS_MOVED]++;
		look_for_end(walk, chunk);
		walk->window_bytes = 0;
	}
	return false;
}

/* Whether a row of chunks begins there, as far as the window goes. */
static bool is_row_of_chunks(struct walk *walk, uint64_t chunk)
{
	for (unsigned int nr = 0; nr < SURE_CHUNKS; nr++) {
		uint64_t head;

		if (chunk == walk->end)
			return true;
		if (!walk_has(walk, chunk, 16) || window_head(walk, chunk, &head))
			return false;
		if (is_fence(walk, head) && walk->end - chunk <= 32)
			return true;
		if (!is_chunk(walk, chunk, head))
			return false;
		chunk += CHUNK_SIZE(head);
	}
	return true;
}

/* Where chunks begin again. What lies between was not walked. */
static uint64_t skip_to_chunks(struct walk *walk, uint64_t chunk)
{
	uint64_t at = chunk;

	do {
		at += 16;
		if (at + ROW_MOST > walk->window + walk->window_bytes && walk->window + walk->window_bytes < walk->end &&
		    (target_is_late(walk->reader->memory) || window_move(walk, at)))
			at = walk->end;
	} while (at < walk->end && !is_row_of_chunks(walk, at));
	if (at > walk->end)
		at = walk->end;
	walk->arena->unwalked_bytes += at - chunk;
	return at;
}

/* Walks from the first chunk on. */
static int walk_range(struct walk *walk, uint64_t chunk)
{
	uint64_t head, next;
	int err = 0;

	while (!err && chunk < walk->end) {
		if (target_is_late(walk->reader->memory)) {
			walk->arena->unwalked_bytes += walk->end - chunk;
			break;
		}
		if (!read_heap_chunk(walk, chunk, &head, &next)) {
			chunk = skip_to_chunks(walk, chunk);
			continue;
		}
		if (is_fence(walk, head)) {
			walk->arena->overhead_bytes += walk->end - chunk;
			break;
		}
		if (CHUNK_SIZE(head) == walk->end - chunk)
			add_top(walk, chunk, CHUNK_SIZE(head));
		else if (next & CHUNK_PREV_INUSE)
			err = add_in_use(walk, chunk, CHUNK_SIZE(head));
		else
			add_binned(walk, chunk, CHUNK_SIZE(head));
		chunk += CHUNK_SIZE(head);
	}
	return err;
}

/* The range's memory is from start to walk->end, its first chunk is at `first`. */
static int add_range(struct walk *walk, uint64_t start, uint64_t first)
{
	struct heap_reader *reader = walk->reader;
	struct heap_range range = { .start = start, .arena = walk->arena - reader->census->arena };
	int err;

	walk->window_bytes = 0;
	walk->arena->overhead_bytes += first - start;
	err = walk_range(walk, first);
	range.end = walk->end;
	walk->arena->heap_nr++;
	walk->arena->resident_bytes +=
		target_resident(reader->memory, start, walk->end, &reader->census->loss[CENSUS_LOSS_PAGES_UNKNOWN]);
	return err ?: array_push(reader, range, range);
}

/* ---- arenas ---- */

/*
 * The main arena grows by brk(). If it is not one range (another part of the program has moved the break, or there was no
 * room), only the range with the top can be walked, if its begin is known.
 */
static int walk_main(struct walk *walk)
{
	const struct heap_reader *reader = walk->reader;
	uint64_t begin = reader->state.sbrk_base;
	const struct target_mapping *mapping;
	struct arena_end end;

	if (!walk->arena->system_bytes || !read_end(reader, walk->arena->address, &end))
		return 0;
	if (!reader->state.has_parameters)
		begin = end.end - end.system_bytes;
	mapping = target_mapping_at(reader->memory, end.top);
	if (begin >= end.top || !mapping || begin < mapping->start)
		begin = mapping ? mapping->start : end.top;
	walk->is_main = walk->is_last = true;
	end_with_top(walk, &end);
	return add_range(walk, begin, (begin + 15) & -(uint64_t)16);
}

static bool is_walked(const struct walk *walk, uint64_t heap)
{
	const struct heap_reader *reader = walk->reader;

	for (size_t i = 0; i < reader->range_nr; i++)
		if (reader->range[i].start == heap && &reader->census->arena[reader->range[i].arena] == walk->arena)
			return true;
	return false;
}

struct heap_list {
	uint64_t *heap;
	size_t heap_nr, heap_alloc;
};

/* The heaps from the newest one, which has the top, to the oldest, or to one that was walked before. */
static int list_heaps(const struct walk *walk, uint64_t heap, struct heap_list *ret)
{
	struct heap_reader *reader = walk->reader;
	struct heap_info info;
	int err = 0;

	while (heap && !err && !is_walked(walk, heap)) {
		if (ret->heap_nr > TARGET_TOP / HEAP_MOST || !read_heap_info(reader, heap, walk->arena->address, &info)) {
			reader->census->loss[CENSUS_LOSS_ARENAS_REFUSED]++;
			break;
		}
		err = array_push(ret, heap, heap);
		heap = info.previous;
	}
	return err;
}

/* Another arena lies in its own first heap, behind that heap's header. */
static int walk_heap(struct walk *walk, uint64_t heap)
{
	const struct heap_reader *reader = walk->reader;
	uint64_t arena = walk->arena->address, first_heap = arena & -HEAP_MOST, header = arena - first_heap, first = heap + header;
	struct arena_end end;
	struct heap_info info;

	if (heap == first_heap)
		first = (arena + reader->state.bins_offset + GLIBC_STATE_END + 15) & -(uint64_t)16;
	walk->is_last = read_end(reader, arena, &end) && (end.top & -HEAP_MOST) == heap;
	if (walk->is_last)
		end_with_top(walk, &end);
	else if (read_heap_info(reader, heap, arena, &info))
		walk->end = heap + info.bytes;
	else
		return 0;
	return add_range(walk, heap, first);
}

/*
 * The list of heaps begins with the newest one, where the arena grows: it is walked last. The arena may have got more heaps
 * meanwhile.
 */
static int walk_other(struct walk *walk)
{
	struct heap_reader *reader = walk->reader;
	uint64_t arena = walk->arena->address;
	struct arena_end end;
	bool is_read = read_end(reader, arena, &end);
	int err = 0;

	if (!is_read || arena % HEAP_MOST > 256) {
		reader->census->loss[CENSUS_LOSS_ARENAS_REFUSED]++;
		return 0;
	}
	for (unsigned int try = 0; try < TRIES && !err && is_read && !is_walked(walk, end.top & -HEAP_MOST); try++) {
		struct heap_list list = {};

		err = list_heaps(walk, end.top & -HEAP_MOST, &list);
		while (!err && list.heap_nr)
			err = walk_heap(walk, list.heap[--list.heap_nr]);
		free(list.heap);
		is_read = read_end(reader, arena, &end);
	}
	return err;
}

/* Bytes that the states do not explain were not walked. */
static void close_account(struct census *census, struct census_arena *arena)
{
	uint64_t sum = arena->overhead_bytes + arena->unwalked_bytes;

	for (enum census_state s = 0; s < CENSUS_STATE_NR; s++)
		sum += arena->state[s].bytes;
	if (sum < arena->system_bytes)
		arena->unwalked_bytes += arena->system_bytes - sum;
	else if (sum > arena->system_bytes) {
		census->loss[CENSUS_LOSS_CHUNKS_MOVED]++;
		arena->system_bytes = sum;
	}
	census->loss[CENSUS_LOSS_BYTES_UNWALKED] += arena->unwalked_bytes;
}

static int walk_arena(struct walk *walk)
{
	struct heap_reader *reader = walk->reader;
	int err;

	if (target_read_word(reader->memory, walk->arena->address + reader->state.bins_offset + GLIBC_SYSTEM_MEM,
			     &walk->arena->system_bytes))
		return 0;
	err = walk->arena->is_main ? walk_main(walk) : walk_other(walk);
	if (!err)
		close_account(reader->census, walk->arena);
	return err;
}

/* Appends the arenas of the ring. */
static int list_arenas(struct heap_reader *reader)
{
	struct census *census = reader->census;
	uint64_t address = reader->state.arena;
	int err = 0;

	reader->first_arena = census->arena_nr;
	do {
		err = array_push(census, arena, ((struct census_arena){ .address = address }));
		if (!err && target_read_word(reader->memory, address + reader->state.bins_offset + GLIBC_NEXT, &address))
			break;
	} while (!err && address && address != reader->state.arena && census->arena_nr < CENSUS_ARENAS_MAX);
	if (!err)
		census->arena[reader->first_arena].is_main = true;
	return err;
}

int heap_walk_arenas(struct heap_reader *reader)
{
	struct walk walk = { .reader = reader, .first = malloc(WINDOW), .second = malloc(WINDOW) };
	int err = walk.first && walk.second ? list_arenas(reader) : -ENOMEM;

	for (size_t i = reader->first_arena; !err && i < reader->census->arena_nr; i++) {
		walk.arena = &reader->census->arena[i];
		walk.is_main = walk.is_last = false;
		err = walk_arena(&walk);
	}
	free(walk.first);
	free(walk.second);
	return err;
}
