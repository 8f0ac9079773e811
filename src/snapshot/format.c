// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "snapshot/reader.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define IDS_MAX (UINT32_MAX - 1)
#define NAMES_MAX 4096

#define ROWS(name_, type, max) { .name = name_, .row_size = sizeof(type), .row_max = (max) }
#define IDS(name_, type) \
	{ .name = name_, .row_size = sizeof(type), .row_max = IDS_MAX, .has_row_zero = true }
#define BYTES(name_) { .name = name_, .row_size = 1, .row_max = UINT64_MAX, .has_row_zero = true }
#define COLUMN(name_, type, column_) \
	{ .name = name_, .row_size = sizeof(type), .row_max = UINT64_MAX, .column = column_ }

const struct snap_shape snap_shapes[SNAP_SECTION_TYPE_MAX] = {
	[SNAP_METADATA] = ROWS("metadata", struct snap_pair, NAMES_MAX),
	[SNAP_COUNTERS] = ROWS("counters", struct snap_counter, NAMES_MAX),
	[SNAP_PROBES] = ROWS("probes", struct snap_probe, IDS_MAX),
	[SNAP_STRING_START] = IDS("string starts", uint64_t),
	[SNAP_STRING_BYTES] = BYTES("strings"),
	[SNAP_OBJECTS] = IDS("objects", struct snap_object),
	[SNAP_FRAMES] = IDS("frames", struct snap_frame),
	[SNAP_TRACEBACKS] = IDS("tracebacks", struct snap_traceback),
	[SNAP_TRACEBACK_FRAMES] = COLUMN("traceback frames", uint32_t, 0),
	[SNAP_TRACE_SIZE] = COLUMN("trace sizes", uint64_t, 0),
	[SNAP_TRACE_TRACEBACK] = COLUMN("trace tracebacks", uint32_t, 0),
	[SNAP_TRACE_DOMAIN] = COLUMN("trace domains", uint32_t, SNAP_WITH_DOMAIN),
	[SNAP_TRACE_BIRTH] = COLUMN("trace births", uint64_t, SNAP_WITH_BIRTH),
	[SNAP_TRACE_ADDRESS] = COLUMN("trace addresses", uint64_t, SNAP_WITH_ADDRESS),
	[SNAP_TRACE_THREAD] = COLUMN("trace threads", uint32_t, SNAP_WITH_THREAD),
	[SNAP_TRACEBACK_CHURN] = COLUMN("traceback churn", struct snap_churn, SNAP_WITH_CHURN),
	[SNAP_PROBE_DOMAIN] = COLUMN("probe domains", uint32_t, SNAP_WITH_PROBE_DOMAIN),
	[SNAP_TRACE_WEIGHT] = COLUMN("trace weights", double, SNAP_WITH_WEIGHT),
	[SNAP_GAPS] = ROWS("gaps", struct snap_gap, IDS_MAX),
	[SNAP_TRACE_BIRTH_SECOND] = COLUMN("trace birth seconds", uint32_t, SNAP_OF_FILES_ONLY),
	[SNAP_FRAME_FIRST_LINE] = COLUMN("frame first lines", uint32_t, SNAP_WITH_FIRST_LINE),
	[SNAP_TRACE_COUNT] = COLUMN("trace counts", uint32_t, SNAP_OF_FILES_ONLY),
};

#define STRING_REF(type, row, member) { type, offsetof(struct row, member), SNAP_STRING_START }

const struct snap_ref snap_refs[] = {
	STRING_REF(SNAP_METADATA, snap_pair, key), STRING_REF(SNAP_METADATA, snap_pair, value),
	STRING_REF(SNAP_COUNTERS, snap_counter, name),
	{ SNAP_PROBES, offsetof(struct snap_probe, object), SNAP_OBJECTS },
	STRING_REF(SNAP_PROBES, snap_probe, function), STRING_REF(SNAP_PROBES, snap_probe, instruction),
	STRING_REF(SNAP_OBJECTS, snap_object, path), STRING_REF(SNAP_OBJECTS, snap_object, build_id),
	STRING_REF(SNAP_FRAMES, snap_frame, filename), STRING_REF(SNAP_FRAMES, snap_frame, function),
	{ SNAP_FRAMES, offsetof(struct snap_frame, object), SNAP_OBJECTS },
	{},
};

