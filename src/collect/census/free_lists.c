// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/census/glibc_heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define TRIES 4
#define BINS_MOST 76
#define LINK_BYTES 24 /* of a chunk, from its size on: size, forward, back */
#define LARGE_FROM 1024

/* ---- what a tcache looks like ---- */

static const struct tcache_shape tcache_shapes[] = {
	{ 0x290, 64, 2, false }, /* glibc 2.30 to 2.41 */
	{ 0x300, 76, 2, true },	 /* from 2.42 on: 12 bins of large chunks */
	{ 0x250, 64, 1, false }, /* until 2.29 */
};

const struct tcache_shape *tcache_shape_of(uint64_t chunk_bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(tcache_shapes); i++)
		if (tcache_shapes[i].chunk_bytes == chunk_bytes)
			return &tcache_shapes[i];
	return NULL;
}

static unsigned int count_of(const struct tcache_shape *shape, const void *content, unsigned int bin)
{
	uint16_t count = 0;

	memcpy(&count, (const char *)content + bin * shape->count_bytes, shape->count_bytes);
	return count;
}

static uint64_t tcache_entry(const struct tcache_shape *shape, const void *content, unsigned int bin)
{
	uint64_t entry;

	memcpy(&entry, (const char *)content + shape->bins * shape->count_bytes + bin * 8, 8);
	return entry;
}

bool tcache_is_likely(const struct tcache_shape *shape, const struct glibc_state *state, const void *content)
{
	unsigned int lists = 0, full = 0;

	for (unsigned int bin = 0; shape->counts_slots && bin < shape->bins; bin++)
		if (count_of(shape, content, bin) > full)
			full = count_of(shape, content, bin);
	if (shape->counts_slots && (!full || (state->has_parameters && full != state->tcache_count)))
		return false;
	for (unsigned int bin = 0; bin < shape->bins; bin++) {
		unsigned int count = full ? full - count_of(shape, content, bin) : count_of(shape, content, bin);
		uint64_t entry = tcache_entry(shape, content, bin);

		if (entry % 16 || entry >= TARGET_TOP || !count != !entry)
			return false;
		lists += !!entry;
	}
	return lists;
}

/* ---- chunks of lists ---- */

/* The arena whose walked range holds a chunk, or NULL. */
static struct census_arena *arena_of(const struct heap_reader *reader, uint64_t chunk)
{
	for (size_t i = 0; i < reader->range_nr; i++)
		if (chunk >= reader->range[i].start && chunk < reader->range[i].end)
			return &reader->census->arena[reader->range[i].arena];
	return NULL;
}

static bool take_from(struct census_count *from, uint64_t bytes)
{
	if (!from->count || from->bytes < bytes)
		return false;
	from->count--;
	from->bytes -= bytes;
	return true;
}

static void add_to(struct census_count *to, uint64_t bytes)
{
	to->count++;
	to->bytes += bytes;
}

/* A chunk that the walk has counted as in use is cached. */
static void cache_chunk(struct heap_reader *reader, uint64_t chunk, uint64_t bytes, enum census_state state)
{
	struct census_arena *arena = arena_of(reader, chunk);
	struct census_class *class = arena ? &arena->class[census_class_of(bytes)] : NULL;

	if (!arena || !arena->state[CENSUS_IN_USE].count || !take_from(&class->in_use, bytes)) {
		reader->census->loss[CENSUS_LOSS_CHUNKS_MOVED]++;
		return;
	}
	take_from(&arena->state[CENSUS_IN_USE], bytes);
	add_to(&arena->state[state], bytes);
	add_to(&class->cached, bytes);
}

/* ---- tcaches and fastbins: lists of one direction ---- */

/* A list that was read: its chunks, of which each has the size of the list. */
struct free_list {
	uint64_t *chunk, *bytes;
	size_t chunk_nr, chunk_alloc, bytes_nr, bytes_alloc;
};

static void free_list_release(struct free_list *list)
{
	free(list->chunk);
	free(list->bytes);
	*list = (struct free_list){};
}

struct list_kind {
	uint64_t chunk_bytes;  /* 0: any */
	bool points_to_memory; /* links lead behind the header, as in a tcache */
	uint64_t most;	       /* chunks */
};

/*
 * Follows a list from its first link to its end. Since glibc 2.32 a link is mixed with its own address (safe-linking):
 * mask is then all ones, else 0. 0, -ENOMEM; -EINVAL: this is no such list, or it has changed.
 */
static int follow_free_list(const struct heap_reader *reader, const struct list_kind *kind, uint64_t link, uint64_t mask,
		  struct free_list *list)
{
	const struct target_memory *memory = reader->memory;
	int err = 0;

	list->chunk_nr = list->bytes_nr = 0;
	while (link && !err) {
		uint64_t chunk = kind->points_to_memory ? link - 16 : link, word[2], bytes;

		if (link % 16 || list->chunk_nr == kind->most || !arena_of(reader, chunk) ||
		    memory->read(memory->process, chunk + 8, word, sizeof(word)))
			return -EINVAL;
		bytes = CHUNK_SIZE(word[0]);
		if ((kind->chunk_bytes && bytes != kind->chunk_bytes) || bytes < CHUNK_MIN || bytes % 16 ||
		    word[0] & CHUNK_IS_MMAPPED)
			return -EINVAL;
		err = array_push(list, chunk, chunk) ?: array_push(list, bytes, bytes);
		link = word[1] ^ ((chunk + 16) >> 12 & mask);
	}
	return err;
}

