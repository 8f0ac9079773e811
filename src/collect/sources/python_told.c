// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/python_source.h"

#include <bpf/bpf.h>

#include "collect/sources/block_sources.h"

struct told_code {
	const struct collector *collector;
	struct target *target;
	const struct python_code_record *record;
};

static int read_told(void *told_, uint64_t address, void *to, size_t bytes)
{
	const struct told_code *told = told_;

	return target__read_memory(told->target, address, to, bytes);
}

/* Whether the address still belongs to the code object that was told. */
static bool is_still_told(void *told_)
{
	const struct told_code *told = told_;
	const struct python_code_key key = { told->record->address, told->record->memory };
	struct python_code_known known;

	return !bpf_map_lookup_elem(bpf_map__fd(told->collector->bpf->maps.python_codes), &key, &known) &&
	       known.id == told->record->id;
}

#define CODES_BYTES_MOST (1ULL << 30)
#define CODES_BYTES_FEW (8ULL << 20)

/* The sum over all processes is limited; a process with few may always have more. */
static bool has_room_for_code(const struct collector *collector, const struct target *target)
{
	uint64_t bytes = 0;

	if (target->python.codes.bytes < CODES_BYTES_FEW)
		return true;
	for (size_t i = 0; i < collector->targets.target_nr; i++)
		bytes += collector->targets.target[i]->python.codes.bytes;
	return bytes < CODES_BYTES_MOST;
}

int note_python_code(void *collector_, void *record_, size_t bytes)
{
	struct collector *collector = collector_;
	const struct python_code_record *record = record_;
	struct told_code told = { .collector = collector, .record = record };

	if (bytes < sizeof(*record))
		return 0;
	told.target = find_target(&collector->targets, record->pid);
	if (told.target && told.target->python.memory == record->memory && has_room_for_code(collector, told.target))
		python_codes_add(&told.target->python.codes, record, bytes, read_told, is_still_told, &told);
	return 0; /* a code object that is not known is counted where a frame needs it */
}
