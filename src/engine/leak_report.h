/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_LEAK_REPORT_H
#define ALLOCSNAP_ENGINE_LEAK_REPORT_H

/*
 * Which lines of a program leak. Each site, a traceback and a domain, is judged by itself (leak_judge.h), then shown by
 * the line that statistics would show, and below it by that line's callers. Sites of one line that have too few blocks
 * each are added up and judged once more. Lines whose survivors were born at the same times are one leak of several
 * blocks, and shown as a bundle.
 */

#include <stdbool.h>
#include <stddef.h>

#include "engine.h"
#include "engine/leak_judge.h"
#include "engine/leak_tally.h"

struct snapshot;

/* The snapshots of one recording. Each is opened and closed in turn, but the last stays open. */
struct leak_recording {
	struct leak_times times;
	/* Opens snapshot number `at`. NULL with a line in *why: it failed. */
	struct snapshot *(*open)(void *what, uint32_t at, struct reason *why);
	void *what;
};

/* Sites that allocate by the same line, called from the same place, with the same verdict. */
struct leak_caller {
	struct leak_verdict verdict; /* their sum; since_ns: the first */
	uint32_t traceback; /* of the site that leaks most, in the last snapshot */
	uint32_t skipped;   /* its most recent frames that are wrappers */
	uint32_t domain;
	uint32_t site_nr;
};

/* Sites of one line that have the same verdict. */
struct leak_line {
	struct leak_verdict verdict; /* their sum */
	uint32_t line;		   /* small number of the line */
	size_t first, caller_nr; /* in leaks->caller, by rate, descending; at least one */
	uint32_t site_nr;
	bool is_summed;	     /* no site has enough blocks by itself */
	uint64_t sixteenth[16]; /* when survivors were born, of the time observed */
	double growth_bytes;	/* of live bytes, from the first snapshot to the last */
};

/* Lines that leak together, or a single one. */
struct leak_bundle {
	size_t first, nr; /* in leaks->line, by rate, descending */
	double bytes_per_s, least_bytes_per_s;
	uint64_t since_ns;
	/* If nr > 1: the most recent frame that all have in common, as index from the oldest; UINT32_MAX: none */
	uint32_t caller;
};

/* The live bytes at the end of a time, less those at its beginning. */
struct live_growth {
	uint64_t time_ns;
	double block_bytes;
	double mapped_bytes; /* of mappings: address space, of which the program may touch only a part */
	double missed_bytes; /* of a sampled recording: so much more may be, with 95 % confidence; 0: nothing */
};

struct leaks {
	struct snapshot *last;
	uint8_t *frame_role; /* of its frames (engine/trace_source.h), where callers have them */
	struct leak_window window; /* without its arrays */
	struct leak_line *line;	   /* all, also those that do not leak */
	size_t line_nr, line_alloc;
	struct leak_caller *caller;
	size_t caller_nr, caller_alloc;
	struct leak_bundle *bundle; /* by leak_rank(), then by rate, descending */
	size_t bundle_nr;
	uint32_t kind_nr[LEAK_KIND_NR]; /* lines of each kind */
	struct live_growth growth;     /* from the first to the last snapshot */
	struct live_growth rss_growth; /* from the first to the last one that knows its RSS; time_ns 0: there are no two */
	double rss_bytes, files_bytes; /* by which RSS grew in that time; of these, mapped files and shared memory; 0: not known */
	uint64_t block_nr, unborn; /* rows of the last snapshot; those whose birth is not known */
};

/* The leaks that a recording cannot show. */
struct leak_blind {
	uint64_t span_ns;
	uint64_t sample_bytes;	 /* 0: every block was recorded */
	const char *unseen_heap; /* what is not recorded; NULL: nothing is known */
};

struct leak_blind leaks_find_blind(const struct leaks *leaks);

