// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "formats/import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "formats/byte_buffer.h"
#include "formats/profile_import.h"

#define BYTES_MOST (1u << 30)	      /* of a file, unpacked */
#define FRAMES_MOST (1ull << 26)      /* of all samples: a location is one byte, and may have many lines */
#define BLOCKS_MOST (1ull << 26)      /* a profile has one number for any count of blocks */
#define EXACT_DOUBLE (1ull << 53)
#define NAME_ROOM 256

/* ---- errors ----------------------------------------------------------------------------------------- */

int import_refuse(const struct profile_import *in, int err, const char *fmt, ...)
{
	char what[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	return reason_set(in->why, err, "%s: %s", in->name, what);
}

int import_no_memory(const struct profile_import *in)
{
	return import_refuse(in, -ENOMEM, "%s", strerror(ENOMEM));
}

/* ---- samples ---------------------------------------------------------------------------------------- */

int import_unknown_file(struct profile_import *in, uint32_t *ret_filename)
{
	return snapshot_builder__string(in->builder, "<unknown>", ret_filename) ? import_no_memory(in) : 0;
}

int import_frame(struct profile_import *in, uint32_t frame)
{
	if (in->frame_nr == SNAP_TRACEBACK_MAX)
		return import_refuse(in, -ERANGE, "a traceback of more than %u frames", SNAP_TRACEBACK_MAX);
	if (++in->frames_all > FRAMES_MOST)
		return import_refuse(in, -EFBIG, "more than %llu frames", FRAMES_MOST);
	return array_push(in, frame, frame) ? import_no_memory(in) : 0;
}

/* The sums over all tracebacks must fit, so the sums of one traceback do. */
static int count_churn(struct profile_import *in, const struct snap_churn *churn)
{
	struct snap_churn *all = &in->churn_all;

	if (__builtin_add_overflow(all->allocations, churn->allocations, &all->allocations) ||
	    __builtin_add_overflow(all->allocated_bytes, churn->allocated_bytes, &all->allocated_bytes) ||
	    all->allocations > INT64_MAX || all->allocated_bytes > INT64_MAX)
		return import_refuse(in, -ERANGE, "more than 2^63 - 1 allocated blocks or bytes");
	return 0;
}

/* Ends the frames of the current sample, and adds what was allocated there. */
static int end_traceback(struct profile_import *in, const struct snap_churn *churn, uint32_t *ret_traceback)
{
	int err = churn ? count_churn(in, churn) : 0;

	if (err)
		return err;
	in->allocated_uncounted += churn && churn->allocated_bytes && !churn->allocations;
	err = snapshot_builder__traceback(in->builder, in->frame, in->frame_nr, 0, 0, ret_traceback);
	if (!err && churn && churn->allocations)
		err = snapshot_builder__churn(in->builder, *ret_traceback, churn);
	if (in->frame_nr > in->nframe_max)
		in->nframe_max = in->frame_nr;
	in->frame_nr = 0;
	return err ? import_refuse(in, err, "%s", strerror(-err)) : 0;
}

static int count_imported_blocks(struct profile_import *in, uint64_t nr)
{
	if (nr > BLOCKS_MOST || (in->blocks_all += nr) > BLOCKS_MOST)
		return import_refuse(in, -EFBIG, "more than %llu blocks", BLOCKS_MOST);
	return 0;
}

static int import_block(struct profile_import *in, uint32_t traceback, uint64_t size, double weight)
{
	const struct snap_trace trace = { .size = size, .traceback = traceback, .weight = weight };

	return snapshot_builder__trace(in->builder, &trace) ? import_no_memory(in) : 0;
}

int import_sample(struct profile_import *in, const struct profile_blocks *live, const struct snap_churn *churn)
{
	uint64_t count = live->count ?: live->bytes != 0, larger;
	uint32_t traceback = 0;
	int err = count_imported_blocks(in, count) ?: end_traceback(in, churn, &traceback);

	if (live->bytes > INT64_MAX)
		return import_refuse(in, -ERANGE, "more than 2^63 - 1 bytes");
	in->uncounted += count && !live->count;
	larger = count ? live->bytes % count : 0;
	for (uint64_t i = 0; i < count && !err; i++)
		err = import_block(in, traceback, live->bytes / count + (i < larger), live->weight);
	return err;
}

int import_scaled_sample(struct profile_import *in, uint64_t count, uint64_t bytes, const struct snap_churn *churn)
{
	uint32_t traceback = 0;
	uint64_t larger;
	int err;

	if (!count)
		return import_sample(in, &(struct profile_blocks){ .bytes = bytes, .weight = 1 }, churn);
	if (count > EXACT_DOUBLE || bytes > EXACT_DOUBLE)
		return import_refuse(in, -ERANGE, "more than 2^53 blocks or bytes");
	err = count_imported_blocks(in, 2) ?: end_traceback(in, churn, &traceback);
	larger = bytes % count;
	if (!err && larger)
		err = import_block(in, traceback, bytes / count + 1, larger);
	return err ?: import_block(in, traceback, bytes / count, count - larger);
}

/* ---- the whole -------------------------------------------------------------------------------------- */

static int add_number(struct profile_import *in, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return snapshot_builder__metadata(in->builder, key, text) ? import_no_memory(in) : 0;
}

int import_metadata(struct profile_import *in, const char *source, uint64_t sample_bytes)
{
	int err = snapshot_builder__metadata(in->builder, "source", source) ? import_no_memory(in) :
		  add_number(in, "traceback_limit", in->nframe_max ?: 1);

	if (!err && sample_bytes)
		err = add_number(in, "sample_bytes", sample_bytes) ?:
		      add_number(in, "sample_bytes_most", sample_bytes);
	if (!err && in->uncounted)
		err = snapshot_builder__counter(in->builder, SNAP_LOST, "blocks_uncounted", in->uncounted) ?
		      import_no_memory(in) : 0;
	if (!err && in->allocated_uncounted)
		err = snapshot_builder__counter(in->builder, SNAP_LOST, "allocations_uncounted",
						in->allocated_uncounted) ? import_no_memory(in) : 0;
	return err;
}

static int import_bytes(struct profile_import *in, const char *bytes, size_t len)
{
	bytes = text_behind_mark(bytes, &len);
	if (is_heap_text(bytes, len))
		return import_heap_text(in, bytes, len);
	if (is_symbolized_heap(bytes, len))
		return import_refuse(in, -EBADMSG, "a heap profile with names added (\"--- symbol\", as by jeprof --raw): "
				     "give the profile that the program wrote, and 'symbolize' adds names");
	if (is_pprof(bytes, len))
		return import_pprof(in, bytes, len);
	return import_refuse(in, -EBADMSG, "neither pprof's profile.proto nor a heap profile as text");
}

static int import_packed(struct profile_import *in, const char *bytes, size_t len)
{
	struct byte_buffer expanded = {};
	int err;

	if (len > BYTES_MOST)
		return import_refuse(in, -EFBIG, "more than %u MiB", BYTES_MOST >> 20);
	if (!gzip_is(bytes, len))
		return import_bytes(in, bytes, len);
	err = gzip_expand(bytes, len, BYTES_MOST, &expanded);
	if (err == -EFBIG)
		err = import_refuse(in, err, "more than %u MiB in gzip", BYTES_MOST >> 20);
	else if (err)
		err = import_refuse(in, err, "%s", err == -ENOMEM ? strerror(ENOMEM) : "damaged, or not whole: gzip");
	else
		err = import_bytes(in, (char *)expanded.byte, expanded.byte_nr);
	buffer_release(&expanded);
	return err;
}

const char *text_behind_mark(const char *bytes, size_t *len)
{
	static const char mark[] = "\xef\xbb\xbf";
	bool has_mark = *len >= strlen(mark) && !memcmp(bytes, mark, strlen(mark));

	*len -= has_mark ? strlen(mark) : 0;
	return has_mark ? bytes + strlen(mark) : bytes;
}

bool import_knows(const char *bytes, size_t len)
{
	bytes = text_behind_mark(bytes, &len);
	return gzip_is(bytes, len) || is_heap_text(bytes, len) || is_symbolized_heap(bytes, len) || is_pprof(bytes, len);
}

struct snapshot *import_profile(const char *bytes, size_t len, const char *name, struct reason *why)
{
	char clean[NAME_ROOM];
	struct profile_import in = { .name = clean_path(clean, sizeof(clean), name), .why = why };
	struct snapshot *snapshot = NULL;
	int err = import_packed(&in, bytes, len);

	free(in.frame);
	if (!err) {
		err = snapshot_builder__finish(in.builder, &snapshot);
		in.builder = NULL;
		if (err)
			import_refuse(&in, err, "%s", strerror(-err));
	}
	snapshot_builder__free(in.builder);
	if (!snapshot)
		errno = -err;
	return snapshot;
}
