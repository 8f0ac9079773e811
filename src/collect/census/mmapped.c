// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/census/glibc_heap.h"

#include <stdlib.h>

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

void heap_find_mmapped(struct heap_reader *reader)
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
