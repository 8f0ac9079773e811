// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Checks the rows of a file whose sections are complete. Readers may rely on these checks later. */
#include "snapshot/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"

static int check_id(const struct snap_reading *r, uint32_t type, uint64_t row, const char *what,
		    uint32_t id, uint32_t id_nr)
{
	if (id < id_nr)
		return 0;
	return snap_damaged(r, type, "row %" PRIu64 ": %s id %u of %u", row, what, id, id_nr);
}

static int check_row_zero(const struct snap_reading *r, const struct snapshot *s, uint32_t type)
{
	if (snap_is_zero(s->rows[type].row, snap_shapes[type].row_size))
		return 0;
	return snap_damaged(r, type, "row 0 is not zero");
}

/* Checks a long column of ids with a loop without branches; a second loop finds the bad row. */
static int check_id_column(const struct snap_reading *r, const struct snap_rows *rows,
			   uint32_t type, const char *what, uint32_t least, uint32_t id_nr)
{
	const uint32_t *id = rows[type].row;
	uint64_t nr = rows[type].nr;
	uint32_t bad = 0;

	for (uint64_t i = 0; i < nr; i++)
		bad |= id[i] - least >= id_nr - least;
	for (uint64_t i = 0; bad && i < nr; i++)
		if (id[i] - least >= id_nr - least)
			return snap_damaged(r, type, "row %" PRIu64 ": %s id %u of %u", i, what,
					    id[i], id_nr);
	return 0;
}

/* Each string starts after the only NUL of the string before. */
static int check_strings(const struct snap_reading *r, const struct snapshot *s)
{
	uint64_t bytes_nr = s->rows[SNAP_STRING_BYTES].nr;
	uint64_t nr = s->tables.string_nr;

	if (s->string_start[0] || s->string_bytes[0])
		return snap_damaged(r, SNAP_STRING_START, "string 0 is not empty");
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t start = s->string_start[i];
		uint64_t end = i + 1 < nr ? s->string_start[i + 1] : bytes_nr;

		if (end <= start || end > bytes_nr)
			return snap_damaged(r, SNAP_STRING_START, "string %" PRIu64 " from %" PRIu64
					    " to %" PRIu64, i, start, end);
		if (memchr(s->string_bytes + start, 0, end - start) != s->string_bytes + end - 1)
			return snap_damaged(r, SNAP_STRING_BYTES,
					    "string %" PRIu64 " does not end at its NUL", i);
	}
	return 0;
}

static int compare_texts(const void *a, const void *b)
{
	const char *const *left = a, *const *right = b;

	return *left == *right ? 0 : strcmp(*left, *right);
}

/* Checks that the names are unique and not empty. Each row begins with its name's string id. */
static int check_unique(const struct snap_reading *r, uint32_t type, const struct snapshot *s)
{
	const char *row = s->rows[type].row;
	uint64_t nr = s->rows[type].nr; /* small, see snap_shapes */
	const char **text = calloc(nr + 1, sizeof(*text));
	char clean[64];
	uint32_t id;
	int err = 0;

	if (!text)
		return snap_system_error(r, -ENOMEM);
	for (uint64_t i = 0; i < nr && !err; i++, row += snap_shapes[type].row_size) {
		memcpy(&id, row, sizeof(id));
		err = check_id(r, type, i, "string", id, s->tables.string_nr);
		text[i] = err ? "" : snapshot__string(s, id);
		if (!err && !*text[i])
			err = snap_damaged(r, type, "row %" PRIu64 " has no name", i);
	}
	if (!err)
		qsort(text, nr, sizeof(*text), compare_texts);
	for (uint64_t i = 1; i < nr && !err; i++)
		if (!strcmp(text[i - 1], text[i]))
			err = snap_damaged(r, type, "%s is there twice",
					   clean_text(clean, sizeof(clean), text[i]));
	free(text);
	return err;
}

static int check_metadata(const struct snap_reading *r, const struct snapshot *s)
{
	const struct snapshot_tables *t = &s->tables;
	int err = check_unique(r, SNAP_METADATA, s);

	for (uint32_t i = 0; i < t->metadata_nr && !err; i++)
		err = check_id(r, SNAP_METADATA, i, "string", t->metadata[i].value, t->string_nr);
	return err;
}

