/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FORMATS_PROFILE_IMPORT_H
#define ALLOCSNAP_FORMATS_PROFILE_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reason.h"
#include "snapshot.h"

/* A snapshot while it is read from a profile. Functions return 0 or a negative errno, with a line in *why. */
struct profile_import {
	const char *name; /* of the file */
	struct reason *why;
	struct snapshot_builder *builder;
	uint32_t *frame; /* of the current sample, most recent call first */
	size_t frame_nr, frame_alloc;
	uint64_t frames_all; /* of all samples */
	uint64_t blocks_all;
	struct snap_churn churn_all;
	uint64_t uncounted;  /* samples that have bytes, but no number of blocks */
	uint64_t allocated_uncounted; /* samples that have allocated bytes, but no number of allocations: those are left out */
	uint32_t nframe_max;
	bool is_sampled;
};

/* Blocks of one traceback. */
struct profile_blocks {
	uint64_t count, bytes;
	double weight; /* how many blocks each of these stands for; at least 1 */
};

/* Returns err, with "NAME: …" in *why. */
__attribute__((format(printf, 3, 4)))
int import_refuse(const struct profile_import *in, int err, const char *fmt, ...);
int import_no_memory(const struct profile_import *in);

/* The builder's id of the filename of a frame that is in no file. */
int import_unknown_file(struct profile_import *in, uint32_t *ret_filename);

/* Adds a frame to the current sample. */
int import_frame(struct profile_import *in, uint32_t frame);

/* Ends the current sample: adds its blocks, and what was allocated there. The next sample begins without frames. */
int import_sample(struct profile_import *in, const struct profile_blocks *live, const struct snap_churn *churn);

/*
 * The same for a profile whose sums stand already for the blocks that were not sampled: two blocks whose weights are
 * whole numbers have these sums exactly.
 */
int import_scaled_sample(struct profile_import *in, uint64_t count, uint64_t bytes, const struct snap_churn *churn);

/* Describes the whole. sample_bytes 0: every block was recorded. */
int import_metadata(struct profile_import *in, const char *source, uint64_t sample_bytes);

/* The two formats. The builder is new, with all columns that they need. */
int import_pprof(struct profile_import *in, const void *bytes, size_t len);
int import_heap_text(struct profile_import *in, const char *text, size_t len);

bool is_pprof(const char *bytes, size_t len);
bool is_heap_text(const char *bytes, size_t len);

/* A heap profile with names in front of it, as jeprof and pprof print it with --raw. It is not read. */
bool is_symbolized_heap(const char *bytes, size_t len);

#endif