uint64_t snap_checksum(const void *bytes, size_t len)
{
	return XXH3_64bits(bytes, len);
}

uint64_t snap_header_checksum(const struct snap_header *header, const struct snap_section *section)
{
	struct snap_header cleared = *header;
	XXH3_state_t state;

	cleared.checksum = 0;
	XXH3_64bits_reset(&state);
	XXH3_64bits_update(&state, &cleared, sizeof(cleared));
	XXH3_64bits_update(&state, section, header->section_nr * sizeof(*section));
	return XXH3_64bits_digest(&state);
}

const char *snap_domain_key(char key[SNAP_DOMAIN_KEY_MAX], uint32_t domain)
{
	snprintf(key, SNAP_DOMAIN_KEY_MAX, "domain.%" PRIu32, domain);
	return key;
}

bool snap_is_build_id(const char *text)
{
	return !text[strspn(text, "0123456789abcdef")];
}

bool snap_expands_too_much(uint64_t row_bytes, uint64_t file_size)
{
	const uint64_t always = SNAP_ALWAYS_BYTES;

	return row_bytes > always && (row_bytes - always) / 32 > file_size;
}

int snap_damaged(const struct snap_reading *r, uint32_t type, const char *fmt, ...)
{
	char what[160];
	va_list args;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	if (!type)
		return reason_set(r->why, -EBADMSG, "%s: damaged: %s", r->name, what);
	return reason_set(r->why, -EBADMSG, "%s: damaged: section %s: %s", r->name,
			  snap_shapes[type].name, what);
}

int snap_system_error(const struct snap_reading *r, int err)
{
	return reason_set(r->why, err, "%s: %s", r->name, strerror(-err));
}

static bool snap_is_zero(const void *bytes, size_t len)
{
	const char *byte = bytes;

	return !len || (!byte[0] && !memcmp(byte, byte + 1, len - 1));
}

int snap_check_start(const struct snap_reading *r)
{
	const struct snap_header *header = &r->header;
	size_t magic_len = r->len < sizeof(header->magic) ? r->len : sizeof(header->magic);

	if (!r->len)
		return reason_set(r->why, -EBADMSG, "%s: not a snapshot: the file is empty",
				  r->name);
	if (memcmp(header->magic, SNAP_MAGIC, magic_len))
		return reason_set(r->why, -EBADMSG, "%s: not a snapshot", r->name);
	if (r->len < sizeof(*header))
		return snap_damaged(r, 0, "the file ends in its header");
	if (header->version > SNAP_VERSION)
		return reason_set(r->why, -ENOTSUP,
				  "%s: written by a later allocsnap: format version %u, "
				  "this one reads up to %u", r->name, header->version,
				  SNAP_VERSION);
	if (!header->version)
		return snap_damaged(r, 0, "format version 0");
	if (header->file_size != r->len)
		return snap_damaged(r, 0, "%" PRIu64 " bytes long, written as %" PRIu64, r->len,
				    header->file_size);
	return 0;
}

int snap_check_table_size(const struct snap_reading *r)
{
	const struct snap_header *header = &r->header;

	if (header->header_size != sizeof(*header))
		return snap_damaged(r, 0, "a header of %u bytes", header->header_size);
	if (header->section_nr > (r->len - sizeof(*header)) / sizeof(*r->table))
		return snap_damaged(r, 0, "%u sections do not fit", header->section_nr);
	if (header->section_nr > SNAP_TABLE_MAX)
		return snap_damaged(r, 0, "%u sections are too many", header->section_nr);
	return 0;
}

static int check_snapshot_header(const struct snap_reading *r)
{
	if (r->header.checksum != snap_header_checksum(&r->header, r->table))
		return snap_damaged(r, 0, "wrong checksum of the header");
	if (r->header.reserved)
		return snap_damaged(r, 0, "a reserved field of the header is not zero");
	return 0;
}

