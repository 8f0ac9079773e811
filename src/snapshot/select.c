// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Copies a part of a snapshot. First it marks the rows that are needed, from the traces down to the
 * strings. Then needed rows get new ids, in their order, and are copied. Arrays map old ids to new
 * ids, so nothing is searched.
 */
#include "snapshot/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

struct selection {
	const struct snapshot *from;
	const struct snapshot_tables *t;
	const uint8_t *keep; /* NULL: all traces */
	uint64_t trace_nr;   /* the number of traces kept */
	struct snapshot *to;
	/* By section with ids, by old id: first whether the row is needed, later its new id. NULL: all rows of the section are. */
	uint32_t *mark[SNAP_SECTION_TYPE_MAX];
};

/* ---- marking --------------------------------------------------------------------------------- */

/* Churn counts all traces, so it would be too high for a part. */
static bool has_churn(const struct selection *s)
{
	return !s->keep && s->t->churn;
}

static void mark_tracebacks(struct selection *s)
{
	const uint32_t *traceback = s->t->trace_traceback;
	uint32_t *mark = s->mark[SNAP_TRACEBACKS];

	mark[0] = 1;
	for (uint64_t i = 0; i < s->t->trace_nr; i++) {
		bool kept = !s->keep || s->keep[i];

		mark[traceback[i]] |= kept;
		s->trace_nr += kept;
	}
	for (uint32_t i = 0; has_churn(s) && i < s->t->traceback_nr; i++)
		mark[i] |= s->t->churn[i].allocations != 0;
}

static void mark_frames(struct selection *s)
{
	const struct snapshot_tables *t = s->t;

	s->mark[SNAP_FRAMES][0] = 1;
	for (uint32_t i = 0; i < t->traceback_nr; i++)
		for (uint32_t k = 0; s->mark[SNAP_TRACEBACKS][i] && k < t->traceback[i].nframe; k++)
			s->mark[SNAP_FRAMES][t->traceback_frame[t->traceback[i].first + k]] = 1;
}

static uint32_t *ref_at(const struct snap_ref *ref, const void *rows, uint64_t at)
{
	return (uint32_t *)((char *)rows + at * snap_shapes[ref->type].row_size + ref->offset);
}

/* Marks what marked rows refer to. */
static void mark_referred(struct selection *s, uint32_t type)
{
	s->mark[type][0] = 1;
	for (const struct snap_ref *ref = snap_refs; ref->type; ref++) {
		const struct snap_rows *rows = &s->from->rows[ref->type];
		const uint32_t *mark = s->mark[ref->type];

		for (uint64_t i = 0; ref->to == type && i < rows->nr; i++)
			s->mark[type][*ref_at(ref, rows->row, i)] |= mark ? mark[i] : 1;
	}
}

/* ---- copying --------------------------------------------------------------------------------- */

/* In the copies of rows ids become new ids. */
static void renumber_refs(struct selection *s, uint32_t type)
{
	for (const struct snap_ref *ref = snap_refs; ref->type; ref++)
		for (uint64_t i = 0; ref->type == type && i < s->to->rows[type].nr; i++) {
			uint32_t *id = ref_at(ref, s->to->memory[type].bytes, i);

			*id = s->mark[ref->to][*id];
		}
}

/* Copies the marked rows in their order. Each mark becomes the new id. */
static int copy_marked(struct selection *s, uint32_t type)
{
	uint32_t *mark = s->mark[type];
	const char *from = s->from->rows[type].row;
	uint64_t nr = s->from->rows[type].nr, kept = 0;
	size_t size = snap_shapes[type].row_size;
	char *to;

	for (uint64_t i = 0; i < nr; i++)
		kept += mark[i];
	to = snap_own_rows(s->to, type, kept);
	if (!to)
		return -ENOMEM;
	kept = 0;
	for (uint64_t i = 0; i < nr; i++) {
		if (!mark[i])
			continue;
		memcpy(to + kept * size, from + i * size, size);
		mark[i] = kept++;
	}
	renumber_refs(s, type);
	return 0;
}