/* Why not every verdict about a recording is sure. */
enum leak_unjudged {
	LEAK_JUDGED,
	LEAK_UNJUDGED_DROPPED,	 /* blocks found no room: there are no verdicts at all */
	LEAK_UNJUDGED_UNBORN,	 /* births are not known: there are no verdicts at all */
	LEAK_UNJUDGED_DOUBTED,	 /* the process's own sampler is wrong (told_samples.h): there are no verdicts at all */
	LEAK_UNJUDGED_UNCOLLECTED,	 /* Java has collected its whole heap too seldom: there are no verdicts at all */
	LEAK_UNJUDGED_GAPS,	 /* frees in gaps were missed: what is sure in spite of it is shown */
	LEAK_UNJUDGED_UNTRACED,	 /* most growth of RSS is in no traced block; the rest is judged */
	LEAK_UNJUDGED_SAMPLES,	 /* most growth of RSS is in no sample, but there are too few to say that it is not traced */
	LEAK_UNJUDGED_SNAPSHOTS, /* too few of them: births alone make at most LEAK_LIKELY */
	LEAK_UNJUDGED_PAGES,	 /* resident pages show what grew, and not who keeps it */
	LEAK_UNJUDGED_GARBAGE,	 /* Go has hardly collected garbage: what may be some is not judged */
	LEAK_UNJUDGED_NR,
};

/* How often Go has collected garbage since the recording began, as far as its profile shows. */
uint64_t leaks_collection_nr(const struct leaks *leaks);

enum leak_unjudged leaks_find_unjudged(const struct leaks *leaks);
bool leak_unjudged_is_void(enum leak_unjudged unjudged);

/*
 * Judges a recording. Of the options it uses filters, which choose tracebacks, and those about wrappers. Returns 0,
 * -ENOMEM, -ENODATA with a line in *why (no births; a filter's domain is not there), or the error of open().
 */
int leaks_find(const struct leak_recording *recording, const struct engine_options *options, struct leaks **ret,
	       struct reason *why);

/* The caller from which most of a line's leak comes. */
const struct leak_caller *leak_line_caller(const struct leaks *leaks, const struct leak_line *line);

/* Adds the verdict about other sites of a line, in the same process or in another one. */
void leak_verdict_add(struct leak_verdict *sum, const struct leak_verdict *verdict);

/* NULL is allowed. */
void leaks_free(struct leaks *leaks);

/* The rates of lines that surely leak, and the least rates of those that may. Of pools no least is known: their rate counts. */double leaks_limited_rate(const struct leaks *leaks);

/* By how many bytes these lines grew from the first to the last snapshot: measured, so it holds for late leaks, too. */
double leaks_sure_growth(const struct leaks *leaks);

/* Which snapshots of a recording are judged for leaks, and from when on. */

/* More snapshots are no better, and cost time. */
#define LEAK_SNAPSHOTS 12

struct leak_moment {
	uint64_t now_ns; /* of CLOCK_MONOTONIC; 0: not known */
	uint64_t clears; /* how often traces had been cleared */
};

/* The time of a recording, and the part of it that is wanted. */
struct leak_span {
	uint64_t begin_ns; /* when it began; UINT64_MAX: not known */
	uint64_t last_ns;  /* only the end of it is wanted; 0: all of it */
};

/*
 * Chooses among the moments of a recording, which are in the order of time: none from before traces were cleared,
 * each time once, and at most LEAK_SNAPSHOTS of them, as evenly in time as they are there. Sets keep[] for each, and
 * the beginning of what is observed in *ret. Returns how many were chosen; 0: their times are not known.
 */
size_t leak_moments_choose(const struct leak_moment *moment, size_t nr, const struct leak_span *span, bool *keep,
			   struct leak_times *ret);

/* Where a line that leaks is called from: the tracebacks of a line (engine/leak_report.h), as frames with names. */

struct leak_place_caller {
	struct leak_verdict verdict;
	uint32_t domain, site_nr;
	struct frame_view *frame; /* from the oldest to the line that allocates, wrappers left out */
	uint32_t nframe;	  /* 0: not known */
	struct frame_view *class; /* whose function is the class of a Java object; NULL */
};

struct leak_place {
	struct leak_place_caller *caller; /* by rate, descending */
	size_t caller_nr;
	size_t all_nr; /* callers that the line has; at least caller_nr */
	char *strings; /* memory of the names, if they are the place's own */
};

/*
 * Reads the first `most` callers of a line. Their names are the snapshot's, which must stay open, unless
 * leak_place_own_names() copies them. Return 0 or -ENOMEM. leak_place_release() ends a place, also after an error.
 */
int leak_place_read(const struct leaks *leaks, const struct leak_line *line, size_t most, struct leak_place *ret);
int leak_place_own_names(struct leak_place *place);
void leak_place_release(struct leak_place *place);

/* Number of frames from the oldest frame, of the first caller; NULL: there is no such frame, or UINT32_MAX. */
const struct frame_view *leak_place_frame(const struct leak_place *place, uint32_t at);

#endif
