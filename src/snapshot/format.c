// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
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

uint64_t snap_checksum(const void *bytes, size_t len)
{
	return XXH3_64bits(bytes, len);
}

struct snap_sum {
	XXH3_state_t state;
};

struct snap_sum *snap_sum__new(void)
{
	return aligned_alloc(_Alignof(struct snap_sum), sizeof(struct snap_sum));
}

void snap_sum__free(struct snap_sum *sum)
{
	free(sum);
}

void snap_sum__start(struct snap_sum *sum)
{
	XXH3_64bits_reset(&sum->state);
}

void snap_sum__add(struct snap_sum *sum, const void *bytes, size_t len)
{
	XXH3_64bits_update(&sum->state, bytes, len);
}

uint64_t snap_sum__end(const struct snap_sum *sum)
{
	return XXH3_64bits_digest(&sum->state);
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

bool snap_is_zero(const void *bytes, size_t len)
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