/* Copies all rows, even if the section is empty; nothing if the section was not recorded. */
static int copy_all(struct selection *s, uint32_t type)
{
	const struct snap_rows *rows = &s->from->rows[type];
	void *to = rows->row ? snap_own_rows(s->to, type, rows->nr) : NULL;

	if (!rows->row)
		return 0;
	if (!to)
		return -ENOMEM;
	memcpy(to, rows->row, rows->nr * snap_shapes[type].row_size);
	renumber_refs(s, type);
	return 0;
}

static uint64_t snapshot_string_end(const struct snapshot *snapshot, uint32_t id)
{
	return id + 1 < snapshot->tables.string_nr ? snapshot->string_start[id + 1] :
						     snapshot->rows[SNAP_STRING_BYTES].nr;
}

static int copy_strings(struct selection *s)
{
	const struct snapshot *from = s->from;
	uint32_t *mark = s->mark[SNAP_STRING_START], nr = 0;
	uint64_t bytes_nr = 0, *start;
	char *bytes;

	for (uint32_t i = 0; i < s->t->string_nr; i++) {
		bytes_nr += mark[i] ? snapshot_string_end(from, i) - from->string_start[i] : 0;
		nr += mark[i];
	}
	start = snap_own_rows(s->to, SNAP_STRING_START, nr);
	bytes = snap_own_rows(s->to, SNAP_STRING_BYTES, bytes_nr);
	if (!start || !bytes)
		return -ENOMEM;
	nr = bytes_nr = 0;
	for (uint32_t i = 0; i < s->t->string_nr; i++) {
		uint64_t len = snapshot_string_end(from, i) - from->string_start[i];

		if (!mark[i])
			continue;
		memcpy(bytes + bytes_nr, from->string_bytes + from->string_start[i], len);
		start[nr] = bytes_nr;
		bytes_nr += len;
		mark[i] = nr++;
	}
	return 0;
}

static bool has_first_lines(const struct selection *s)
{
	for (uint32_t i = 0; s->t->frame_first_line && i < s->t->frame_nr; i++)
		if (s->mark[SNAP_FRAMES][i] && s->t->frame_first_line[i])
			return true;
	return false;
}

/* The marks are new ids by now. A row that is not kept has 0, and row 0 has no line. */
static int copy_first_lines(struct selection *s)
{
	const uint32_t *from = s->t->frame_first_line;
	uint32_t *to;

	if (!has_first_lines(s))
		return 0;
	to = snap_own_rows(s->to, SNAP_FRAME_FIRST_LINE, s->to->rows[SNAP_FRAMES].nr);
	if (!to)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->t->frame_nr; i++)
		if (s->mark[SNAP_FRAMES][i])
			to[s->mark[SNAP_FRAMES][i]] = from[i];
	return 0;
}

static int copy_traceback_frames(struct selection *s)
{
	struct snap_traceback *traceback = s->to->memory[SNAP_TRACEBACKS].bytes;
	uint64_t nr = 0;
	uint32_t *to;

	for (uint64_t i = 0; i < s->to->rows[SNAP_TRACEBACKS].nr; i++)
		nr += traceback[i].nframe;
	to = snap_own_rows(s->to, SNAP_TRACEBACK_FRAMES, nr);
	if (!to)
		return -ENOMEM;
	nr = 0;
	for (uint64_t i = 0; i < s->to->rows[SNAP_TRACEBACKS].nr; i++) {
		uint64_t first = traceback[i].first;

		traceback[i].first = nr;
		for (uint32_t k = 0; k < traceback[i].nframe; k++)
			to[nr++] = s->mark[SNAP_FRAMES][s->t->traceback_frame[first + k]];
	}
	return 0;
}

/* The marks are new ids by now. A row that is not kept has 0. */
static int copy_churn(struct selection *s)
{
	const uint32_t *mark = s->mark[SNAP_TRACEBACKS];
	struct snap_churn *to;

	if (!has_churn(s))
		return 0;
	to = snap_own_rows(s->to, SNAP_TRACEBACK_CHURN, s->to->rows[SNAP_TRACEBACKS].nr);
	if (!to)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->t->traceback_nr; i++)
		if (mark[i] || !i)
			to[mark[i]] = s->t->churn[i];
	return 0;
}

