// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "census/glibc_heap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* ---- the state of glibc ---- */

#define DATA_MOST (16u << 20)	    /* bytes of one file's writable data */
#define ALL_DATA_MOST (256u << 20)  /* of all files */
#define BINS_SURE 119		    /* of 127: a few may move while they are read */
#define GUESSES_MOST 4096	    /* for one file */

static const uint64_t bins_offsets[] = { 112, 24, 104 };

/* A copy of writable data. */
struct data {
	uint64_t address;
	uint64_t *word;
	size_t word_nr;
};

static bool glibc_has_fastbins(const struct glibc_state *state)
{
	return state->bins_offset > GLIBC_FASTBINS * 8;
}

/* The address of an arena's first fastbin. */
static uint64_t glibc_fastbins(const struct glibc_state *state, uint64_t arena)
{
	return arena + state->bins_offset + GLIBC_TOP - GLIBC_FASTBINS * 8;
}

/* ---- the arena ---- */

/* Whether the arenas' ring comes back to where it begins. */
static bool is_ring(const struct target_memory *memory, uint64_t arena, uint64_t bins_offset)
{
	uint64_t at = arena;

	for (size_t i = 0; i < CENSUS_ARENAS_MAX; i++) {
		if (at % 8 || target_read_word(memory, at + bins_offset + GLIBC_NEXT, &at))
			return false;
		if (at == arena)
			return true;
	}
	return false;
}

/* Whether a bin is empty, or a list that comes back. */
static bool is_bin(const struct target_memory *memory, uint64_t bin, const uint64_t pair[2])
{
	uint64_t back, forth;

	if (pair[0] == bin && pair[1] == bin)
		return true;
	return pair[0] % 16 == 0 && pair[1] % 16 == 0 && !target_read_word(memory, pair[0] + 24, &back) && back == bin &&
	       !target_read_word(memory, pair[1] + 16, &forth) && forth == bin;
}

static bool are_bins(const struct target_memory *memory, const struct data *data, size_t at)
{
	size_t sure = 0;

	if (at + GLIBC_STATE_END / 8 > data->word_nr)
		return false;
	for (size_t i = 0; i < GLIBC_BINS; i++) {
		sure += is_bin(memory, data->address + (at + 2 * i) * 8 - 16, &data->word[at + 2 * i]);
		if (sure + GLIBC_BINS - 1 - i < BINS_SURE)
			return false;
	}
	return data->word[at + GLIBC_SYSTEM_MEM / 8] <= data->word[at + GLIBC_SYSTEM_MEM / 8 + 1];
}

/* Whether bins begin at a word. Writes the arena. */
static bool find_arena_at(const struct target_memory *memory, const struct data *data, size_t at,
			  struct glibc_state *ret)
{
	uint64_t bins = data->address + at * 8;

	for (size_t i = 0; i < ARRAY_SIZE(bins_offsets); i++) {
		if (at * 8 < bins_offsets[i] || !is_ring(memory, bins - bins_offsets[i], bins_offsets[i]) ||
		    !are_bins(memory, data, at))
			continue;
		*ret = (struct glibc_state){ .arena = bins - bins_offsets[i], .bins_offset = bins_offsets[i] };
		return true;
	}
	return false;
}

static bool is_empty_bin(const struct data *data, size_t at)
{
	uint64_t bin = data->address + at * 8 - 16;

	return at + 1 < data->word_nr && data->word[at] == bin && data->word[at + 1] == bin;
}

/* The first empty bin from *at on may be any of the 127. *at moves behind the arena. */
static bool find_arena(const struct target_memory *memory, const struct data *data, size_t *at, struct glibc_state *ret)
{
	size_t guesses = 0;

	for (; *at < data->word_nr && guesses < GUESSES_MOST; (*at)++) {
		if (!is_empty_bin(data, *at))
			continue;
		for (size_t bin = 0; bin < GLIBC_BINS && 2 * bin <= *at; bin++, guesses++)
			if (find_arena_at(memory, data, *at - 2 * bin, ret)) {
				*at += GLIBC_BINS * 2;
				return true;
			}
		while (is_empty_bin(data, *at + 2))
			*at += 2;
	}
	return false;
}

/* ---- its counters ---- */

struct counters_shape {
	int n_mmaps; /* offset from sbrk_base; n_mmaps_max, max_n_mmaps, no_dyn_threshold follow */
};

