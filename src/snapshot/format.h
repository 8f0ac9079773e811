/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_FORMAT_H
#define ALLOCSNAP_SNAPSHOT_FORMAT_H

/* Shared by the reader and the writer of the file. snapshot.h describes the format itself. */

#include <stdbool.h>

#include "snapshot.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "snapshot files are little-endian and used as they are"
#endif

#define SNAP_ALIGN 8
#define SNAP_OF_FILES_ONLY (1u << 31) /* a bit of enum snap_columns: sections that only files have, no builder */
#ifndef SNAP_ALWAYS_BYTES /* lower for fuzzing, because large files are slow */
#define SNAP_ALWAYS_BYTES (1u << 30) /* of rows: readers accept that many, however small the file is */
#endif
#define SNAP_EXPANDED_ROW_BYTES 40 /* the memory that a trace takes, at most */
#define SNAP_GAP_MAX 4096 /* bytes between sections; this writer leaves less than SNAP_ALIGN */
#define SNAP_FRAME_FLAGS \
	(SNAP_FRAME_INLINE | SNAP_FRAME_SKIPPED | SNAP_FRAME_GUESSED | SNAP_FRAME_EXACT | SNAP_FRAME_LOGICAL)
#define SNAP_TRACEBACK_FLAGS \
	(SNAP_TRACEBACK_LIMITED | SNAP_TRACEBACK_BROKEN | SNAP_TRACEBACK_END)

/* A traceback's flags: a set of known flags, and a known kind of end. */
static inline bool snap_traceback_flags_are_known(uint32_t flags)
{
	return !(flags & ~SNAP_TRACEBACK_FLAGS) && SNAP_TRACEBACK_END_OF(flags) < SNAP_END_NR;
}

/*
 * Whether a weight, as bits, is a finite number of at least 1. From 1 on, the bits of doubles are
 * ordered like the numbers, up to infinity.
 */
#define SNAP_WEIGHT_ONE 0x3ff0000000000000ull
#define SNAP_WEIGHT_INFINITE 0x7ff0000000000000ull

static inline bool snap_is_weight(uint64_t bits)
{
	return bits - SNAP_WEIGHT_ONE < SNAP_WEIGHT_INFINITE - SNAP_WEIGHT_ONE;
}

/* One row per section type. */
struct snap_shape {
	const char *name;  /* used in messages */
	uint32_t row_size; /* bytes of a row */
	uint32_t column;   /* enum snap_columns: written only if asked for; 0: always written */
	bool has_row_zero; /* the section must exist and not be empty */
	uint64_t row_max;
};

extern const struct snap_shape snap_shapes[SNAP_SECTION_TYPE_MAX];

/* A member of a section's rows that is an id of another section, which has rows by id. */
struct snap_ref {
	uint32_t type, offset, to;
};

extern const struct snap_ref snap_refs[]; /* a row of zeros ends them */

/* XXH3_64bits of <xxhash.h>. */
uint64_t snap_checksum(const void *bytes, size_t len);

/* The checksum of the header, with its checksum field as zero, and its section table. */
uint64_t snap_header_checksum(const struct snap_header *header, const struct snap_section *section);

/* A build-id must be lower-case hex, because it becomes part of paths and URLs. "": no build-id. */
bool snap_is_build_id(const char *text);

/*
 * Whether sections of row_bytes in all expand a file too much: a compressed file must not be able
 * to fill a reader's memory.
 */
bool snap_expands_too_much(uint64_t row_bytes, uint64_t file_size);

/* The metadata key of a domain's name. Returns key. */
#define SNAP_DOMAIN_KEY_MAX 32
const char *snap_domain_key(char key[SNAP_DOMAIN_KEY_MAX], uint32_t domain);

/* The room for a file's name in messages, so that it fits into a struct reason. */
#define SNAP_NAME_MAX 256

#endif
