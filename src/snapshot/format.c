// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