static int check_counters(const struct snap_reading *r, const struct snapshot *s)
{
	const struct snapshot_tables *t = &s->tables;

	for (uint32_t i = 0; i < t->counter_nr; i++)
		if (t->counter[i].kind != SNAP_COUNTED && t->counter[i].kind != SNAP_LOST)
			return snap_damaged(r, SNAP_COUNTERS, "row %u: unknown kind %u", i,
					    t->counter[i].kind);
	return check_unique(r, SNAP_COUNTERS, s);
}

static int check_probe_rows(const struct snap_reading *r, const struct snapshot *s)
{
	const struct snapshot_tables *t = &s->tables;
	const uint32_t type = SNAP_PROBES;
	int err = 0;

	if (t->probe_domain && s->rows[SNAP_PROBE_DOMAIN].nr != t->probe_nr)
		return snap_damaged(r, SNAP_PROBE_DOMAIN, "%" PRIu64 " rows for %u probes",
				    s->rows[SNAP_PROBE_DOMAIN].nr, t->probe_nr);
	for (uint32_t i = 0; i < t->probe_nr && !err; i++)
		err = check_id(r, type, i, "object", t->probe[i].object, t->object_nr) ?:
		      check_id(r, type, i, "string", t->probe[i].function, t->string_nr) ?:
		      check_id(r, type, i, "string", t->probe[i].instruction, t->string_nr);
	return err;
}

static int check_objects(const struct snap_reading *r, const struct snapshot *s)
{
	const struct snapshot_tables *t = &s->tables;
	const uint32_t type = SNAP_OBJECTS;
	int err = check_row_zero(r, s, type);

	for (uint32_t i = 0; i < t->object_nr && !err; i++) {
		err = check_id(r, type, i, "string", t->object[i].path, t->string_nr) ?:
		      check_id(r, type, i, "string", t->object[i].build_id, t->string_nr);
		if (!err && !snap_is_build_id(snapshot__string(s, t->object[i].build_id)))
			err = snap_damaged(r, type, "row %u: the build id is not one", i);
	}
	return err;
}

static int check_frame_rows(const struct snap_reading *r, const struct snapshot *s)
{
	const struct snapshot_tables *t = &s->tables;
	const uint32_t type = SNAP_FRAMES;
	int err = check_row_zero(r, s, type);

	for (uint32_t i = 0; i < t->frame_nr && !err; i++) {
		const struct snap_frame *f = &t->frame[i];

		err = check_id(r, type, i, "string", f->filename, t->string_nr) ?:
		      check_id(r, type, i, "string", f->function, t->string_nr) ?:
		      check_id(r, type, i, "object", f->object, t->object_nr);
		if (!err && (f->flags & ~SNAP_FRAME_FLAGS || f->reserved))
			err = snap_damaged(r, type, "row %u: unknown flags", i);
	}
	return err;
}

/* Frame 0, or a frame without a line, has no first line. */
static int check_first_lines(const struct snap_reading *r, const struct snapshot *s)
{
	const struct snapshot_tables *t = &s->tables;
	const uint32_t type = SNAP_FRAME_FIRST_LINE;

	if (!r->section[type])
		return 0;
	if (s->rows[type].nr != t->frame_nr)
		return snap_damaged(r, type, "%" PRIu64 " rows for %u frames", s->rows[type].nr,
				    t->frame_nr);
	for (uint32_t i = 0; i < t->frame_nr; i++)
		if (t->frame_first_line[i] && !t->frame[i].lineno)
			return snap_damaged(r, type, "row %u: the frame has no line", i);
	return 0;
}

/* Checks the row itself; `first` is where the row before ended. */
static int check_traceback(const struct snap_reading *r, uint32_t i, const struct snap_traceback *t,
			   uint64_t first)
{
	const uint32_t type = SNAP_TRACEBACKS;

	if (t->first != first)
		return snap_damaged(r, type, "row %u starts at %" PRIu64 ", not at %" PRIu64, i,
				    t->first, first);
	if (t->nframe > SNAP_TRACEBACK_MAX)
		return snap_damaged(r, type, "row %u: %u frames are too many", i,
				    t->nframe);
	if (!snap_traceback_flags_are_known(t->flags) || t->reserved)
		return snap_damaged(r, type, "row %u: unknown flags", i);
	return 0;
}