/* Reads the first link and follows it, several times if the list changes. */
static int read_list(struct heap_reader *reader, const struct list_kind *kind, uint64_t head, struct free_list *list)
{
	uint64_t link;
	int err = -EINVAL;

	for (unsigned int try = 0; try < TRIES && err == -EINVAL; try++) {
		if (target_read_word(reader->memory, head, &link))
			return -EINVAL;
		err = follow_free_list(reader, kind, link, UINT64_MAX, list);
		if (err == -EINVAL)
			err = follow_free_list(reader, kind, link, 0, list);
	}
	return err;
}

static void cache_list(struct heap_reader *reader, const struct free_list *list, enum census_state state)
{
	for (size_t i = 0; i < list->chunk_nr; i++)
		cache_chunk(reader, list->chunk[i], list->bytes[i], state);
}

/* ---- tcaches ---- */

#define TCACHE_SMALL_BINS 64
#define TCACHE_LIST_MOST 65535

/* A chunk that looks like a tcache is one if most of its lists are lists of free chunks of the right sizes. */
static int read_tcache(struct heap_reader *reader, uint64_t chunk, const struct tcache_shape *shape)
{
	struct free_list list[BINS_MOST] = {};
	unsigned int good = 0, broken = 0;
	uint64_t content[128];
	int err = reader->memory->read(reader->memory->process, chunk + 16, content, shape->chunk_bytes - 16) ? -EINVAL : 0;

	for (unsigned int bin = 0; !err && bin < shape->bins; bin++) {
		bool is_exact = bin < TCACHE_SMALL_BINS;
		struct list_kind kind = { is_exact ? CHUNK_MIN + 16 * bin : 0, true, TCACHE_LIST_MOST };
		uint64_t head = chunk + 16 + shape->bins * shape->count_bytes + bin * 8;

		if (!tcache_entry(shape, content, bin))
			continue;
		if (!shape->counts_slots)
			kind.most = count_of(shape, content, bin) + UINT64_C(8); /* it may grow meanwhile */
		err = read_list(reader, &kind, head, &list[bin]);
		good += !err;
		broken += err == -EINVAL;
		if (err == -EINVAL)
			list[bin].chunk_nr = err = 0;
	}
	for (unsigned int bin = 0; !err && good > broken && bin < shape->bins; bin++)
		cache_list(reader, &list[bin], CENSUS_TCACHE);
	reader->census->loss[CENSUS_LOSS_LISTS_BROKEN] += broken;
	for (unsigned int bin = 0; bin < BINS_MOST; bin++)
		free_list_release(&list[bin]);
	return err == -EINVAL ? 0 : err;
}

static int read_tcaches(struct heap_reader *reader)
{
	int err = 0;

	for (size_t i = 0; i < reader->candidate_nr && !err && !target_is_late(reader->memory); i++) {
		uint64_t head;
		const struct tcache_shape *shape =
			target_read_word(reader->memory, reader->candidate[i] + 8, &head) ? NULL : tcache_shape_of(CHUNK_SIZE(head));

		if (shape)
			err = read_tcache(reader, reader->candidate[i], shape);
	}
	return err;
}

/* ---- fastbins ---- */

static int read_fastbins(struct heap_reader *reader, const struct census_arena *arena)
{
	struct free_list list = {};
	int err = 0;

	for (unsigned int bin = 0; !err && bin < GLIBC_FASTBINS; bin++) {
		struct list_kind kind = { CHUNK_MIN + 16 * bin, false, arena->state[CENSUS_IN_USE].count + 64 };
		uint64_t head = glibc_fastbins(&reader->state, arena->address) + bin * 8;

		err = read_list(reader, &kind, head, &list);
		if (!err)
			cache_list(reader, &list, CENSUS_FASTBINS);
		reader->census->loss[CENSUS_LOSS_LISTS_BROKEN] += err == -EINVAL;
		err = err == -EINVAL ? 0 : err;
	}
	free_list_release(&list);
	return err;
}

/* ---- the unsorted bin ---- */

/* A binned chunk counts as unsorted. */
static void unsort_chunk(struct heap_reader *reader, uint64_t chunk, uint64_t bytes)
{
	struct census_arena *arena = arena_of(reader, chunk);
	enum census_state state = bytes < LARGE_FROM ? CENSUS_SMALL : CENSUS_LARGE;

	if (arena && take_from(&arena->state[state], bytes))
		add_to(&arena->state[CENSUS_UNSORTED], bytes);
	else
		reader->census->loss[CENSUS_LOSS_CHUNKS_MOVED]++;
}

/* The list comes back to the bin itself. */
static void read_unsorted(struct heap_reader *reader, const struct census_arena *arena)
{
	const struct target_memory *memory = reader->memory;
	uint64_t bin = arena->address + reader->state.bins_offset - 16, chunk, word[LINK_BYTES / 8];
	uint64_t most = arena->state[CENSUS_SMALL].count + arena->state[CENSUS_LARGE].count + 64;

	if (target_read_word(memory, bin + 16, &chunk))
		return;
	for (; chunk != bin; chunk = word[1]) {
		if (chunk % 16 || !most-- || !arena_of(reader, chunk) ||
		    memory->read(memory->process, chunk + 8, word, sizeof(word)) || CHUNK_SIZE(word[0]) < CHUNK_MIN) {
			reader->census->loss[CENSUS_LOSS_LISTS_BROKEN]++;
			return;
		}
		unsort_chunk(reader, chunk, CHUNK_SIZE(word[0]));
	}
}

int heap_read_free_lists(struct heap_reader *reader)
{
	int err = read_tcaches(reader);

	for (size_t i = reader->first_arena; !err && i < reader->census->arena_nr; i++) {
		const struct census_arena *arena = &reader->census->arena[i];

		if (target_is_late(reader->memory))
			break;
		if (glibc_has_fastbins(&reader->state))
			err = read_fastbins(reader, arena);
		read_unsorted(reader, arena);
	}
	return err;
}
