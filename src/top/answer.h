/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TOP_ANSWER_H
#define ALLOCSNAP_TOP_ANSWER_H

/*
 * The content of a view of one process: facts about it, a row for each group, and the tracebacks of an opened row.
 * An answer owns its texts: no snapshot needs to be open. Names are not clean; the layout cleans them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "engine/leak_judge.h"

struct snapshot;
struct leaks;
struct reason;

/* The live bytes of a process at a time. */
struct top_moment {
	uint64_t bytes, ns;
};

/* Facts about a process, of a recording that goes on or of a snapshot. Zeroed: nothing is known. */
struct top_process {
	int64_t pid;
	char comm[64];
	uint64_t bytes, blocks, peak_bytes;
	uint64_t rss_bytes; /* 0: not known */
	uint64_t cpu_ns, cost_ns, recorded_ns;
	uint64_t lost;
	bool cost_is_known, is_estimated, is_paused, is_thinned, has_ended;
	bool is_brief; /* of a list of files: blocks, losses and costs are not known */
	bool has_rate;
	double bytes_per_s; /* growth of live bytes */
	struct top_moment older, newer; /* what growth is measured from: half a minute to a minute ago */
	char *place; /* files: the folder or file of its snapshots; the owner of the list frees it */
};

struct top_row {
	char *name;	 /* as in text */
	size_t tail_at;	 /* where the text behind the function begins */
	char *identity;	 /* tells rows of an answer apart, also from one answer to the next */
	struct cost cost, diff;
	uint64_t error_bytes; /* of an estimate; 0: exact, or not known: gaps, pools */
	enum leak_kind kind;  /* LEAK_KIND_NR: not judged, or innocent */
	double leak_bytes_per_s, sure_bytes_per_s; /* of lines that leak or may leak; of those that leak */
	char *reason; /* of the verdict; NULL: none */
};

struct top_answer {
	enum key_type key_type;
	struct top_process process;
	uint64_t now_ns;   /* when the snapshot was taken, CLOCK_MONOTONIC; 0: not known */
	char *host, *time; /* of the snapshot */
	char *rate;	   /* "one in 512 KiB"; NULL: every block */
	char *losses, *gaps, *unjudged_growth; /* NULL: none */
	struct top_row *row; /* by size, descending */
	size_t row_nr, row_alloc;
	struct cost total, total_diff;
	bool has_errors; /* of the rows: estimates, whose errors are known */
	uint64_t window_ns; /* of diff; 0: there is no older snapshot */
	bool is_judged;
	uint64_t judged_ns; /* the time observed */
	uint32_t sure_nr, likely_nr; /* lines */
	char *unjudged; /* why verdicts are missing or not sure; NULL: they are sure */
	char *opened;	/* identity of the opened row; NULL: none */
	char **line;	/* its tracebacks */
	size_t line_nr, line_alloc;
};

struct top_question {
	const struct engine_options *engine; /* filters, own frames */
	enum key_type key_type;
	const char *open; /* identity of the row whose tracebacks are asked for; NULL: none */
};

/*
 * Makes the answer about `newest`, with growth since `base` (NULL: none). Returns 0, or an error of the engine with a
 * line in *why. top_answer_free() frees *ret.
 */
int top_answer_make(const struct top_question *question, const struct snapshot *base, const struct snapshot *newest,
		    struct top_answer **ret, struct reason *why);

/* Marks the rows of lines that leak, or may leak. Returns 0 or -ENOMEM. */
int top_answer_judge(struct top_answer *answer, const struct leaks *leaks);

/* NULL is allowed. */
void top_answer_free(struct top_answer *answer);

/* Adds the tracebacks of the row `question->open`. Returns 0, or an error with a line in *why. */
int top_answer_open(struct top_answer *answer, const struct top_question *question, const struct snapshot *newest,
		    struct reason *why);

#endif
