/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_ENGINE_DATA_H
#define TESTS_ENGINE_DATA_H

/* Snapshots and expected statistics as C literals. Fields left out of a row are zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#include <stddef.h>
#include <stdint.h>

#include "engine.h"

#define DATA_FRAMES 6

/* A frame with a filename; a NULL filename ends a list of frames. */
struct data_frame {
	const char *filename;
	uint32_t lineno;
	const char *function;
	const char *object;
	uint64_t offset;
	uint32_t flags; /* enum snap_frame_flag */
	const char *build_id;
};

/* `times` equal traces (0: one); frames most recent call first, none: a trace without traceback. */
struct data_trace {
	uint64_t size;
	struct data_frame frame[DATA_FRAMES];
	unsigned int times;
	uint32_t total_nframe;
	uint64_t birth_ns;
	uint32_t domain;
	uint32_t thread;
	uint64_t address;
	double weight;
};

/*
 * A snapshot in memory; monotonic_ns 0 leaves out that metadata and the column of births. The columns of domains,
 * threads, addresses (with births) and weights exist if any of their values is not 0.
 */
struct data_snapshot {
	void *bytes;
	struct snapshot *snapshot;
};

struct data_snapshot data_snapshot(const struct data_trace *trace, size_t nr,
				   uint64_t monotonic_ns);
void data_release(struct data_snapshot *data);

/* The same with metadata: pairs of key and value, ended by a NULL. */
struct data_snapshot data_snapshot_with(const struct data_trace *trace, size_t nr,
					const char *const *metadata);

#define DATA_SNAPSHOT(traces) data_snapshot((traces), sizeof(traces) / sizeof((traces)[0]), 0)

/* One statistic; frames oldest first, "file:lineno file:lineno…", or the key in brackets */
struct data_row {
	const char *traceback;
	int64_t size, count, size_diff, count_diff;
};

/* Runs the engine and compares all rows; old may be NULL. */
void data_expect(const char *what, const struct snapshot *old, const struct snapshot *new,
		 const struct engine_options *options, const struct data_row *row, size_t nr);

#define DATA_EXPECT(what, old, new, options, ...) \
	do { \
		const struct data_row row_[] = { __VA_ARGS__ }; \
		data_expect(what, old, new, options, row_, sizeof(row_) / sizeof(row_[0])); \
	} while (0)

/* The text of a struct data_row for a statistic. Returns text. */
const char *data_traceback_text(char text[512], const struct statistic *statistic);

#endif