/* glibc 2.35 has an int more before them, so that the four are not aligned to eight bytes any more. */
static const struct counters_shape counters_shapes[] = { { -36 }, { -32 } };
#define SBRK_BASE_TCACHE_COUNT 24
#define COUNTERS_BEFORE 40
#define MMAPS_MAX_DEFAULT 65536

static bool is_counters(const struct data *data, size_t at, const struct counters_shape *shape, bool is_anchored,
			struct glibc_state *ret)
{
	const char *base = (const char *)&data->word[at];
	uint64_t bytes = data->word[at - 2], most_bytes = data->word[at - 1];
	uint32_t field[4];

	memcpy(field, base + shape->n_mmaps, sizeof(field));
	if (field[0] > field[2] || field[3] > 1 || bytes > most_bytes || bytes % TARGET_PAGE || most_bytes % TARGET_PAGE ||
	    !field[0] != !bytes || bytes / TARGET_PAGE < field[0] || field[0] > field[1])
		return false;
	if (!is_anchored && field[1] != MMAPS_MAX_DEFAULT)
		return false;
	ret->has_parameters = true;
	ret->mmapped_nr = field[0];
	ret->mmapped_bytes = bytes;
	ret->sbrk_base = data->word[at];
	ret->tcache_count = data->word[at + SBRK_BASE_TCACHE_COUNT / 8];
	ret->nr_at = data->address + at * 8 + shape->n_mmaps;
	ret->bytes_at = data->address + at * 8 - 16;
	return true;
}

/* Reads the counters of chunks with a mapping of their own again. */
static void glibc_count_mmapped(const struct target_memory *memory, struct glibc_state *state)
{
	uint64_t bytes;
	uint32_t nr;

	if (!memory->read(memory->process, state->nr_at, &nr, sizeof(nr)) && !target_read_word(memory, state->bytes_at, &bytes)) {
		state->mmapped_nr = nr;
		state->mmapped_bytes = bytes;
	}
}

/* Finds them by sbrk_base, where the main arena begins: `anchor`, or 0 if the main arena has no memory yet. */
static void find_counters(const struct data *data, uint64_t anchor, struct glibc_state *state)
{
	for (size_t at = COUNTERS_BEFORE / 8; at + 4 < data->word_nr; at++)
		for (size_t i = 0; data->word[at] == anchor && i < ARRAY_SIZE(counters_shapes); i++)
			if (is_counters(data, at, &counters_shapes[i], anchor, state))
				return;
}

/* Where the main arena begins, if it is one range that ends with its top. */
static uint64_t heap_begin(const struct target_memory *memory, const struct glibc_state *state)
{
	uint64_t bins = state->arena + state->bins_offset, top, size, system;

	if (target_read_word(memory, bins + GLIBC_SYSTEM_MEM, &system) || !system ||
	    target_read_word(memory, bins + GLIBC_TOP, &top) || target_read_word(memory, top + 8, &size))
		return 0;
	return top + (size & -(uint64_t)8) - system;
}

static void add_counters(const struct target_memory *memory, const struct data *data, struct glibc_state *state)
{
	uint64_t begin = heap_begin(memory, state);

	find_counters(data, begin, state);
	for (size_t i = 0; i < memory->mapping_nr && !state->has_parameters; i++)
		if (memory->mapping[i].is_heap)
			find_counters(data, memory->mapping[i].start, state);
}

/* ---- all files ---- */

static size_t find_in_mapping(struct target_memory *memory, const struct target_mapping *mapping,
			      struct glibc_state *ret, size_t room)
{
	uint64_t bytes = mapping->end - mapping->start;
	struct data data = { .address = mapping->start };
	size_t nr = 0, at = 0;

	if (bytes > DATA_MOST)
		bytes = DATA_MOST;
	data.word = malloc(bytes);
	data.word_nr = bytes / 8;
	if (data.word && !memory->read(memory->process, mapping->start, data.word, bytes))
		while (nr < room && find_arena(memory, &data, &at, &ret[nr]))
			add_counters(memory, &data, &ret[nr++]);
	free(data.word);
	return nr;
}

/* Finds the main arenas: several, if a program has several C libraries. Returns their number. */
static size_t glibc_find(struct target_memory *memory, struct glibc_state ret[GLIBC_STATES_MAX])
{
	uint64_t bytes = 0;
	size_t nr = 0;

	for (size_t i = 0; i < memory->mapping_nr && bytes < ALL_DATA_MOST && !target_is_late(memory); i++) {
		const struct target_mapping *mapping = &memory->mapping[i];

		if (!mapping->is_writable || !mapping->is_file)
			continue;
		nr += find_in_mapping(memory, mapping, ret + nr, GLIBC_STATES_MAX - nr);
		bytes += mapping->end - mapping->start < DATA_MOST ? mapping->end - mapping->start : DATA_MOST;
	}
	return nr;
}

