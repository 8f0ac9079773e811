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

struct selection {
	const struct snapshot *from;
	const struct snapshot_tables *t;
	const uint8_t *keep; /* NULL: all traces */
	uint64_t trace_nr;   /* the number of traces kept */
	struct snapshot *to;
	/* By old id: first whether the row is needed, later its new id. */
	uint32_t *traceback, *frame, *object, *string;
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

	s->traceback[0] = 1;
	for (uint64_t i = 0; i < s->t->trace_nr; i++) {
		bool kept = !s->keep || s->keep[i];

		s->traceback[traceback[i]] |= kept;
		s->trace_nr += kept;
	}
	for (uint32_t i = 0; has_churn(s) && i < s->t->traceback_nr; i++)
		s->traceback[i] |= s->t->churn[i].allocations != 0;
}

static void mark_frames(struct selection *s)
{
	const struct snapshot_tables *t = s->t;

	s->frame[0] = 1;
	for (uint32_t i = 0; i < t->traceback_nr; i++)
		for (uint32_t k = 0; s->traceback[i] && k < t->traceback[i].nframe; k++)
			s->frame[t->traceback_frame[t->traceback[i].first + k]] = 1;
}

static void mark_objects(struct selection *s)
{
	s->object[0] = 1;
	for (uint32_t i = 0; i < s->t->frame_nr; i++)
		s->object[s->t->frame[i].object] |= s->frame[i];
	for (uint32_t i = 0; i < s->t->probe_nr; i++)
		s->object[s->t->probe[i].object] = 1;
}

static void mark_strings(struct selection *s)
{
	const struct snapshot_tables *t = s->t;

	s->string[0] = 1;
	for (uint32_t i = 0; i < t->frame_nr; i++) {
		s->string[t->frame[i].filename] |= s->frame[i];
		s->string[t->frame[i].function] |= s->frame[i];
	}
	for (uint32_t i = 0; i < t->object_nr; i++) {
		s->string[t->object[i].path] |= s->object[i];
		s->string[t->object[i].build_id] |= s->object[i];
	}
	for (uint32_t i = 0; i < t->probe_nr; i++)
		s->string[t->probe[i].function] = s->string[t->probe[i].instruction] = 1;
	for (uint32_t i = 0; i < t->metadata_nr; i++)
		s->string[t->metadata[i].key] = s->string[t->metadata[i].value] = 1;
	for (uint32_t i = 0; i < t->counter_nr; i++)
		s->string[t->counter[i].name] = 1;
}

/* ---- copying --------------------------------------------------------------------------------- */

/* Copies the marked rows in their order. Each mark becomes the new id. */
static int copy_marked(struct selection *s, uint32_t type, uint32_t *mark)
{
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
	return 0;
}

/* Copies all rows, even if there are none; nothing if the section was not recorded. */
static int copy_all(struct selection *s, uint32_t type, void *ret_rows)
{
	const struct snap_rows *rows = &s->from->rows[type];
	void *to = rows->row ? snap_own_rows(s->to, type, rows->nr) : NULL;

	if (rows->row && !to)
		return -ENOMEM;
	if (to)
		memcpy(to, rows->row, rows->nr * snap_shapes[type].row_size);
	*(void **)ret_rows = to;
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
	uint64_t bytes_nr = 0, *start;
	uint32_t nr = 0;
	char *bytes;

	for (uint32_t i = 0; i < s->t->string_nr; i++) {
		bytes_nr += s->string[i] ? snapshot_string_end(from, i) - from->string_start[i] : 0;
		nr += s->string[i];
	}
	start = snap_own_rows(s->to, SNAP_STRING_START, nr);
	bytes = snap_own_rows(s->to, SNAP_STRING_BYTES, bytes_nr);
	if (!start || !bytes)
		return -ENOMEM;
	nr = bytes_nr = 0;
	for (uint32_t i = 0; i < s->t->string_nr; i++) {
		uint64_t len = snapshot_string_end(from, i) - from->string_start[i];

		if (!s->string[i])
			continue;
		memcpy(bytes + bytes_nr, from->string_bytes + from->string_start[i], len);
		start[nr] = bytes_nr;
		bytes_nr += len;
		s->string[i] = nr++;
	}
	return 0;
}

static int select_copy_objects(struct selection *s)
{
	int err = copy_marked(s, SNAP_OBJECTS, s->object);
	struct snap_object *object = s->to->memory[SNAP_OBJECTS].bytes;

	for (uint64_t i = 0; !err && i < s->to->rows[SNAP_OBJECTS].nr; i++) {
		object[i].path = s->string[object[i].path];
		object[i].build_id = s->string[object[i].build_id];
	}
	return err;
}

