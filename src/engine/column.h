/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_COLUMN_H
#define ALLOCSNAP_ENGINE_COLUMN_H

#include "engine/cost.h"
#include "engine/keyspace.h"
#include "engine/statistics.h"

/*
 * The costs of one side, by key id. Keys beyond the end cost nothing. A zeroed struct is an empty
 * one.
 */
struct column {
	struct cost *cost;
	size_t cost_nr, cost_alloc;
	struct cost total;
	struct sums_column sums; /* set if estimates are requested */
};

/* Errors as from snapshot_statistics(); after one the column can only be released. */
int column_fill(struct column *column, struct keyspace *keys, const struct side *side,
		struct reason *why);
struct cost column_get(const struct column *column, size_t key);
void column_release(struct column *column);

#endif
