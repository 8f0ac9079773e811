// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "census/target_memory.h"

#include <string.h>
#include <time.h>

#include "base/array.h"

#define PAGE_IS_PRESENT (UINT64_C(1) << 63) /* Documentation/admin-guide/mm/pagemap.rst */
#define PAGE_IS_SWAPPED (UINT64_C(1) << 62)
#define ENTRIES 512

const struct target_mapping *target_mapping_at(const struct target_memory *memory, uint64_t address)
{
	size_t at = array_first(memory->mapping_nr, i, memory->mapping[i].end > address);

	return at < memory->mapping_nr && memory->mapping[at].start <= address ? &memory->mapping[at] : NULL;
}

bool target_map_again(struct target_memory *memory)
{
	if (!memory->map || memory->map_nr == TARGET_MAPS_MOST || target_is_late(memory))
		return false;
	memory->map_nr++;
	return !memory->map(memory);
}

void target_wait(struct target_memory *memory)
{
	if (memory->wait_nr == TARGET_WAITS_MOST)
		return;
	memory->wait_nr++;
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static bool is_mapped_writable(const struct target_memory *memory, uint64_t address, uint64_t bytes)
{
	const struct target_mapping *mapping = target_mapping_at(memory, address);

	return mapping && mapping->is_writable && bytes <= mapping->end - address;
}

bool target_is_writable(struct target_memory *memory, uint64_t address, uint64_t bytes)
{
	return is_mapped_writable(memory, address, bytes) ||
	       (target_map_again(memory) && is_mapped_writable(memory, address, bytes));
}

int target_read_word(const struct target_memory *memory, uint64_t address, uint64_t *ret)
{
	return memory->read(memory->process, address, ret, sizeof(*ret));
}

bool target_is_late(struct target_memory *memory)
{
	struct timespec used;

	if (memory->is_late || !memory->cpu_ns)
		return memory->is_late;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	memory->is_late = used.tv_sec * UINT64_C(1000000000) + used.tv_nsec > memory->cpu_ns;
	return memory->is_late;
}

uint64_t target_resident(struct target_memory *memory, uint64_t start, uint64_t end, uint64_t *unknown_pages)
{
	uint64_t at = start / TARGET_PAGE, last = (end + TARGET_PAGE - 1) / TARGET_PAGE, nr = 0;
	uint64_t entry[ENTRIES];

	while (at < last) {
		size_t some = last - at < ENTRIES ? last - at : ENTRIES;

		if (target_is_late(memory) || !memory->pages ||
		    memory->pages(memory->process, at * TARGET_PAGE, entry, some)) {
			*unknown_pages += last - at;
			break;
		}
		for (size_t i = 0; i < some; i++)
			nr += !!(entry[i] & PAGE_IS_PRESENT);
		at += some;
	}
	return nr * TARGET_PAGE;
}

/* ---- pages that were never touched ---- */

static bool is_anonymous(const struct target_memory *memory, uint64_t address, uint64_t bytes)
{
	const struct target_mapping *mapping = target_mapping_at(memory, address);

	return mapping && !mapping->is_file && (mapping->is_heap || !mapping->is_named) && bytes <= mapping->end - address;
}

static bool is_there(uint64_t entry)
{
	return entry & (PAGE_IS_PRESENT | PAGE_IS_SWAPPED);
}

/* Reads the pages that are there, and leaves the others as they are. entry: of each page from the first byte's on. */
static int read_there(const struct target_memory *memory, uint64_t address, char *to, size_t bytes, const uint64_t *entry)
{
	uint64_t at = address, end = address + bytes, page = address / TARGET_PAGE;
	int err = 0;

	while (!err && at < end) {
		bool is_read = is_there(entry[at / TARGET_PAGE - page]);
		uint64_t next = at;

		while (next < end && is_there(entry[next / TARGET_PAGE - page]) == is_read)
			next = (next / TARGET_PAGE + 1) * TARGET_PAGE;
		if (next > end)
			next = end;
		if (is_read)
			err = memory->read(memory->process, at, to + (at - address), next - at);
		at = next;
	}
	return err;
}

int target_read_touched(const struct target_memory *memory, uint64_t address, void *to, size_t bytes)
{
	uint64_t entry[ENTRIES], nr = (address % TARGET_PAGE + bytes + TARGET_PAGE - 1) / TARGET_PAGE;

	if (!memory->pages || nr > ENTRIES || !is_anonymous(memory, address, bytes) ||
	    memory->pages(memory->process, address, entry, nr))
		return memory->read(memory->process, address, to, bytes);
	memset(to, 0, bytes);
	return read_there(memory, address, to, bytes, entry);
}
