/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_H
#define ALLOCSNAP_ENGINE_H

/*
 * The engine: tracemalloc's Snapshot.statistics(), compare_to() and filter_traces() (CPython 3.11, Lib/tracemalloc.py)
 * for snapshots of native programs. It does no I/O, has no globals, and only reads the snapshots.
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
 * Frames. Two frames are equal if their filename and lineno are equal. If lineno is 0 (no line information), function,
 * object and offset count, too, so that a stripped library is not one big row. For key_type "filename" a group is the
 * filename alone. Equal frames may disagree about other fields (the function of a line in a C++ template, the offset of
 * two calls in one line). Such a field of their group is unknown: NULL or 0. Functions that differ only in template
 * arguments or parameters stay known by what they share (has_variants).
 *
 * Own frames. A traceback starts at the first frame that is the program's own: leading frames of an allocator, of
 * operator new, of a library that works for its caller (std::, Rust's alloc::, the C library: src/engine/wrappers.c),
 * and leading frames that match a `skip` pattern are passed over. `project` makes it start at the first frame of the
 * project, if it has one. A traceback of nothing else starts after the allocator, or stays whole. All questions follow
 * this: statistics, cumulative ones, filters, sums over a fleet. Frames of Python's tracemalloc have neither function
 * nor object, so only a `skip` or `project` pattern on files passes over them.
 *
 * Tracebacks are equal if their frames are equal and have the same functions. With `tracemalloc` functions do not
 * count, and every traceback starts at its most recent frame.
 *
 * A trace without a traceback belongs to tracemalloc's frame "<unknown>", line 0.
 *
 * Samples. If a snapshot has weights, sizes and counts are Horvitz-Thompson estimates: rounded sums of size * weight
 * and of weight, each with an interval. Without weights, or if all weights are 1, they equal tracemalloc's to the
 * last byte.
 *
 * Patterns match as in Python's fnmatch, not as in fnmatch(3): `*` crosses `/`, `[!x]` negates, `[^x]` does not, and
 * there are no escapes. `?` and `[…]` match code points (a byte that is not UTF-8 counts as one).
 *
 * A pattern on functions is compared with the qualified name, without return type, parameters and template arguments
 * ("shop::Cache::put"). A pattern with '<' is compared with the name that has template arguments, a pattern with '('
 * also with the whole name (src/engine/function_name.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reason.h"

struct snapshot;

/* Append only: the rows of keys.c have the same order. */
enum key_type {
	KEY_LINENO = 0, /* the default of the command line */
	KEY_FILENAME,
	KEY_TRACEBACK,
	/* tracemalloc does not have these; their key is a text. */
	KEY_FUNCTION,
	KEY_OBJECT,
	KEY_DOMAIN,
	KEY_PROCESS,
	KEY_SIZE_CLASS,
	KEY_AGE,
	KEY_THREAD,
	KEY_TYPE_NR,
};

/* Names: "lineno"… The parser returns -EINVAL for another text, with a line that lists the valid names. */
const char *key_type_name(enum key_type key_type);
int key_type_parse(const char *text, enum key_type *ret_key_type, struct reason *why);

/* Whether statistics may be cumulative. If the key is not a frame, a block has one key only. */
bool key_type_has_cumulative(enum key_type key_type);

/* The quantity that is added up. Append only. */
enum measure {
	MEASURE_LIVE = 0, /* the live blocks, as in tracemalloc */
	/* The next two count all blocks since the recording began, by traceback. Selections of blocks do not apply. */
	MEASURE_ALLOCATED, /* allocated blocks */
	MEASURE_TEMPORARY, /* blocks freed before their thread allocated again */
	MEASURE_NR,
};

/* Names: "live"… The parser returns -EINVAL for another text, with a line that lists the valid names. */
const char *measure_name(enum measure measure);
int measure_parse(const char *text, enum measure *ret_measure, struct reason *why);

/* A number of blocks and their bytes, or a difference of two such costs. */
struct cost {
	int64_t size; /* bytes */
	int64_t count;
};

/* One frame of a traceback. Unknown fields are NULL or 0. The snapshots own the strings. */
struct frame_view {
	const char *filename; /* never NULL; "<unknown>" if there is no traceback */
	uint32_t lineno;
	bool has_variants; /* function is one of several, which differ in template arguments or parameters */
	bool is_inlined; /* into the next older frame */
	bool is_library; /* works for its caller, or starts the program; only of the callers of a leak */
	const char *function;
	const char *object;
	const char *build_id; /* of object */
	uint64_t offset; /* of the return address in object; if object is NULL, the address */
};

/*
 * tracemalloc's Traceback: all frames of a traceback id, wrappers included, oldest first. The caller frees the array
 * with free(). *ret_total_nframe is 0 if it is not known. Returns 0 or -ENOMEM.
 */
int traceback_read(const struct snapshot *snapshot, uint32_t traceback,
		   struct frame_view **ret_frame, uint32_t *ret_nframe,
		   uint32_t *ret_total_nframe);

