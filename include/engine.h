/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_H
#define ALLOCSNAP_ENGINE_H

/*
 * What the engine answers: tracemalloc's Snapshot.statistics(), compare_to() and
 * filter_traces() (CPython 3.11, Lib/tracemalloc.py), on snapshots of native programs. Pure: no
 * I/O, no globals; the snapshots are only read.
 *
 *	tracemalloc			here
 *	Snapshot.load, dump		snapshot__open, snapshot__save (snapshot.h)
 *	Snapshot.traces, Trace		snapshot__trace (snapshot.h)
 *	Traceback, Frame		traceback_read, struct frame_view
 *	Filter, DomainFilter		struct filter
 *	Snapshot.filter_traces		snapshot_filter_traces
 *	Snapshot.statistics		snapshot_statistics
 *	Snapshot.compare_to		snapshot_compare
 *	Statistic, StatisticDiff	struct statistic
 *	Traceback.format, str()		traceback_format, statistic_text, size_text (render.h)
 *
 * Frames. Two frames are equal if filename and lineno are. Where lineno is 0 (no line
 * information) function, object and offset count too, so that a stripped library is not one
 * big row. For key_type "filename" a group is the filename alone. What equal frames disagree
 * about (the function of a line in a C++ template, the offset of two calls in one line) is not
 * known of their group: NULL or 0.
 *
 * Wrappers. Leading frames of the allocator itself and of operator new, and those whose
 * function matches a `skip` pattern, are passed over: a traceback starts at the first frame
 * after them, for statistics and for filters. One that holds nothing else is left whole.
 *
 * A trace without a traceback belongs to tracemalloc's frame "<unknown>", line 0.
 *
 * Samples. Where a snapshot has weights, sizes and counts are estimates (Horvitz and Thompson's):
 * sums of size * weight and of weight, rounded, and each comes with an interval. Where it has none, or
 * all are 1, they are tracemalloc's, to the last byte.
 *
 * Patterns are Python's fnmatch, not fnmatch(3): `*` crosses `/`, `[!x]` negates, `[^x]` does
 * not, there are no escapes; `?` and `[…]` match code points (a byte that is not UTF-8 is one).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reason.h"

struct snapshot;

/* Append only: the rows of key_type.c follow it. */
enum key_type {
	KEY_LINENO = 0, /* the default of the command line */
	KEY_FILENAME,
	KEY_TRACEBACK,
	/* Not tracemalloc's: the key is a text. */
	KEY_FUNCTION,
	KEY_OBJECT,
	KEY_DOMAIN,
	KEY_PROCESS,
	KEY_SIZE_CLASS,
	KEY_AGE,
	KEY_THREAD,
	KEY_TYPE_NR,
};

/* "lineno"…; -EINVAL and a line that names the right ones if text is none of them. */
const char *key_type_name(enum key_type key_type);
int key_type_parse(const char *text, enum key_type *ret_key_type, struct reason *why);

/* May it be cumulative? Where a key is no frame, a block has one key. */
bool key_type_has_cumulative(enum key_type key_type);

/* What is added up. Append only. */
enum measure {
	MEASURE_LIVE = 0, /* the blocks that are there: tracemalloc's */
	/* All blocks since the recording began, by traceback: selections of blocks do not apply. */
	MEASURE_ALLOCATED, /* what was allocated */
	MEASURE_TEMPORARY, /* what was freed before its thread allocated again */
	MEASURE_NR,
};

/* "live"…; -EINVAL and a line that names the right ones if text is none of them. */
const char *measure_name(enum measure measure);
int measure_parse(const char *text, enum measure *ret_measure, struct reason *why);

/* Blocks and their bytes; closed under + and −. */
struct cost {
	int64_t size; /* bytes */
	int64_t count;
};

/* One frame of a traceback. NULL or 0 where not known. Strings live in the snapshots. */
struct frame_view {
	const char *filename; /* never NULL; "<unknown>" without a traceback */
	uint32_t lineno;
	const char *function;
	const char *object;
	uint64_t offset; /* in object, of the return address; an address where object is NULL */
};

