/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_H
#define ALLOCSNAP_ENGINE_H

/*
 * What the engine answers: tracemalloc's Snapshot.statistics() and Snapshot.compare_to()
 * (CPython 3.11, Lib/tracemalloc.py), on snapshots of native programs. Pure: no I/O, no
 * globals; the snapshots are only read.
 *
 * Frames. Two frames are equal if filename and lineno are. Where lineno is 0 (no line
 * information) function, object and offset count too, so that a stripped library is not one
 * big row. For key_type "filename" a group is the filename alone. What equal frames disagree
 * about (the function of a line in a C++ template, the offset of two calls in one line) is not
 * known of their group: NULL or 0.
 *
 * Wrappers. Leading frames of the allocator itself and of operator new, and those whose
 * function matches a `skip` pattern, are passed over: a traceback starts at the first frame
 * after them. One that holds nothing else is left whole.
 *
 * A trace without a traceback belongs to tracemalloc's frame "<unknown>", line 0.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reason;
struct snapshot;

/* Append only: key_type_names[] in key_type.c follows it. */
enum key_type {
	KEY_LINENO = 0, /* the default of the command line */
	KEY_FILENAME,
	KEY_TRACEBACK,
	KEY_TYPE_NR,
};

/* "lineno"…; -EINVAL and a line that names the right ones if text is none of them. */
const char *key_type_name(enum key_type key_type);
int key_type_parse(const char *text, enum key_type *ret_key_type, struct reason *why);

/* Blocks and their bytes; closed under + and −. */
struct cost {
	int64_t size; /* bytes */
	int64_t count;
};

/* One frame of a statistic's key. NULL or 0 where not known. Strings live in the snapshots. */
struct frame_view {
	const char *filename; /* never NULL; "<unknown>" without a traceback */
	uint32_t lineno;
	const char *function;
	const char *object;
	uint64_t offset; /* in object, of the return address; an address where object is NULL */
};

/*
 * One group. For key_type filename and lineno its traceback is one frame, for traceback all of
 * them, oldest first (tracemalloc's order). diff is new − old; for statistics() it is 0.
 */
struct statistic {
	const struct frame_view *frame;
	uint32_t nframe;
	struct cost cost;
	struct cost diff;
};

struct statistics {
	enum key_type key_type;
	bool cumulative;
	bool is_diff;
	struct statistic *statistic; /* sorted, most important first */
	size_t statistic_nr;
	struct cost total; /* of the traces that took part, each once */
	struct cost total_diff;
};

/* Zero is the default. */
struct engine_options {
	enum key_type key_type;
	bool cumulative;	 /* add a trace to all frames of its traceback; not for traceback */
	bool keep_wrappers;	 /* and then `skip` is ignored */
	const char *const *skip; /* fnmatch(3) patterns on function names: further wrappers */
	size_t skip_nr;
	uint64_t min_age_ns;	 /* leave out younger blocks; ages count from the snapshot's time */
};

/*
 * Sorted by size, count, traceback, all descending. 0, -ENOMEM, -EINVAL (cumulative with
 * traceback), -ENODATA (an age asked of a snapshot without birth times), -ERANGE (sizes that add
 * up to 2^63 bytes or more), with a line in *why. The snapshot must outlive the result, the
 * options need not. Ends with statistics_free().
 */
int snapshot_statistics(const struct snapshot *snapshot, const struct engine_options *options,
			struct statistics **ret, struct reason *why);

/*
 * new compared to old: all groups of both, zero differences included. Sorted by |size_diff|,
 * size, |count_diff|, count, traceback, all descending. Errors as above.
 */
int snapshot_compare(const struct snapshot *old_snapshot, const struct snapshot *new_snapshot,
		     const struct engine_options *options, struct statistics **ret,
		     struct reason *why);

void statistics_free(struct statistics *statistics);

#endif