/* Has room for one more row: each row is written, but only a kept one increases the number. */
static int copy_column_u64(struct selection *s, uint32_t type)
{
	const uint64_t *from = s->from->rows[type].row;
	uint64_t nr = 0, *to = from ? snap_own_rows(s->to, type, s->trace_nr + 1) : NULL;

	if (!from)
		return 0;
	if (!to)
		return -ENOMEM;
	for (uint64_t i = 0; i < s->t->trace_nr; i++) {
		to[nr] = from[i];
		nr += !s->keep || s->keep[i];
	}
	s->to->rows[type].nr = nr;
	return 0;
}

/* ids: maps the column's old ids to new ids; NULL: the values are no ids. */
static int copy_column_u32(struct selection *s, uint32_t type, const uint32_t *ids)
{
	const uint32_t *from = s->from->rows[type].row;
	uint32_t *to = from ? snap_own_rows(s->to, type, s->trace_nr + 1) : NULL;
	uint64_t nr = 0;

	if (!from)
		return 0;
	if (!to)
		return -ENOMEM;
	for (uint64_t i = 0; i < s->t->trace_nr; i++) {
		to[nr] = ids ? ids[from[i]] : from[i];
		nr += !s->keep || s->keep[i];
	}
	s->to->rows[type].nr = nr;
	return 0;
}

static int select_copy_traces(struct selection *s)
{
	return copy_column_u64(s, SNAP_TRACE_SIZE) ?:
	       copy_column_u32(s, SNAP_TRACE_TRACEBACK, s->mark[SNAP_TRACEBACKS]) ?:
	       copy_column_u32(s, SNAP_TRACE_DOMAIN, NULL) ?:
	       copy_column_u64(s, SNAP_TRACE_BIRTH) ?:
	       copy_column_u64(s, SNAP_TRACE_ADDRESS) ?:
	       copy_column_u32(s, SNAP_TRACE_THREAD, NULL) ?:
	       copy_column_u64(s, SNAP_TRACE_WEIGHT); /* a weight's 64 bits are copied like an integer */
}

/* ---- both ------------------------------------------------------------------------------------ */

static int run(struct selection *s)
{
	static const uint32_t with_ids[] = { SNAP_TRACEBACKS, SNAP_FRAMES, SNAP_OBJECTS, SNAP_STRING_START };
	static const uint32_t whole[] = { SNAP_METADATA, SNAP_COUNTERS, SNAP_PROBES, SNAP_PROBE_DOMAIN, SNAP_GAPS };
	int err = 0;

	s->to = calloc(1, sizeof(*s->to));
	if (!s->to)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(with_ids); i++) {
		s->mark[with_ids[i]] = calloc(s->from->rows[with_ids[i]].nr, sizeof(**s->mark));
		if (!s->mark[with_ids[i]])
			return -ENOMEM;
	}
	mark_tracebacks(s);
	mark_frames(s);
	mark_referred(s, SNAP_OBJECTS);
	mark_referred(s, SNAP_STRING_START);
	err = copy_strings(s) ?: copy_marked(s, SNAP_OBJECTS) ?: copy_marked(s, SNAP_FRAMES) ?: copy_first_lines(s) ?:
	      copy_marked(s, SNAP_TRACEBACKS) ?: copy_traceback_frames(s) ?: copy_churn(s) ?: select_copy_traces(s);
	for (size_t i = 0; i < ARRAY_SIZE(whole) && !err; i++)
		err = copy_all(s, whole[i]);
	return err;
}

int snapshot__select(const struct snapshot *snapshot, const uint8_t *keep, struct snapshot **ret)
{
	struct selection s = { .from = snapshot, .t = &snapshot->tables, .keep = keep };
	int err = run(&s);

	for (size_t i = 0; i < SNAP_SECTION_TYPE_MAX; i++)
		free(s.mark[i]);
	if (err) {
		snapshot__close(s.to);
		return err;
	}
	s.to->is_compact = snapshot->is_compact;
	snap_fill_tables(s.to);
	*ret = s.to;
	return 0;
}
