// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/row_top.h"

#include <stdlib.h>

#include "base/array.h"

struct hash_id row_other_traceback(void)
{
	static const char text[] = "traceback " ROW_OTHER_NAME;

	return hash_id_make(text, sizeof(text));
}

struct hash_id row_other_frame(void)
{
	static const char text[] = "frame " ROW_OTHER_NAME;

	return hash_id_make(text, sizeof(text));
}

static double bytes_of_row(const struct fleet_rows *rows, uint32_t at)
{
	return rows->row[at].cost.size + (rows->spread ? rows->spread[at].size.beyond : 0);
}

static int compare_bytes(const void *left, const void *right, void *rows)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	double first = bytes_of_row(rows, a), second = bytes_of_row(rows, b);

	return (first < second) - (first > second) ?: (a > b) - (a < b);
}

static void append_row(struct fleet_rows *to, const struct fleet_rows *from, uint32_t at, uint32_t origin)
{
	to->row[to->nr] = from->row[at];
	to->row[to->nr].origin = origin;
	if (to->spread)
		to->spread[to->nr] = from->spread[at];
	to->nr++;
}

/* Adds the row to the sum with the origin, which is among the rows from `first` on, or new. There are few domains. */
static void add_to_sum(struct fleet_rows *to, size_t first, const struct fleet_rows *from, uint32_t at, uint32_t origin)
{
	while (first < to->nr && to->row[first].origin != origin)
		first++;
	if (first == to->nr) {
		append_row(to, from, at, origin);
		return;
	}
	to->row[first].cost.size += from->row[at].cost.size;
	to->row[first].cost.count += from->row[at].cost.count;
	if (to->spread)
		spread_add(&to->spread[first], &from->spread[at]);
}

const struct fleet_rows *row_top_choose(struct row_top *top, const struct fleet_rows *all, uint64_t *ret_merged)
{
	*ret_merged = 0;
	if (!top->row_nr || all->nr <= top->row_nr)
		return all;
	if (fleet_rows_reserve(&top->rows, all->nr, all->spread != NULL) ||
	    array_reserve(&top->order, &top->order_alloc, all->nr))
		return NULL;
	for (uint32_t i = 0; i < all->nr; i++)
		top->order[i] = i;
	qsort_r(top->order, all->nr, sizeof(*top->order), compare_bytes, (void *)all);
	top->rows.nr = 0;
	for (size_t i = 0; i < all->nr; i++) {
		uint32_t at = top->order[i], origin = all->row[at].origin;

		if (i < top->row_nr)
			append_row(&top->rows, all, at, origin);
		else
			add_to_sum(&top->rows, top->row_nr, all, at, top->other[origin]);
	}
	*ret_merged = all->nr - top->row_nr;
	return &top->rows;
}

void row_top_release(struct row_top *top)
{
	fleet_rows_release(&top->rows);
	free(top->order);
}
