// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/census/census.h"

#include <stdlib.h>

#define SMALLEST_CHUNK 32
#define CHUNK_STEP 16
#define LARGEST_EXACT (SMALLEST_CHUNK + CHUNK_STEP * (CENSUS_EXACT_CLASSES - 1))
#define FIRST_POWER 11

const char *const census_state_names[CENSUS_STATE_NR] = {
#define X(NAME, name) [CENSUS_##NAME] = #name,
	CENSUS_STATES(X)
#undef X
};

const char *const census_loss_names[CENSUS_LOSS_NR] = {
#define X(NAME, name, text) [CENSUS_LOSS_##NAME] = #name,
	CENSUS_LOSSES(X)
#undef X
};

const char *const census_loss_texts[CENSUS_LOSS_NR] = {
#define X(NAME, name, text) [CENSUS_LOSS_##NAME] = text,
	CENSUS_LOSSES(X)
#undef X
};

size_t census_class_of(uint64_t chunk_bytes)
{
	size_t class = CENSUS_EXACT_CLASSES;

	if (chunk_bytes <= SMALLEST_CHUNK)
		return 0;
	if (chunk_bytes <= LARGEST_EXACT)
		return (chunk_bytes - SMALLEST_CHUNK + CHUNK_STEP - 1) / CHUNK_STEP;
	while (class < CENSUS_CLASS_NR - 1 && chunk_bytes > census_class_most(class))
		class++;
	return class;
}

uint64_t census_class_most(size_t class)
{
	if (class < CENSUS_EXACT_CLASSES)
		return SMALLEST_CHUNK + class * CHUNK_STEP;
	return UINT64_C(1) << (FIRST_POWER + class - CENSUS_EXACT_CLASSES);
}

void census_add_count(struct census_count *to, const struct census_count *more)
{
	to->count += more->count;
	to->bytes += more->bytes;
}

void census_add_up(const struct census *census, struct census_sum *ret)
{
	struct census_sum sum = { .in_use = census->mmapped.told };

	for (size_t i = 0; i < census->arena_nr; i++) {
		const struct census_arena *arena = &census->arena[i];

		for (enum census_state s = 0; s < CENSUS_STATE_NR; s++) {
			census_add_count(&sum.state[s], &arena->state[s]);
			census_add_count(s == CENSUS_IN_USE ? &sum.in_use : &sum.free, &arena->state[s]);
		}
		for (size_t c = 0; c < CENSUS_CLASS_NR; c++) {
			census_add_count(&sum.class[c].in_use, &arena->class[c].in_use);
			census_add_count(&sum.class[c].cached, &arena->class[c].cached);
			census_add_count(&sum.class[c].free, &arena->class[c].free);
		}
		sum.system_bytes += arena->system_bytes;
		sum.overhead_bytes += arena->overhead_bytes;
		sum.unwalked_bytes += arena->unwalked_bytes;
		sum.absent_bytes += arena->absent_bytes;
		sum.resident_bytes += arena->resident_bytes;
		sum.trimmable_bytes += arena->trimmable_bytes;
	}
	for (size_t c = 0; c < CENSUS_CLASS_NR; c++)
		census_add_count(&sum.class[c].in_use, &census->mmapped.class[c]);
	*ret = sum;
}

uint64_t census_unknown_bytes(const struct census *census)
{
	return census->loss[CENSUS_LOSS_BYTES_UNWALKED] + census->loss[CENSUS_LOSS_RESIDENT_MOVED];
}

void census_release(struct census *census)
{
	free(census->arena);
	free(census->python.type);
	*census = (struct census){};
}
