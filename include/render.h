/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_H
#define ALLOCSNAP_RENDER_H

/*
 * Statistics as text, JSON or folded stacks; a snapshot's own facts as text or JSON. A renderer
 * is a row of a table: commands name a format and never know how it is made. Everything that
 * comes from a process is cleaned on the way out (control characters and bytes that are not
 * UTF-8 show as \xNN), and nothing is cut.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine.h"
#include "reason.h"

/* What was added up of a fleet. */
struct report_cohort {
	uint32_t snapshots, processes, hosts;
	uint32_t sampled; /* of the snapshots */
};

struct report_loss {
	const char *name;
	uint64_t value;
};

struct report {
	const struct statistics *statistics;
	const struct snapshot *const *snapshot; /* that they were made of: [new] or [old, new] */
	size_t snapshot_nr;
	const char *const *warning; /* one line each */
	size_t warning_nr;
	struct cost gap_blocks[2];  /* of each snapshot; snapshot_gap_blocks() */
	size_t top;		    /* rows to show; 0: all */
	bool oldest_first;	    /* order of the frames of a text traceback */
	const char *source_dir;	    /* source lines below the frames of text; NULL: none */

	/*
	 * Of sums over many snapshots: one cohort, or [baseline, candidate], and what all of them lost;
	 * `snapshot` is what says where their blocks are from. Else NULL and 0.
	 */
	const struct report_cohort *cohort;
	size_t cohort_nr;
	const struct report_loss *loss;
	size_t loss_nr;
	bool has_process_means;	 /* a diff also says what one process has on average… */
	bool is_by_process_mean; /* …and is in that order */
};

struct renderer {
	const char *name; /* of --format */
	const char *help; /* one line */
	size_t top;	  /* rows where --top says nothing: a flame graph must not be cut */
	enum key_type key_type; /* where --group-by says nothing */
	/* 0 or a negative errno (a full disk, a closed pipe). */
	int (*report)(FILE *out, const struct report *report);
	/* `show`; NULL where the format has none. */
	int (*show)(FILE *out, const struct snapshot *snapshot);
	/* `show --address`: trace number `at`. NULL like show. */
	int (*block)(FILE *out, const struct snapshot *snapshot, uint64_t at);
};

/* NULL and a line that names the right ones in *why if there is no such format. */
const struct renderer *renderer_find(const char *name, struct reason *why);

/* The table, for help texts. */
const struct renderer *renderer_table(size_t *ret_nr);

/* ---- tracemalloc's texts ------------------------------------------------------------------ */

/* Room for any text of size_text(). */
#define SIZE_TEXT_MAX 48

/* tracemalloc's _format_size(): "66 B", "4.9 KiB", with_sign "+5000 B". Returns text. */
const char *size_text(char text[SIZE_TEXT_MAX], double bytes, bool with_sign);

/*
 * tracemalloc's str(Statistic), str(StatisticDiff) where is_diff: a traceback is named by its
 * oldest frame, a group that is no traceback by its key. Numbers that are estimates have what they may
 * be off behind them: "size=66.0 KiB ±12.1 KiB, count=132 ±24, average=512 B". Not cleaned; the caller frees it; NULL:
 * no memory.
 */
char *statistic_text(const struct statistic *statistic, bool is_diff);

/* Of Traceback.format(limit, most_recent_first). Zero is the default. */
struct traceback_format_options {
	bool has_limit;	       /* limit=None otherwise */
	int64_t limit;	       /* > 0: the last `limit` frames; else frames[:limit] */
	bool most_recent_first;
	const char *source_dir; /* where source lines come from; NULL: there are none */
};

/*
 * tracemalloc's Traceback.format(): the lines, joined by newlines and ended by one; "" where
 * there is none. frame is oldest first. A source line is read only from a regular file below
 * source_dir, found by the frame's filename or by what is left of it after leading directories;
 * symbolic links that lead out are not followed. Lines that hold a NUL are no source. options
 * may be NULL. Not cleaned; the caller frees it; NULL: no memory.
 */
char *traceback_format(const struct frame_view *frame, uint32_t nframe,
		       const struct traceback_format_options *options);

/*
 * The losses of a snapshot in one line for stderr, without its newline: only what is not zero.
 * Returns a string that the caller frees, NULL if there are none (or no memory: errno ENOMEM).
 */
char *losses_line(const struct snapshot *snapshot);
/* The same of a list. */
char *loss_list_line(const struct report_loss *loss, size_t nr);

/*
 * A line "traced 66.0 MiB in 1200 blocks, of RSS 80.1 MiB; up to 10.0 MiB older than the
 * recording"; what is not known is left out. 0 or a negative errno.
 */
int render_traced(FILE *out, const struct snapshot *snapshot);

/*
 * What RSS is made of, in lines that begin with margin: "RSS 80.1 MiB = 62.5 MiB traced + 4.0 MiB of
 * heaps not traced + …"; nothing where the snapshot does not know it. 0 or a negative errno.
 */
int render_rss(FILE *out, const struct snapshot *snapshot, const char *margin);

#endif