/* Checks the section's type and encoding. */
static int check_section_kind(const struct snap_reading *r, const struct snap_section *section)
{
	if (!section->type)
		return snap_damaged(r, 0, "a section without a type");
	if (section->type >= SNAP_SECTION_TYPE_MAX)
		return reason_set(r->why, -ENOTSUP, "%s: written by a later allocsnap: "
				  "section type %u is not known here", r->name, section->type);
	if (section->encoding > SNAP_ZSTD)
		return reason_set(r->why, -ENOTSUP, "%s: written by a later allocsnap: section %s: "
				  "encoding %u is not known here", r->name,
				  snap_shapes[section->type].name, section->encoding);
	if (r->section[section->type])
		return snap_damaged(r, section->type, "it is there twice");
	return 0;
}

/* Checks where the section is; `end` is the end of the data before it. */
static int check_section_place(const struct snap_reading *r, const struct snap_section *section,
			       uint64_t end)
{
	uint32_t type = section->type;

	if (section->offset % SNAP_ALIGN)
		return snap_damaged(r, type, "offset %" PRIu64 " is not aligned", section->offset);
	if (section->offset < end)
		return snap_damaged(r, type, "it overlaps what lies before it");
	if (section->offset > r->len || section->size > r->len - section->offset)
		return snap_damaged(r, type, "it reaches beyond the file's end");
	if (section->offset - end > SNAP_GAP_MAX)
		return snap_damaged(r, type, "%" PRIu64 " bytes of nothing before it",
				    section->offset - end);
	return 0;
}

/* Checks the number of rows; *row_bytes is the sum over all sections. */
static int check_count(const struct snap_reading *r, const struct snap_section *section,
		       uint64_t *row_bytes)
{
	uint32_t type = section->type;
	uint64_t size;
	bool fits = !__builtin_mul_overflow(section->count, snap_shapes[type].row_size, &size);

	if (!fits || (section->encoding == SNAP_RAW && size != section->size))
		return snap_damaged(r, type, "%" PRIu64 " rows in %" PRIu64 " bytes",
				    section->count, section->size);
	if (section->count > snap_shapes[type].row_max)
		return snap_damaged(r, type, "%" PRIu64 " rows are too many", section->count);
	if (__builtin_add_overflow(*row_bytes, size, row_bytes) ||
	    snap_expands_too_much(*row_bytes, r->len))
		return snap_damaged(r, type, "%" PRIu64 " rows are too many for a file of %" PRIu64
				    " bytes", section->count, r->len);
	return 0;
}

static int check_presence(const struct snap_reading *r)
{
	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++) {
		const struct snap_section *section = r->section[type];

		if (snap_shapes[type].has_row_zero && (!section || !section->count))
			return snap_damaged(r, type, section ? "it is empty" : "it is missing");
	}
	return 0;
}

int snap_check_layout(struct snap_reading *r)
{
	uint64_t end = sizeof(r->header) + r->header.section_nr * sizeof(*r->table);
	uint64_t row_bytes = 0;
	int err = check_snapshot_header(r);

	for (uint32_t i = 0; i < r->header.section_nr && !err; i++) {
		const struct snap_section *section = &r->table[i];

		err = check_section_kind(r, section) ?: check_section_place(r, section, end) ?:
		      check_count(r, section, &row_bytes);
		if (err)
			return err;
		r->section[section->type] = section;
		end = section->offset + section->size;
	}
	if (!err && r->len - end > SNAP_GAP_MAX)
		err = snap_damaged(r, 0, "%" PRIu64 " bytes of nothing at its end", r->len - end);
	return err ?: check_presence(r);
}

int snap_check_gap(const struct snap_reading *r, uint32_t type, const void *bytes, size_t len)
{
	if (snap_is_zero(bytes, len))
		return 0;
	return snap_damaged(r, type, type ? "the padding before it is not zero" :
			    "the padding at the end is not zero");
}

int snap_check_sum(const struct snap_reading *r, const struct snap_section *section,
		   uint64_t checksum)
{
	if (checksum == section->checksum)
		return 0;
	return snap_damaged(r, section->type, "wrong checksum");
}