/* Both ends belong to the interval. */
struct interval {
	int64_t low, high;
};

/*
 * The accuracy of an estimate. From about 30 samples on, the intervals of 95 in 100 sampled recordings contain the
 * value that a recording of every block would have. With fewer samples they may contain it less often. The low end is
 * never less than the sum of the samples themselves. If no block was left to chance, the interval is the number
 * itself. In a diff a block that is in both snapshots is the same sample in both, and adds nothing to the error of
 * the difference.
 *
 * The number of blocks depends on the smallest ones, of which hardly one is a sample. Fewer than 20 samples of blocks of
 * different sizes, or than 4 of one size, do not show how far off it may be, so the number has no interval.
 *
 * A recording with gaps has no intervals, unless blocks that lived through a gap are left out: what was allocated in a
 * gap is in no sample, and no interval covers it. Pools of CPython, as samples, have none: they are not chosen by chance.
 */
struct estimate {
	uint64_t samples;     /* traces of the group, each once; in a diff, only the new snapshot's */
	uint64_t old_samples; /* in a diff, the old snapshot's traces */
	bool has_intervals;   /* if not, those below are 0 */
	bool has_count, has_count_diff; /* if not, that interval is 0 */
	struct interval size, count;
	struct interval size_diff, count_diff; /* for a diff */
};

/*
 * The name that all variants of a function share: without return type, parameters and template arguments. The caller
 * frees it. NULL: no memory.
 */
char *function_base_name(const char *function);

/*
 * One group. For the key types filename and lineno its traceback is one frame. For the key type traceback it has all
 * frames, oldest first (tracemalloc's order). For other key types the traceback is empty, and `key` names the group.
 * diff is new − old; for statistics() it is 0.
 */
struct statistic {
	const struct frame_view *frame;
	uint32_t nframe;
	struct cost cost;
	struct cost diff;
	const char *key; /* NULL for the key types of tracemalloc */
	const struct estimate *estimate; /* NULL: see struct statistics */
	/*
	 * The frame that names the group in a text. Of a traceback of native code that is its own line, the most recent
	 * frame; of Python's tracebacks, and with `tracemalloc`, the oldest frame. NULL: the oldest.
	 */
	const struct frame_view *head;
};

struct statistics {
	enum key_type key_type;
	enum measure measure;
	bool cumulative;
	bool is_diff;
	struct statistic *statistic; /* sorted, most important first */
	size_t statistic_nr;
	struct cost total; /* all traces that took part, each once */
	struct cost total_diff;
	/*
	 * NULL if no snapshot has weights, and for a measure that is not by block: such a measure was estimated
	 * during the recording, and its accuracy is unknown. The same holds for `estimate` of each statistic.
	 */
	const struct estimate *total_estimate;
};

/* ---- filters ------------------------------------------------------------------------------ */

/*
 * tracemalloc's Filter and DomainFilter, with function and object. All conditions on frames must hold for the same
 * frame: the most recent one or, with all_frames, any. An inclusive filter keeps the traces that match; any other
 * filter keeps the traces that do not match. A filter without conditions on frames is a DomainFilter. With several
 * filters a trace must match at least one inclusive filter, if there are any, and no exclusive one.
 */
struct filter {
	bool inclusive;
	bool all_frames;
	bool has_lineno;
	bool has_domain;
	uint32_t domain;
	const char *domain_name;      /* the snapshot's name of the domain; NULL: use `domain` */
	uint64_t lineno;	      /* 0 has no special meaning */
	const char *filename_pattern; /* NULL: any; ".pyc" counts as ".py", in pattern and filename */
	const char *function_pattern; /* NULL: any; an unknown function is "<unknown>" */
	const char *object_pattern;   /* NULL: any; compared with the path, or "<unknown>" */
	const char *any_pattern;      /* NULL: any; matches the filename, the function or the object */
	char *owned;		      /* memory from filter_parse() that the patterns point into */
};

/*
 * Parses a filter of the command line: PATTERN[:LINENO], or KEY=VALUE,… with the keys file, line, domain, function and
 * object, and the bare word all-frames. A domain is a number or a name that begins with a letter. A question to a
 * snapshot without a domain of that name fails with -ENODATA. A comma separates only before all-frames or a known KEY=.
 * After file= (function=, object=) the rest is the pattern, colon included. PATTERN:LINENO needs digits at the end.
 * Returns 0, -ENOMEM, or -EINVAL with a line that shows the correct form. Release with filter_release().
 */
int filter_parse(const char *spec, bool inclusive, struct filter *ret, struct reason *why);
void filter_release(struct filter *filter);

