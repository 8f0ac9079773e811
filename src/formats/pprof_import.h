/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FORMATS_PPROF_IMPORT_H
#define ALLOCSNAP_FORMATS_PPROF_IMPORT_H

/* The parts of reading a pprof profile: import_pprof.c has tables and samples, import_pprof_frames.c locations. */

#include "base/idmap.h"
#include "formats/byte_buffer.h"
#include "formats/profile_import.h"

#define VALUE_TYPES_MAX 32

/* A row of a table, by its id. */
struct pprof_row {
	uint64_t id;
	struct protobuf_reader message;
	/* A location, once a sample needs it, has its frames in pprof_import.frame. */
	bool is_known;
	size_t frame_first;
	uint32_t frame_nr;
};

struct pprof_rows {
	struct pprof_row *row;
	size_t row_nr, row_alloc;
	struct idmap ids;
};

/* The meaning of a value of a sample. */
struct pprof_type {
	uint64_t type, unit; /* strings */
};

struct pprof_import {
	struct profile_import *in;
	struct pprof_rows mappings, functions, locations;
	struct protobuf_reader *string;
	size_t string_nr, string_alloc;
	uint32_t *known; /* for each string the builder's id and 1, or 0 */
	struct protobuf_reader *sample;
	size_t sample_nr, sample_alloc;
	struct pprof_type type[VALUE_TYPES_MAX], period_type;
	size_t type_nr;
	uint64_t period, time_ns;
	uint32_t *frame; /* of the builder, for all locations */
	size_t frame_nr, frame_alloc;
	uint32_t unknown_frame; /* the frame of which nothing is known; 0: none yet */
	/* Indexes of types; -1: the profile does not have it. */
	int live, live_bytes, allocated, allocated_bytes;
};

/* Returns -EBADMSG, with a line in *why. */
int refuse_pprof(const struct pprof_import *pprof, const char *what);

/* The row with this id, or NULL. */
struct pprof_row *pprof_find_row(const struct pprof_rows *rows, uint64_t id);

/* Whether string number `at` of the table is this text. */
bool pprof_string_is(const struct pprof_import *pprof, uint64_t at, const char *text);

/* A string for a message. */
const char *clean_pprof_string(const struct pprof_import *pprof, uint64_t at, char *clean, size_t room);

/* Adds the frames of a location to the current sample. 0 or a negative errno, with a line in *why. */
int pprof_add_location(struct pprof_import *pprof, uint64_t id);

#endif
