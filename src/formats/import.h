/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FORMATS_IMPORT_H
#define ALLOCSNAP_FORMATS_IMPORT_H

/*
 * Heap profiles of other tools as snapshots:
 *
 *	pprof's profile.proto, also in gzip: Go's runtime/pprof, allocsnap's own, and what pprof -proto writes
 *	text of jemalloc ("heap_v2/RATE"), tcmalloc and gperftools ("heap profile: …"), also in gzip
 *
 * These have no blocks, but for each traceback a number of blocks and their bytes. A snapshot gets as many blocks as the
 * profile counts, of nearly the same size each. Their sums are the profile's sums. If the profile is of samples, the
 * snapshot is, too. A profile's figures of what was allocated become the churn of its tracebacks.
 *
 * The bytes are hostile. On failure a function returns NULL with errno set and a line in *why: EBADMSG (not of this form),
 * ERANGE (a number that does not fit), EFBIG (too many bytes, frames or blocks) or ENOMEM.
 */

#include <stdbool.h>
#include <stddef.h>

#include "reason.h"

struct snapshot;

/* The losses that a snapshot of a profile may count, and their meanings. */
#define IMPORT_LOSSES(X) \
	X(blocks_uncounted, "samples with bytes, but without a number of blocks") \
	X(allocations_uncounted, "samples with allocated bytes, but without a number of allocations") \
	X(bytes_unlike_total, "bytes by which the rows differ from the profile's own total: rows are missing") \
	X(allocated_bytes_unlike_total, "the same of what was allocated") \
	X(mappings_cut_off, "the profile ends before the list of mapped files: places in no file")

/* Skips a byte order mark of UTF-8, which some programs write in front of any text. */
const char *text_behind_mark(const char *bytes, size_t *len);

/* Whether bytes begin as one of these formats does. */
bool import_knows(const char *bytes, size_t len);

/* name is the name of the file, for messages. */
struct snapshot *import_profile(const char *bytes, size_t len, const char *name, struct reason *why);

#endif
