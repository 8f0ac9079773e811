// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Expands the rows of a compact file to one for each block; births become nanoseconds. */
#include "snapshot/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/pages.h"


/* All columns of a trace, except its count. */
static const uint32_t columns[] = {
	SNAP_TRACE_SIZE, SNAP_TRACE_TRACEBACK, SNAP_TRACE_DOMAIN, SNAP_TRACE_BIRTH,
	SNAP_TRACE_ADDRESS, SNAP_TRACE_THREAD, SNAP_TRACE_WEIGHT,
};

static void drop_rows(struct snapshot *s, uint32_t type)
{
	pages_free(s->memory[type].bytes, s->memory[type].len);
	s->memory[type] = (struct snap_memory){};
	s->rows[type] = (struct snap_rows){};
}

static int check_same_nr(const struct snap_reading *r, const struct snapshot *s, uint32_t type)
{
	if (s->rows[type].nr == s->rows[SNAP_TRACE_SIZE].nr)
		return 0;
	return snap_damaged(r, type, "%" PRIu64 " rows for %" PRIu64 " sizes", s->rows[type].nr,
			    s->rows[SNAP_TRACE_SIZE].nr);
}

static int expand_births(const struct snap_reading *r, struct snapshot *s)
{
	const uint32_t *second = s->rows[SNAP_TRACE_BIRTH_SECOND].row;
	uint64_t nr = s->rows[SNAP_TRACE_BIRTH_SECOND].nr, *birth_ns;
	int err = check_same_nr(r, s, SNAP_TRACE_BIRTH_SECOND);

	if (!err && r->section[SNAP_TRACE_BIRTH])
		err = snap_damaged(r, SNAP_TRACE_BIRTH, "it is there beside %s",
				   snap_shapes[SNAP_TRACE_BIRTH_SECOND].name);
	if (err)
		return err;
	birth_ns = snap_own_rows(s, SNAP_TRACE_BIRTH, nr);
	if (!birth_ns)
		return snap_system_error(r, -ENOMEM);
	for (uint64_t i = 0; i < nr; i++)
		birth_ns[i] = second[i] * SECOND_NS;
	drop_rows(s, SNAP_TRACE_BIRTH_SECOND);
	return 0;
}

/* Adds up the counts: the number of traces, which must not exceed what the file may hold. */
static int add_counts(const struct snap_reading *r, const struct snapshot *s, uint64_t *ret)
{
	const uint32_t *count = s->rows[SNAP_TRACE_COUNT].row;
	uint64_t sum = 0, row_bytes = 0, bytes;
	int err = check_same_nr(r, s, SNAP_TRACE_COUNT);

	for (size_t i = 0; i < ARRAY_SIZE(columns) && !err; i++) {
		if (!s->rows[columns[i]].row)
			continue;
		err = check_same_nr(r, s, columns[i]);
		row_bytes += snap_shapes[columns[i]].row_size;
	}
	for (uint64_t i = 0; i < s->rows[SNAP_TRACE_COUNT].nr && !err; i++) {
		if (!count[i])
			err = snap_damaged(r, SNAP_TRACE_COUNT, "row %" PRIu64 ": no trace", i);
		sum += count[i];
	}
	if (!err && (__builtin_mul_overflow(sum, row_bytes, &bytes) ||
		     snap_expands_too_much(bytes, r->len)))
		err = snap_damaged(r, SNAP_TRACE_COUNT, "%" PRIu64 " traces are too many for a file "
				   "of %" PRIu64 " bytes", sum, r->len);
	*ret = sum;
	return err;
}

static void repeat_u32(uint32_t *to, const uint32_t *from, const struct snap_rows *counts)
{
	const uint32_t *count = counts->row;

	for (uint64_t i = 0; i < counts->nr; i++)
		for (uint32_t k = 0; k < count[i]; k++)
			*to++ = from[i];
}

static void repeat_u64(uint64_t *to, const uint64_t *from, const struct snap_rows *counts)
{
	const uint32_t *count = counts->row;

	for (uint64_t i = 0; i < counts->nr; i++)
		for (uint32_t k = 0; k < count[i]; k++)
			*to++ = from[i];
}

static int repeat(const struct snap_reading *r, struct snapshot *s, uint32_t type, uint64_t nr)
{
	struct snap_memory before = s->memory[type];
	const void *from = s->rows[type].row;
	void *to;

	if (!from)
		return 0;
	to = snap_own_rows(s, type, nr);
	if (!to)
		return snap_system_error(r, -ENOMEM);
	if (snap_shapes[type].row_size == sizeof(uint64_t))
		repeat_u64(to, from, &s->rows[SNAP_TRACE_COUNT]);
	else
		repeat_u32(to, from, &s->rows[SNAP_TRACE_COUNT]);
	pages_free(before.bytes, before.len);
	return 0;
}

static int expand_counts(const struct snap_reading *r, struct snapshot *s)
{
	uint64_t nr;
	int err = add_counts(r, s, &nr);

	for (size_t i = 0; i < ARRAY_SIZE(columns) && !err; i++)
		err = repeat(r, s, columns[i], nr);
	if (!err)
		drop_rows(s, SNAP_TRACE_COUNT);
	return err;
}

/* A compact file lacks certain sections. A hostile file may have all of them. */
static bool is_compact(const struct snap_reading *r)
{
	return (r->section[SNAP_TRACE_BIRTH_SECOND] || r->section[SNAP_TRACE_COUNT]) &&
	       !r->section[SNAP_TRACE_BIRTH] && !r->section[SNAP_TRACE_ADDRESS] &&
	       !r->section[SNAP_TRACE_THREAD];
}

int snap_expand(const struct snap_reading *r, struct snapshot *s)
{
	int err = 0;

	s->is_compact = is_compact(r);
	if (r->section[SNAP_TRACE_BIRTH_SECOND])
		err = expand_births(r, s);
	if (!err && r->section[SNAP_TRACE_COUNT])
		err = expand_counts(r, s);
	return err;
}