/*
 * tracemalloc's Traceback: the frames of a traceback id, oldest first, all of them (wrappers,
 * too), in an array that the caller frees with free(). *ret_total_nframe is 0 where it is not
 * known. 0 or -ENOMEM.
 */
int traceback_read(const struct snapshot *snapshot, uint32_t traceback,
		   struct frame_view **ret_frame, uint32_t *ret_nframe,
		   uint32_t *ret_total_nframe);

/* Both ends are in it. */
struct interval {
	int64_t low, high;
};

/*
 * How far to trust what was estimated. In 95 of 100 recordings of the same the intervals hold what a
 * recording of every block would have had, from some 30 samples on; with fewer it may be in fewer. It
 * is never less than the samples themselves add up to, and is the number itself where nothing was
 * left to chance. In a diff a block that is in both snapshots is the same sample in both: it adds
 * nothing to the error of the difference.
 */
struct estimate {
	uint64_t samples;     /* traces that the group has, each once; of a diff, in the new snapshot */
	uint64_t old_samples; /* and in the old one */
	struct interval size, count;
	struct interval size_diff, count_diff; /* of a diff */
};

/*
 * One group. For key_type filename and lineno its traceback is one frame, for traceback all of
 * them, oldest first (tracemalloc's order). For the other key types it is empty, and the group
 * is `key`. diff is new − old; for statistics() it is 0.
 */
struct statistic {
	const struct frame_view *frame;
	uint32_t nframe;
	struct cost cost;
	struct cost diff;
	const char *key; /* NULL for tracemalloc's key types */
	const struct estimate *estimate; /* NULL: see struct statistics */
};

struct statistics {
	enum key_type key_type;
	enum measure measure;
	bool cumulative;
	bool is_diff;
	struct statistic *statistic; /* sorted, most important first */
	size_t statistic_nr;
	struct cost total; /* of the traces that took part, each once */
	struct cost total_diff;
	/*
	 * Also of every statistic. NULL where neither snapshot has weights, and for a measure that is not
	 * by block: that was estimated while it was recorded, and nobody knows how well.
	 */
	const struct estimate *total_estimate;
};

/* ---- filters ------------------------------------------------------------------------------ */

/*
 * tracemalloc's Filter and DomainFilter, with function and object. All that is asked of a frame
 * must hold for the same frame: the most recent one or, with all_frames, any. inclusive: keeps the
 * traces that match; otherwise keeps the others. A filter that asks nothing of frames is a
 * DomainFilter. Of several, the inclusive ones are or-ed, and each exclusive one can veto.
 */
struct filter {
	bool inclusive;
	bool all_frames;
	bool has_lineno;
	bool has_domain;
	uint32_t domain;
	const char *domain_name;      /* NULL: domain says it; else what the snapshot calls it */
	uint64_t lineno;	      /* 0 is a line like any other */
	const char *filename_pattern; /* NULL: any; ".pyc" is read as ".py", on both sides */
	const char *function_pattern; /* NULL: any; a function that is not known is "<unknown>" */
	const char *object_pattern;   /* NULL: any; the path, "<unknown>" where there is none */
	char *owned;		      /* of filter_parse(): what the patterns point into */
};

/*
 * A filter from the command line: PATTERN[:LINENO], or KEY=VALUE,… of the keys file, line, domain,
 * function and object and the bare word all-frames. A domain is a number, or begins with a letter: a
 * name, and a snapshot that has none of that name is -ENODATA for who asks. A comma separates only where all-frames or
 * a known KEY= follows; after file= (function=, object=) the rest is the pattern, colon included;
 * PATTERN:LINENO only where digits end it. 0, -ENOMEM, or -EINVAL with a line that says what is
 * right. Ends with filter_release().
 */
