// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The traces of a snapshot that is being built, as columns. */
#include "snapshot/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/huge_pages.h"

static const uint32_t trace_columns[] = {
	SNAP_TRACE_SIZE, SNAP_TRACE_TRACEBACK, SNAP_TRACE_DOMAIN,
	SNAP_TRACE_BIRTH, SNAP_TRACE_ADDRESS, SNAP_TRACE_THREAD,
	SNAP_TRACE_WEIGHT,
};

static bool has_column(const struct snapshot_builder *b, uint32_t type)
{
	return !snap_shapes[type].column || b->columns & snap_shapes[type].column;
}

/* Does not write to the first rows: the caller that sets them touches the pages. */
static int begin_with_zeros(struct snap_table *t, size_t nr, size_t row_size)
{
	free(t->row);
	t->row = calloc(nr, row_size);
	t->alloc = t->row ? nr : 0;
	t->nr = t->alloc;
	if (!t->row)
		return -ENOMEM;
	huge_pages_will_be_used(t->row, nr * row_size);
	return 0;
}

static int append_zeros(struct snap_table *t, size_t nr, size_t row_size)
{
	int err;

	if (!nr)
		return 0;
	if (!t->nr && nr > 1)
		return begin_with_zeros(t, nr, row_size);
	err = array_reserve_bytes(&t->row, &t->alloc, t->nr + nr, row_size);
	if (err)
		return err;
	memset((char *)t->row + t->nr * row_size, 0, nr * row_size);
	t->nr += nr;
	return 0;
}

int snapshot_builder__add_traces(struct snapshot_builder *b, uint64_t nr, uint64_t *ret_first)
{
	uint64_t first = b->table[SNAP_TRACE_SIZE].nr;
	int err = 0;

	if (nr > SIZE_MAX / sizeof(struct snap_trace) - first)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(trace_columns) && !err; i++)
		if (has_column(b, trace_columns[i]))
			err = append_zeros(&b->table[trace_columns[i]], nr,
					   snap_shapes[trace_columns[i]].row_size);
	if (!err)
		*ret_first = first;
	return err;
}

static bool is_weight(double weight)
{
	uint64_t bits;

	memcpy(&bits, &weight, sizeof(bits));
	return snap_is_weight(bits);
}

static double trace_weight_or_one(const struct snap_trace *trace)
{
	return trace->weight != 0 ? trace->weight : 1;
}

/* If weights are not recorded, they may have any value, because no reader sees them. */
static bool weights_are_good(const struct snapshot_builder *b, const struct snap_trace *trace,
			     size_t nr)
{
	bool good = true;

	for (size_t i = 0; has_column(b, SNAP_TRACE_WEIGHT) && i < nr; i++)
		good &= is_weight(trace_weight_or_one(&trace[i]));
	return good;
}

static void set_weights(struct snapshot_builder *b, uint64_t first, const struct snap_trace *trace,
			size_t nr)
{
	double *weight = b->table[SNAP_TRACE_WEIGHT].row;

	for (size_t i = 0; has_column(b, SNAP_TRACE_WEIGHT) && i < nr; i++)
		weight[first + i] = trace_weight_or_one(&trace[i]);
}

/* Sets one column after the other, so that writes are sequential. */
#define SET_COLUMN(b, type, element, first, trace, nr, field) \
	do { \
		element *column_ = (b)->table[type].row; \
		for (size_t i_ = 0; has_column(b, type) && i_ < (nr); i_++) \
			column_[(first) + i_] = (trace)[i_].field; \
	} while (0)

int snapshot_builder__set_traces(struct snapshot_builder *b, uint64_t first,
				 const struct snap_trace *trace, size_t nr)
{
	uint64_t has = b->table[SNAP_TRACE_SIZE].nr;
	uint32_t domains = 0, most = 0;

	for (size_t i = 0; i < nr; i++) {
		domains |= trace[i].domain;
		most = trace[i].traceback > most ? trace[i].traceback : most;
	}
	if (first > has || nr > has - first || most >= b->table[SNAP_TRACEBACKS].nr ||
	    !weights_are_good(b, trace, nr))
		return -EINVAL;
	SET_COLUMN(b, SNAP_TRACE_SIZE, uint64_t, first, trace, nr, size);
	SET_COLUMN(b, SNAP_TRACE_TRACEBACK, uint32_t, first, trace, nr, traceback);
	if (domains)
		SET_COLUMN(b, SNAP_TRACE_DOMAIN, uint32_t, first, trace, nr, domain);
	SET_COLUMN(b, SNAP_TRACE_BIRTH, uint64_t, first, trace, nr, birth_ns);
	SET_COLUMN(b, SNAP_TRACE_ADDRESS, uint64_t, first, trace, nr, address);
	SET_COLUMN(b, SNAP_TRACE_THREAD, uint32_t, first, trace, nr, thread);
	set_weights(b, first, trace, nr);
	__atomic_fetch_or(&b->domains, domains, __ATOMIC_RELAXED);
	return 0;
}

int snapshot_builder__trace(struct snapshot_builder *b, const struct snap_trace *trace)
{
	uint64_t first;

	if (trace->traceback >= b->table[SNAP_TRACEBACKS].nr || !weights_are_good(b, trace, 1))
		return -EINVAL;
	return snapshot_builder__add_traces(b, 1, &first) ?:
	       snapshot_builder__set_traces(b, first, trace, 1);
}