static int check_tracebacks(const struct snap_reading *r, const struct snapshot *s)
{
	const struct snapshot_tables *t = &s->tables;
	uint64_t end = 0;
	int err = check_row_zero(r, s, SNAP_TRACEBACKS);

	for (uint32_t i = 0; i < t->traceback_nr && !err; i++) {
		err = check_traceback(r, i, &t->traceback[i], end);
		end += t->traceback[i].nframe;
	}
	if (err)
		return err;
	if (end != t->traceback_frame_nr)
		return snap_damaged(r, SNAP_TRACEBACKS, "they end at %" PRIu64 " of %" PRIu64
				    " frames", end, t->traceback_frame_nr);
	return check_id_column(r, s->rows, SNAP_TRACEBACK_FRAMES, "frame", 1, t->frame_nr);
}

static int check_churn(const struct snap_reading *r, const struct snapshot *s)
{
	const uint32_t type = SNAP_TRACEBACK_CHURN;

	if (r->section[type] && s->rows[type].nr != s->tables.traceback_nr)
		return snap_damaged(r, type, "%" PRIu64 " rows for %u tracebacks", s->rows[type].nr,
				    s->tables.traceback_nr);
	return 0;
}

/* The first loop has no branches, as for ids. */
static int check_weights(const struct snap_reading *r, const struct snapshot *s)
{
	const uint64_t *bits = s->rows[SNAP_TRACE_WEIGHT].row;
	uint64_t nr = s->rows[SNAP_TRACE_WEIGHT].nr;
	bool good = true;

	for (uint64_t i = 0; i < nr; i++)
		good &= snap_is_weight(bits[i]);
	for (uint64_t i = 0; !good && i < nr; i++)
		if (!snap_is_weight(bits[i]))
			return snap_damaged(r, SNAP_TRACE_WEIGHT, "row %" PRIu64 ": %g is no weight",
					    i, s->tables.trace_weight[i]);
	return 0;
}

static int check_gap_rows(const struct snap_reading *r, const struct snapshot *s)
{
	const struct snap_gap *gap = s->tables.gap;
	uint64_t end_ns = 0;

	for (uint32_t i = 0; i < s->tables.gap_nr; i++) {
		if (gap[i].start_ns < end_ns || gap[i].end_ns <= gap[i].start_ns)
			return snap_damaged(r, SNAP_GAPS, "row %u from %" PRIu64 " to %" PRIu64
					    " comes after %" PRIu64, i, gap[i].start_ns,
					    gap[i].end_ns, end_ns);
		end_ns = gap[i].end_ns;
	}
	return 0;
}

/* The columns: sections with one row for each trace. */
static const uint32_t columns[] = {
	SNAP_TRACE_SIZE, SNAP_TRACE_TRACEBACK, SNAP_TRACE_DOMAIN, SNAP_TRACE_BIRTH,
	SNAP_TRACE_ADDRESS, SNAP_TRACE_THREAD, SNAP_TRACE_WEIGHT,
};

static int check_trace_rows(const struct snap_reading *r, const struct snapshot *s)
{
	if (!r->section[SNAP_TRACE_SIZE] != !r->section[SNAP_TRACE_TRACEBACK])
		return snap_damaged(r, r->section[SNAP_TRACE_SIZE] ? SNAP_TRACE_TRACEBACK :
				    SNAP_TRACE_SIZE, "it is missing");
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		uint32_t type = columns[i];

		if (r->section[type] && (!r->section[SNAP_TRACE_SIZE] ||
					 s->rows[type].nr != s->tables.trace_nr))
			return snap_damaged(r, type, "%" PRIu64 " rows for %" PRIu64 " traces",
					    s->rows[type].nr, s->tables.trace_nr);
	}
	return check_id_column(r, s->rows, SNAP_TRACE_TRACEBACK, "traceback", 0, s->tables.traceback_nr);
}

int snap_check_head(const struct snap_reading *r, struct snapshot *s)
{
	snap_fill_tables(s);
	return check_strings(r, s) ?: check_metadata(r, s);
}

int snap_check_tables(const struct snap_reading *r, struct snapshot *s)
{
	snap_fill_tables(s);
	return check_strings(r, s) ?: check_objects(r, s) ?: check_frame_rows(r, s) ?:
	       check_first_lines(r, s) ?:
	       check_tracebacks(r, s) ?: check_churn(r, s) ?: check_trace_rows(r, s) ?: check_weights(r, s) ?:
	       check_gap_rows(r, s) ?: check_probe_rows(r, s) ?: check_metadata(r, s) ?: check_counters(r, s);
}
