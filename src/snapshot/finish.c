// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/builder.h"

#include <errno.h>
#include <stdlib.h>

static struct snap_rows rows_of(const struct snapshot_builder *b, uint32_t type)
{
	static const uint64_t none; /* the address of a section that is recorded but has no rows */
	const void *row = b->table[type].row;
	uint64_t nr = b->table[type].nr;

	if (type == SNAP_STRING_START) {
		row = b->string.start;
		nr = b->string.start_nr;
	} else if (type == SNAP_STRING_BYTES) {
		row = b->string.bytes;
		nr = b->string.bytes_nr;
	}
	return (struct snap_rows){ row ?: &none, nr };
}

/*
 * A requested column is recorded even if it is empty. Domains and first lines are recorded only if
 * one is not 0, gaps only if there are any.
 */
static bool is_recorded(const struct snapshot_builder *b, uint32_t type)
{
	uint32_t column = snap_shapes[type].column;

	if (type == SNAP_TRACE_DOMAIN && !b->domains)
		return false;
	if (type == SNAP_FRAME_FIRST_LINE && !b->has_first_lines)
		return false;
	if (type == SNAP_GAPS && !b->table[type].nr)
		return false;
	return !column || b->columns & column;
}

void snap_view(const struct snapshot_builder *b, struct snapshot *view)
{
	*view = (struct snapshot){ 0 };
	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++)
		if (is_recorded(b, type))
			view->rows[type] = rows_of(b, type);
	snap_fill_tables(view);
}

static void take_memory(void **from, struct snap_memory *memory)
{
	*memory = (struct snap_memory){ .bytes = *from };
	*from = NULL;
}

int snapshot_builder__finish(struct snapshot_builder *b, struct snapshot **ret)
{
	struct snapshot *snapshot = malloc(sizeof(*snapshot));

	if (snapshot) {
		snap_view(b, snapshot);
		for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++)
			take_memory(&b->table[type].row, &snapshot->memory[type]);
		take_memory((void **)&b->string.start, &snapshot->memory[SNAP_STRING_START]);
		take_memory((void **)&b->string.bytes, &snapshot->memory[SNAP_STRING_BYTES]);
		*ret = snapshot;
	}
	snapshot_builder__free(b);
	return snapshot ? 0 : -ENOMEM;
}