int filter_parse(const char *spec, bool inclusive, struct filter *ret, struct reason *why);
void filter_release(struct filter *filter);

/* Which traces take part. Zero is the default: all of them. */
struct selection {
	const struct filter *filter;
	size_t filter_nr;
	/* and then */
	uint64_t min_size; /* bytes, inclusive, both */
	uint64_t max_size;
	bool has_max_size;
	uint64_t min_age_ns; /* ages count from the snapshot's time; inclusive, both; 0: not asked */
	uint64_t max_age_ns;
	uint32_t thread;     /* TID; 0: any */
	/*
	 * None that lived through a gap in the recording: they may be gone. In a diff of one process, from
	 * neither snapshot what lived through a gap of either: it would seem to come or go with the gap.
	 */
	bool no_gap_blocks;
};

/* tracemalloc's order is SORT_ABS; the others are for diffs. Append only. */
enum sort_order {
	SORT_ABS = 0,
	SORT_GROWTH, /* size_diff, the biggest growth first; then count_diff, size, count, key */
	SORT_SHRINK, /* size_diff, the biggest loss first; then count_diff alike, and the same */
	SORT_ORDER_NR,
};

/* "abs"…; -EINVAL and a line that names the right ones if text is none of them. */
int sort_order_parse(const char *text, enum sort_order *ret_order, struct reason *why);

/* ---- questions ---------------------------------------------------------------------------- */

/* Zero is the default. */
struct engine_options {
	enum key_type key_type;
	bool cumulative;	 /* add a trace to all frames of its traceback */
	bool keep_wrappers;	 /* and then `skip` is ignored */
	const char *const *skip; /* patterns on function names: further wrappers */
	size_t skip_nr;
	struct selection select;
	enum measure measure;
	enum sort_order sort;	 /* of snapshot_compare() */
	/*
	 * What frames are called in keys: of each frame id of the snapshot (or of both, the same) the frame
	 * id whose names it has. Filters and wrappers see it as it is. NULL: itself.
	 */
	const uint32_t *key_frame;
};

/*
 * Whether the options can be meant together: 0, or -EINVAL with a line in *why. The questions
 * below check it, too.
 */
int engine_options_check(const struct engine_options *options, struct reason *why);

/*
 * Sorted by size, count, traceback (or key), all descending. 0, -ENOMEM, -EINVAL (cumulative
 * with a key type that has none; a measure that is not by block with a domain, size, age or
 * thread), -ENODATA (what is asked for was not recorded), -ERANGE (sizes that add up to 2^63 bytes or more, or
 * estimates that do), with a line in *why. The snapshot must outlive the result, the options need not. Ends with statistics_free().
 */
int snapshot_statistics(const struct snapshot *snapshot, const struct engine_options *options,
			struct statistics **ret, struct reason *why);

/*
 * new compared to old: all groups of both, zero differences included. Sorted by |size_diff|,
 * size, |count_diff|, count, traceback (or key), all descending. Errors as above.
 */
int snapshot_compare(const struct snapshot *old_snapshot, const struct snapshot *new_snapshot,
		     const struct engine_options *options, struct statistics **ret,
		     struct reason *why);

void statistics_free(struct statistics *statistics);

/*
 * The blocks among those that options->select chooses that lived through a gap in the recording, as
 * a cost, estimated where there are weights: nobody saw whether they were freed in it. Errors as above.
 */
int snapshot_gap_blocks(const struct snapshot *snapshot, const struct engine_options *options,
			struct cost *ret, struct reason *why);

/*
 * A snapshot of the traces that options->select chooses; of the other options only those about
 * wrappers count. Its metadata "filters" says that it is a part, if it may be; set it (with
 * snapshot__set_metadata()) to something that says which. -ENOMEM, -ENODATA, or -EOVERFLOW (it has
 * no room for that), with a line in *why.
 */
int snapshot_filter_traces(const struct snapshot *snapshot, const struct engine_options *options,
			   struct snapshot **ret, struct reason *why);

#endif