/* Chooses the traces that take part. Zero is the default: all traces. */
struct selection {
	const struct filter *filter;
	size_t filter_nr;
	/* These apply after the filters. */
	uint64_t min_size; /* bytes; both limits are inclusive */
	uint64_t max_size;
	bool has_max_size;
	uint64_t min_age_ns; /* age at the time of the snapshot; both limits are inclusive; 0: no limit */
	uint64_t max_age_ns;
	uint32_t thread;     /* TID; 0: any */
	/*
	 * Leaves out blocks that lived through a gap in the recording, because they may be gone. In a diff of one
	 * process this applies to both snapshots and the gaps of both. Otherwise such a block would seem to come
	 * or go with the gap.
	 */
	bool no_gap_blocks;
};

/* tracemalloc's order is SORT_ABS; the others are for diffs. Append only. */
enum sort_order {
	SORT_ABS = 0,
	SORT_GROWTH, /* size_diff, biggest growth first; then count_diff, size, count, key */
	SORT_SHRINK, /* size_diff and then count_diff, biggest loss first; then size, count, key */
	SORT_ORDER_NR,
};

/* Names: "abs"… It returns -EINVAL for another text, with a line that lists the valid names. */
const char *sort_order_name(enum sort_order order);
int sort_order_parse(const char *text, enum sort_order *ret_order, struct reason *why);

/* ---- questions ---------------------------------------------------------------------------- */

/* Zero is the default. */
struct engine_options {
	enum key_type key_type;
	bool cumulative;	 /* add a trace to all frames of its traceback */
	bool keep_wrappers; /* start at the most recent frame; `skip` and `project` are ignored then */
	bool tracemalloc;   /* the same, and groups by traceback are equal and named as in tracemalloc */
	/*
	 * Patterns on functions: frames to pass over. A pattern with '/' is also compared with the frame's source file
	 * and object and with the folders that they are in; a pattern with '.' with their last parts.
	 */
	const char *const *skip;
	size_t skip_nr;
	const char *const *project; /* patterns on source files, objects and their folders: own code */
	size_t project_nr;
	struct selection select;
	enum measure measure;
	enum sort_order sort;	 /* for snapshot_compare() */
	/*
	 * Names of frames in keys: for each frame id of the snapshot (in a diff, of both) the frame id whose names
	 * it gets. Filters and wrappers see the frame itself. NULL: each frame has its own names.
	 */
	const uint32_t *key_frame;
};

/*
 * Checks whether the options make sense together. Returns 0, or -EINVAL with a line in *why. The functions below check
 * it, too.
 */
int engine_options_check(const struct engine_options *options, struct reason *why);

/*
 * Statistics, sorted by size, count, traceback (or key), all descending. Returns 0, or with a line in *why:
 *
 *	-ENOMEM
 *	-EINVAL   cumulative with a key type that does not allow it; a measure that is not by block with a domain,
 *		  size, age or thread
 *	-ENODATA  the requested data was not recorded
 *	-ERANGE   sizes or estimates add up to 2^63 bytes or more
 *
 * The snapshot must outlive the result; the options need not. Release the result with statistics_free().
 */
int snapshot_statistics(const struct snapshot *snapshot, const struct engine_options *options,
			struct statistics **ret, struct reason *why);

/*
 * Compares new with old: all groups of both, zero differences included. By default they are sorted by |size_diff|,
 * size, |count_diff|, count, traceback (or key), all descending. Errors as above.
 */
int snapshot_compare(const struct snapshot *old_snapshot, const struct snapshot *new_snapshot,
		     const struct engine_options *options, struct statistics **ret,
		     struct reason *why);

void statistics_free(struct statistics *statistics);

/*
 * The cost of those blocks chosen by options->select that lived through a gap in the recording: they may have been
 * freed in the gap unseen. With weights the cost is an estimate. Errors as above.
 */
int snapshot_gap_blocks(const struct snapshot *snapshot, const struct engine_options *options,
			struct cost *ret, struct reason *why);

/*
 * A snapshot of the traces that options->select chooses. From the other options it uses only those about wrappers. If
 * the result may be a part, its metadata "filters" says so; set it with snapshot__set_metadata() to a text that names
 * the part. Returns 0, or with a line in *why -ENOMEM, -ENODATA, or -EOVERFLOW (no room for the metadata).
 */
int snapshot_filter_traces(const struct snapshot *snapshot, const struct engine_options *options,
			   struct snapshot **ret, struct reason *why);

/*
 * The time between two snapshots of one process in which nothing was recorded: pauses of a budget, or the time between
 * two recordings. Allocations and frees of that time are missing, so growth between the two cannot be judged. Zeroed:
 * everything was recorded, or the snapshots are of different processes. The order of the two does not matter.
 */
struct unrecorded {
	uint64_t gap_nr;     /* 0 or more, also if ns is above 0: a gap that the first snapshot already has may go on */
	uint64_t ns, of_ns;  /* of the time between the snapshots */
	bool is_other_recording; /* the second snapshot has no block from before its recording began */
};

struct unrecorded snapshots_unrecorded(const struct snapshot *one, const struct snapshot *other);

#endif
