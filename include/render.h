/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_H
#define ALLOCSNAP_RENDER_H

/*
 * Renders statistics as text, JSON, folded stacks or pprof, and the facts of a snapshot as text or
 * JSON. A renderer is a row of a table: commands name a format and do not know how it is made. All data from a process
 * is cleaned on output (control characters and bytes that are not UTF-8 become \xNN). Rows of text are cut to the width
 * if they go to a terminal; nothing else is cut.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine.h"
#include "reason.h"

/* Processes that a fleet report leaves out. */
struct report_left_out {
	uint32_t processes;
	double bytes; /* in their last snapshots */
	uint64_t least_age_ns, most_age_ns; /* how much older these are than the newest snapshots of their hosts */
};

/* The numbers of snapshots, processes and hosts that a fleet report adds up. */
struct report_cohort {
	uint32_t snapshots, processes, hosts;
	uint32_t sampled; /* how many of the snapshots are sampled */
	uint64_t age_ns; /* how much older the oldest is than the newest, if there is one of each process; otherwise 0 */
	struct report_left_out ended, unseen; /* known to have ended; only not seen again */
};

struct report_loss {
	const char *name;
	uint64_t value;
};

struct report {
	const struct statistics *statistics;
	const struct snapshot *const *snapshot; /* the source of the statistics: [new] or [old, new] */
	size_t snapshot_nr;
	const char *unjudged; /* a diff: why growth cannot be judged, the first line of the text; NULL: it can */
	const char *const *warning; /* each is one line */
	size_t warning_nr;
	struct cost gap_blocks[2];  /* for each snapshot: snapshot_gap_blocks() */
	size_t top;		    /* rows to show; 0: all */
	bool oldest_first;	    /* order of the frames in a text traceback */
	bool has_domain_filter;	    /* the report is of some domains */
	const char *source_dir;	    /* folder of the source lines below text frames; NULL: no source lines */
	/*
	 * The question that the statistics answer; NULL: not known. pprof and DHAT then also have what was allocated, and
	 * pprof domain and thread of each block.
	 */
	const struct engine_options *engine;
	/*
	 * Text has functions as JSON has them, with parameters and all template arguments, and its rows are not cut to
	 * the width of a terminal.
	 */
	bool full_names;
	unsigned int width;		    /* these two are set by the renderers of text */
	const struct readable_names *names;

	/*
	 * For sums over many snapshots: one cohort, or [baseline, candidate], and the losses of all snapshots.
	 * `snapshot` then gives the places of the blocks. For other reports NULL and 0.
	 */
	const struct report_cohort *cohort;
	size_t cohort_nr;
	const struct report_loss *loss;
	size_t loss_nr;
	bool has_process_means;	 /* a diff also has the averages per process */
	bool is_by_process_mean; /* the diff is sorted by the averages per process */
};

struct renderer {
	const char *name; /* value of --format */
	const char *help; /* one line */
	size_t top;	  /* default of --top; a flame graph must not be cut */
	enum key_type key_type; /* default of --group-by */
	/* Returns 0 or a negative errno (full disk, closed pipe). */
	int (*report)(FILE *out, const struct report *report);
	/* For `show`; NULL if the format does not support it. */
	int (*show)(FILE *out, const struct snapshot *snapshot);
	/* For `show --address`: trace number `at`. full_names: as in struct report. NULL as for show. */
	int (*block)(FILE *out, const struct snapshot *snapshot, uint64_t at, bool full_names);
	const char *suffix; /* of names of files in this format, for `convert`; NULL: it does not write the format */
	bool is_binary;	    /* not for a terminal */
	bool has_no_diff;   /* it has no negative numbers: a diff takes a file of each snapshot */
};

/* Returns NULL if there is no such format, with a line in *why that names the valid formats. */
const struct renderer *renderer_find(const char *name, struct reason *why);

/* The table, for help texts. */
const struct renderer *renderer_table(size_t *ret_nr);

/* ---- tracemalloc's texts ------------------------------------------------------------------ */

/* Enough room for any text of size_text(). */
#define SIZE_TEXT_MAX 48

/* tracemalloc's _format_size(): "66 B", "4.9 KiB", with_sign "+5000 B". Returns text. */
const char *size_text(char text[SIZE_TEXT_MAX], double bytes, bool with_sign);

/*
 * tracemalloc's str(Statistic), or str(StatisticDiff) if is_diff. statistic->head names a traceback; the key names any
 * other group. An estimated number is followed by its possible error: "size=66.0 KiB ±12.1 KiB, count=132 ±24,
 * average=512 B". A frame without a line is named by its function or place. The text is not cleaned; the caller frees
 * it. NULL: no memory.
 */
char *statistic_text(const struct statistic *statistic, bool is_diff);

/* The arguments of Traceback.format(limit, most_recent_first). Zero is the default. */
struct traceback_format_options {
	bool has_limit;	       /* false: limit=None */
	int64_t limit;	       /* > 0: the last `limit` frames; else frames[:limit] */
	bool most_recent_first;
	const char *source_dir; /* folder of the source files; NULL: no source lines */
};

/*
 * tracemalloc's Traceback.format(): all lines, each ended by a newline; "" for no lines. frame is oldest first. A
 * source line is read only from a regular file below source_dir. The file is found by the frame's filename, or by the
 * rest of it without leading directories. Symbolic links that lead out of source_dir are not followed. Lines with a
 * NUL are not shown. options may be NULL. The text is not cleaned; the caller frees it. NULL: no memory.
 */
char *traceback_format(const struct frame_view *frame, uint32_t nframe,
		       const struct traceback_format_options *options);

/*
 * The losses of a snapshot that are not zero, in one line for stderr without a newline. Returns a string that the
 * caller frees, or NULL: no losses (or no memory: errno ENOMEM).
 */
char *losses_line(const struct snapshot *snapshot);
/* The same for a list. */
char *loss_list_line(const struct report_loss *loss, size_t nr);

/*
 * Writes a line that begins with margin: "traced 66.0 MiB in 1200 blocks, of RSS 80.1 MiB; up to 10.0 MiB older than
 * the recording". Unknown parts are left out. Returns 0 or a negative errno.
 */
int render_traced(FILE *out, const struct snapshot *snapshot, const char *margin);

/*
 * Writes the parts of RSS in lines that begin with margin: "RSS 80.1 MiB = 62.5 MiB traced + 4.0 MiB of heaps not
 * traced + …". Writes nothing if the snapshot does not have them. Returns 0 or a negative errno.
 */
int render_rss(FILE *out, const struct snapshot *snapshot, const char *margin);

/*
 * Writes a line: how RSS changed from one snapshot of a process to another, and which part of that the traced blocks of
 * its heaps explain. Writes nothing if RSS is not known of both, or if the snapshots are of different processes.
 */
int render_rss_diff(FILE *out, const struct snapshot *before, const struct snapshot *after);

#endif
