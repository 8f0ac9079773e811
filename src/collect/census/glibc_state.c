// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/census/glibc_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "collect/census/census.h"
#include "collect/census/target_memory.h"

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

bool glibc_has_fastbins(const struct glibc_state *state)
{
	return state->bins_offset > GLIBC_FASTBINS * 8;
}

uint64_t glibc_fastbins(const struct glibc_state *state, uint64_t arena)
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

void glibc_count_mmapped(const struct target_memory *memory, struct glibc_state *state)
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

size_t glibc_find(struct target_memory *memory, struct glibc_state ret[GLIBC_STATES_MAX])
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
