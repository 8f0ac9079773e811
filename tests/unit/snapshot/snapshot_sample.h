/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_SNAPSHOT_SAMPLE_H
#define TESTS_SNAPSHOT_SAMPLE_H

#include <stddef.h>

#include "base/reason.h"
#include "snapshot.h"

/*
 * A small snapshot with two rows or more in each table, and what damage tests do to its bytes.
 *
 *	objects     1 libc.so (build id 0a1b), 2 app
 *	frames      1 main.c:7 main (app)   2 malloc in libc.so   3 list.c:3 push, inlined (app)
 *	tracebacks  1 {2, 3, 1}   2 {2, 1} of 9, limited
 *	traces      100 bytes at 1, 200 at 2, 300 at 1, 0 without traceback
 */
struct sample {
	char *bytes;
	size_t len;
};

struct snapshot_builder *sample_builder(unsigned int columns);
struct sample sample_make(void);

/* snapshot_builder__finish() and snapshot__serialize(), which must not fail. */
struct snapshot *sample_finish(struct snapshot_builder *builder);
struct sample sample_serialize(const struct snapshot *snapshot,
			       const struct snapshot_save_options *options);
void sample_release(struct sample *sample);

struct snap_header *sample_header(struct sample *sample);
struct snap_section *sample_section(struct sample *sample, uint32_t type);

/* Makes all checksums right again, as far as they can be. */
void sample_seal(struct sample *sample);

/* Takes a section out as if it had never been written; its room stays, as padding. */
void sample_drop(struct sample *sample, uint32_t type);

/* Writes the low bytes of a value somewhere into the sample. */
void sample_poke(struct sample *sample, void *where, uint64_t value, size_t width);

/* Opens it; it must be refused with err and a line that contains `says`. */
void sample_expect_refused(struct sample *sample, const char *what, int err, const char *says);

/* Follows every id of a snapshot down to its strings; ASan watches. Returns the bytes of text. */
size_t sample_walk(const struct snapshot *snapshot);

#endif