/* Checks the rows of a file whose sections are complete. Readers may rely on these checks later. */

static int check_id(const struct snap_reading *r, uint32_t type, uint64_t row, const char *what,
		    uint32_t id, uint32_t id_nr)
{
	if (id < id_nr)
		return 0;
	return snap_damaged(r, type, "row %" PRIu64 ": %s id %u of %u", row, what, id, id_nr);
}

static int check_refs(const struct snap_reading *r, const struct snapshot *s, uint32_t type)
{
	const struct snap_rows *rows = &s->rows[type];
	int err = 0;

	for (const struct snap_ref *ref = snap_refs; ref->type; ref++)
		for (uint64_t i = 0; ref->type == type && i < rows->nr && !err; i++) {
			uint32_t id;

			memcpy(&id, (const char *)rows->row + i * snap_shapes[type].row_size + ref->offset, sizeof(id));
			err = check_id(r, type, i, ref->to == SNAP_OBJECTS ? "object" : "string", id, s->rows[ref->to].nr);
		}
	return err;
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
		text[i] = snapshot__string(s, id);
		if (!*text[i])
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

static int check_counters(const struct snap_reading *r, const struct snapshot *s)
{
	const struct snapshot_tables *t = &s->tables;

	for (uint32_t i = 0; i < t->counter_nr; i++)
		if (t->counter[i].kind != SNAP_COUNTED && t->counter[i].kind != SNAP_LOST)
			return snap_damaged(r, SNAP_COUNTERS, "row %u: unknown kind %u", i,
					    t->counter[i].kind);
	return check_refs(r, s, SNAP_COUNTERS) ?: check_unique(r, SNAP_COUNTERS, s);
}

static int check_probe_rows(const struct snap_reading *r, const struct snapshot *s)
{
	const struct snapshot_tables *t = &s->tables;

	if (t->probe_domain && s->rows[SNAP_PROBE_DOMAIN].nr != t->probe_nr)
		return snap_damaged(r, SNAP_PROBE_DOMAIN, "%" PRIu64 " rows for %u probes",
				    s->rows[SNAP_PROBE_DOMAIN].nr, t->probe_nr);
	return check_refs(r, s, SNAP_PROBES);
}

static int check_objects(const struct snap_reading *r, const struct snapshot *s)
{
	const struct snapshot_tables *t = &s->tables;
	const uint32_t type = SNAP_OBJECTS;
	int err = check_row_zero(r, s, type) ?: check_refs(r, s, type);

	for (uint32_t i = 0; i < t->object_nr && !err; i++)
		if (!snap_is_build_id(snapshot__string(s, t->object[i].build_id)))
			err = snap_damaged(r, type, "row %u: the build id is not one", i);
	return err;
}

static int check_frame_rows(const struct snap_reading *r, const struct snapshot *s)
{
	const struct snapshot_tables *t = &s->tables;
	const uint32_t type = SNAP_FRAMES;
	int err = check_row_zero(r, s, type) ?: check_refs(r, s, type);

	for (uint32_t i = 0; i < t->frame_nr && !err; i++)
		if (t->frame[i].flags & ~SNAP_FRAME_FLAGS || t->frame[i].reserved)
			err = snap_damaged(r, type, "row %u: unknown flags", i);
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
	return check_strings(r, s) ?: check_refs(r, s, SNAP_METADATA) ?: check_unique(r, SNAP_METADATA, s);
}

int snap_check_tables(const struct snap_reading *r, struct snapshot *s)
{
	snap_fill_tables(s);
	return check_strings(r, s) ?: check_objects(r, s) ?: check_frame_rows(r, s) ?:
	       check_first_lines(r, s) ?:
	       check_tracebacks(r, s) ?: check_churn(r, s) ?: check_trace_rows(r, s) ?: check_weights(r, s) ?:
	       check_gap_rows(r, s) ?: check_probe_rows(r, s) ?: check_refs(r, s, SNAP_METADATA) ?:
	       check_unique(r, SNAP_METADATA, s) ?: check_counters(r, s);
}
