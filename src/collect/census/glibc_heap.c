// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/census/glibc_heap.h"

#include <stdio.h>
#include <stdlib.h>

static int add_state(struct heap_reader *reader)
{
	int err = heap_walk_arenas(reader);

	err = err ?: heap_read_free_lists(reader);
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