/* ---- free lists: what a tcache looks like ---- */

#define TRIES 4
#define BINS_MOST 76
#define LINK_BYTES 24 /* of a chunk, from its size on: size, forward, back */
#define LARGE_FROM 1024

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

static int heap_read_free_lists(struct heap_reader *reader)
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

/* ---- mmapped ---- */

/*
 * Chunks with a mapping of their own begin at a page, with the bytes before it that alignment took, a size of whole pages,
 * and one flag. The kernel joins mappings that are side by side, so each page that is not inside of a chunk is looked at,
 * as long as some are missing.
 */

static bool is_mmapped_chunk(const struct target_mapping *mapping, uint64_t at, const uint64_t word[2])
{
	uint64_t bytes = CHUNK_SIZE(word[1]);

	return !word[0] && (word[1] & CHUNK_FLAGS) == CHUNK_IS_MMAPPED && bytes && bytes % TARGET_PAGE == 0 &&
	       bytes <= mapping->end - at;
}

/* The end of the walked range that holds an address, or 0. Other mappings may be joined with an arena's. */
static uint64_t walked_to(const struct heap_reader *reader, uint64_t address)
{
	for (size_t i = 0; i < reader->range_nr; i++)
		if (address >= reader->range[i].start && address < reader->range[i].end)
			return reader->range[i].end;
	return 0;
}

static void find_in_anonymous(struct heap_reader *reader, const struct target_mapping *mapping, struct census_mmapped *found)
{
	struct target_memory *memory = reader->memory;
	uint64_t at = mapping->start, word[2];

	while (at < mapping->end && found->found.count < found->told.count && !target_is_late(memory)) {
		uint64_t step = TARGET_PAGE, walked = walked_to(reader, at);

		if (walked)
			step = walked - at;
		else if (!target_read_touched(memory, at, word, sizeof(word)) && is_mmapped_chunk(mapping, at, word)) {
			step = CHUNK_SIZE(word[1]);
			found->found.count++;
			found->found.bytes += step;
			found->class[census_class_of(step)].count++;
			found->class[census_class_of(step)].bytes += step;
		}
		at += step;
	}
}

static void heap_find_mmapped(struct heap_reader *reader)
{
	struct census *census = reader->census;
	struct census_mmapped found = {};

	if (!reader->state.has_parameters)
		return;
	target_map_again(reader->memory);
	glibc_count_mmapped(reader->memory, &reader->state);
	found.told = (struct census_count){ reader->state.mmapped_nr, reader->state.mmapped_bytes };
	for (size_t i = 0; i < reader->memory->mapping_nr; i++) {
		const struct target_mapping *mapping = &reader->memory->mapping[i];

		if (mapping->is_writable && !mapping->is_file && !mapping->is_heap && !mapping->is_named)
			find_in_anonymous(reader, mapping, &found);
	}
	if (found.found.count == found.told.count && found.found.bytes != found.told.bytes)
		census->loss[CENSUS_LOSS_CHUNKS_MOVED]++;
	census->loss[CENSUS_LOSS_MMAPPED_UNSEEN] += found.told.count - found.found.count;
	census->has_mmapped = true;
	census->mmapped.told.count += found.told.count;
	census->mmapped.told.bytes += found.told.bytes;
	census->mmapped.found.count += found.found.count;
	census->mmapped.found.bytes += found.found.bytes;
	for (size_t i = 0; i < CENSUS_CLASS_NR; i++) {
		census->mmapped.class[i].count += found.class[i].count;
		census->mmapped.class[i].bytes += found.class[i].bytes;
	}
}

/* ---- the whole ---- */

static int add_state(struct heap_reader *reader)
{
	int err = heap_walk_arenas(reader) ?: heap_read_free_lists(reader);
	if (!err)
		heap_find_mmapped(reader);
	free(reader->range);
	free(reader->candidate);
	return err;
}

int heap_census(struct target_memory *memory, struct census *census)
{
	struct glibc_state state[GLIBC_STATES_MAX];
	size_t nr = glibc_find(memory, state);
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++)
		err = add_state(&(struct heap_reader){ .memory = memory, .census = census, .state = state[i] });
	if (!nr)
		snprintf(census->no_heap, sizeof(census->no_heap),
			 "no heap of glibc was found (another C library, a program of Go, or glibc before 2.26)");
	return err;
}
