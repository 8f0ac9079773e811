/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_LEAK_ANSWER_H
#define ALLOCSNAP_RENDER_LEAK_ANSWER_H

/* The lines that leak (engine/leak_report.h), as text or JSON. */

#include <stdbool.h>
#include <stdio.h>

#include "engine/leak_report.h"
#include "engine/leak_runtime.h"
#include "render/emitter.h"
#include "render/readable_name.h"

struct leak_answer {
	const struct leaks *leaks;
	const char *unjudged; /* why no verdict, or not every one, is sure; NULL: all are */
	bool is_void;	      /* unjudged says that there are no verdicts at all */
	bool shows_all;	      /* also the lines that do not leak */
	bool is_verbose;      /* with whole tracebacks */
	size_t top;	      /* leaks to show; 0: all */

	/* These two are set by leaks_put(). */
	const struct readable_names *names; /* NULL: names in full */
	unsigned int width;		    /* of the terminal; 0: rows are not cut */
};

/* How many of the bundles are shown. */
size_t leaks_shown(const struct leak_answer *answer);

/* "307 KiB/min" */
#define LEAK_RATE_MAX 64
const char *leak_rate_text(char text[LEAK_RATE_MAX], double bytes_per_s);

/* "307 KiB/min (at least 293 KiB/min)" */
#define LEAK_RATES_MAX (2 * LEAK_RATE_MAX + 16)
const char *leak_rates_text(char text[LEAK_RATES_MAX], double bytes_per_s, double least_bytes_per_s);

/* "leaks", "may-leak", "grows"… */
const char *leak_kind_name(enum leak_kind kind);

/* "LEAKS", "MAY LEAK", "(grows)"…: the first column of a row */
const char *leak_kind_word(enum leak_kind kind);

/* Why no verdict, or not every one, is sure; NULL: all can be judged. Returns text. */
#define LEAK_UNJUDGED_MAX 512
const char *leak_unjudged_text(char text[LEAK_UNJUDGED_MAX], enum leak_unjudged unjudged, const struct leaks *leaks);

/* "94 % of RSS's growth, 29.8 MiB, is in no traced block: " and what it most likely is. Returns text. */
const char *untraced_text(char text[LEAK_UNJUDGED_MAX], const struct untraced_growth *growth);
const char *untraced_words(const struct untraced_growth *growth);

/* Says that no line leaks, and which leaks cannot be seen. For an answer without lines that leak or may. Returns text. */
#define LEAKS_NOTHING_MAX 512
const char *leaks_nothing_text(char text[LEAKS_NOTHING_MAX], const struct leak_blind *blind);

/* "all the time", "since 0:35" */
#define LEAK_SINCE_MAX 48
const char *leak_since_text(char text[LEAK_SINCE_MAX], const struct leak_window *window, uint64_t since_ns);

/*
 * The reasons for a verdict, in one or two sentences. summed: so many tracebacks were judged as one, or 0. The text is
 * not cleaned; the caller frees it. NULL: no memory.
 */
char *leak_reason_text(const struct leak_window *window, const struct leak_verdict *verdict, uint32_t summed);

/* The verdict: its numbers, doubts and reason; as text the reason only, in lines of words, indented. */
void emit_judgement(struct emitter *out, const struct leak_window *window, const struct leak_verdict *verdict,
		    uint32_t summed);

/* "verdict" of a bundle, its rates, "since_ns" */
void emit_leak_bundle(struct emitter *out, const struct leaks *leaks, const struct leak_bundle *bundle);

/* Whether it could be judged, what was observed, growth, numbers of lines and hints. Only JSON. */
void emit_leak_facts(struct emitter *out, const struct leak_answer *answer);

/* "lines": how many lines have each verdict; as text how many leak, or may. */
void emit_leak_kinds(struct emitter *out, const uint32_t kind_nr[LEAK_KIND_NR]);

/*
 * The frames from the oldest to the line that allocates, wrappers left out. The caller frees *ret. Returns 0 or
 * -ENOMEM.
 */
int leak_caller_frames(const struct leaks *leaks, const struct leak_caller *caller, struct frame_view **ret,
		       uint32_t *ret_nframe);

/* "traceback", of the first caller, and if there are several, "callers" */
void emit_leak_place(struct emitter *out, const struct leak_window *window, const struct leak_place *place);

/*
 * The hints for an answer: bits 1 << enum leak_runtime for the runtimes that call what leaks, of the rows that are
 * shown, and other bits if Python's small objects are missing, or the heap of a Python.
 */
unsigned int leak_answer_hints(const struct leak_answer *answer);

/* "hints", a line for each bit: how to get what is missing. Nothing if no bit is set. */
void emit_leak_hints(struct emitter *out, unsigned int hints);

/* Returns 0, or the negative errno of the write. */
int leaks_put(FILE *file, const struct leak_answer *answer, bool is_json);

/* ---- a row of text ---- */

/*
 * A leak as text: a row with verdict, rate and place, and below it the lines that leak together, the callers and the
 * reasons. `leaks` prints the leaks of one process so, `fleet leaks` the leaks of many.
 */
struct leak_row_line {
	const struct frame_view *own;	/* its name; NULL: its place has it */
	const struct leak_place *place; /* NULL: its callers are not known */
	const struct leak_verdict *verdict;
	uint32_t summed; /* so many tracebacks were judged as one, or 0 */
	double bytes_per_s;
};

struct leak_row {
	enum leak_kind kind;
	double bytes_per_s, least_bytes_per_s;
	const char *extent; /* behind the rates: "all the time"; NULL: none */
	const char *where;  /* a line below the row; NULL: none */
	const struct frame_view *common; /* if there are several lines: the frame that all have in common; NULL: none */
	const struct leak_window *window; /* of the reasons */
	const struct leak_row_line *line; /* those that leak together, by rate, descending; at least one */
	size_t line_nr;
};

#define LEAK_CALLER_ROWS 5 /* below a line, unless all are shown */

struct leak_row_style {
	const struct readable_names *names; /* NULL: names in full */
	unsigned int width; /* of the terminal; 0: rows are not cut */
	bool has_no_folders; /* of files: the row would be too wide */
	bool is_verbose;    /* with whole tracebacks */
	bool shows_callers; /* all of them */
	const char *more_callers; /* what shows those that are left out: "; -v shows them" */
};

/* Adds the functions of a place. Returns 0 or -ENOMEM. */
int leak_place_add_names(struct readable_names *names, const struct leak_place *place);

void emit_leak_row(struct emitter *out, const struct leak_row_style *style, const struct leak_row *row);

#endif