static int select_copy_frames(struct selection *s)
{
	int err = copy_marked(s, SNAP_FRAMES, s->frame);
	struct snap_frame *frame = s->to->memory[SNAP_FRAMES].bytes;

	for (uint64_t i = 0; !err && i < s->to->rows[SNAP_FRAMES].nr; i++) {
		frame[i].filename = s->string[frame[i].filename];
		frame[i].function = s->string[frame[i].function];
		frame[i].object = s->object[frame[i].object];
	}
	return err;
}

static bool has_first_lines(const struct selection *s)
{
	for (uint32_t i = 0; s->t->frame_first_line && i < s->t->frame_nr; i++)
		if (s->frame[i] && s->t->frame_first_line[i])
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
		if (s->frame[i])
			to[s->frame[i]] = from[i];
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
			to[nr++] = s->frame[s->t->traceback_frame[first + k]];
	}
	return 0;
}

/* The marks are new ids by now. A row that is not kept has 0. */
static int copy_churn(struct selection *s)
{
	struct snap_churn *to;

	if (!has_churn(s))
		return 0;
	to = snap_own_rows(s->to, SNAP_TRACEBACK_CHURN, s->to->rows[SNAP_TRACEBACKS].nr);
	if (!to)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->t->traceback_nr; i++)
		if (s->traceback[i] || !i)
			to[s->traceback[i]] = s->t->churn[i];
	return 0;
}

static int select_copy_tracebacks(struct selection *s)
{
	return copy_marked(s, SNAP_TRACEBACKS, s->traceback) ?: copy_traceback_frames(s) ?:
	       copy_churn(s);
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
	       copy_column_u32(s, SNAP_TRACE_TRACEBACK, s->traceback) ?:
	       copy_column_u32(s, SNAP_TRACE_DOMAIN, NULL) ?:
	       copy_column_u64(s, SNAP_TRACE_BIRTH) ?:
	       copy_column_u64(s, SNAP_TRACE_ADDRESS) ?:
	       copy_column_u32(s, SNAP_TRACE_THREAD, NULL) ?:
	       copy_column_u64(s, SNAP_TRACE_WEIGHT); /* a weight's 64 bits are copied like an integer */
}

static int copy_descriptions(struct selection *s)
{
	struct snap_counter *counter;
	struct snap_pair *metadata;
	struct snap_probe *probe;
	struct snap_gap *gap;
	uint32_t *domain;
	int err = copy_all(s, SNAP_METADATA, &metadata) ?:
		  copy_all(s, SNAP_COUNTERS, &counter) ?: copy_all(s, SNAP_PROBES, &probe) ?:
		  copy_all(s, SNAP_PROBE_DOMAIN, &domain) ?: copy_all(s, SNAP_GAPS, &gap);

	if (err)
		return err;
	for (uint32_t i = 0; i < s->t->metadata_nr; i++) {
		metadata[i].key = s->string[metadata[i].key];
		metadata[i].value = s->string[metadata[i].value];
	}
	for (uint32_t i = 0; i < s->t->counter_nr; i++)
		counter[i].name = s->string[counter[i].name];
	for (uint32_t i = 0; i < s->t->probe_nr; i++) {
		probe[i].object = s->object[probe[i].object];
		probe[i].function = s->string[probe[i].function];
		probe[i].instruction = s->string[probe[i].instruction];
	}
	return 0;
}

/* ---- both ------------------------------------------------------------------------------------ */

static int run(struct selection *s)
{
	const struct snapshot_tables *t = s->t;

	s->to = calloc(1, sizeof(*s->to));
	s->traceback = calloc(t->traceback_nr, sizeof(*s->traceback));
	s->frame = calloc(t->frame_nr, sizeof(*s->frame));
	s->object = calloc(t->object_nr, sizeof(*s->object));
	s->string = calloc(t->string_nr, sizeof(*s->string));
	if (!s->to || !s->traceback || !s->frame || !s->object || !s->string)
		return -ENOMEM;
	mark_tracebacks(s);
	mark_frames(s);
	mark_objects(s);
	mark_strings(s);
	return copy_strings(s) ?: select_copy_objects(s) ?: select_copy_frames(s) ?: copy_first_lines(s) ?:
	       select_copy_tracebacks(s) ?: select_copy_traces(s) ?: copy_descriptions(s);
}

int snapshot__select(const struct snapshot *snapshot, const uint8_t *keep, struct snapshot **ret)
{
	struct selection s = { .from = snapshot, .t = &snapshot->tables, .keep = keep };
	int err = run(&s);

	free(s.traceback);
	free(s.frame);
	free(s.object);
	free(s.string);
	if (err) {
		snapshot__close(s.to);
		return err;
	}
	s.to->is_compact = snapshot->is_compact;
	snap_fill_tables(s.to);
	*ret = s.to;
	return 0;
}
