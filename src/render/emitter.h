/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_EMITTER_H
#define ALLOCSNAP_RENDER_EMITTER_H

/*
 * Writes an answer as text or as JSON by one sequence of calls, so that both say the same:
 *
 *	struct emitter out = emit_to(stdout, is_json);
 *
 *	emit_section(&out, "rss", "resident memory");
 *	emit_line(&out, "  total  %s", size_text(…));
 *	emit_uint(&out, "total", facts.total);
 *	emit_end(&out);
 *	err = emit_finish(&out);
 *
 * Calls for text do nothing in JSON, and calls for JSON do nothing in text. The first error is kept, and later calls do
 * nothing: only the end of the answer asks for it. Strings are cleaned (render/clean.h). An unknown value is left out.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/terminal.h"

#define EMIT_DEPTH 16 /* of objects and lists in each other */

struct emitter {
	FILE *file; /* NULL: emit_value_of() takes the JSON */
	bool is_json;
	int err; /* the first one: 0 or a negative errno */
	json_t *open[EMIT_DEPTH]; /* [0] is the whole answer, or a row of the last list of it */
	size_t depth;
	size_t row_nr;
	bool has_rows; /* emit_rows() was called: what is finished is written at once */
};

struct emitter emit_to(FILE *file, bool is_json);

/* Ends the answer and frees what it has. Returns the first error. */
int emit_finish(struct emitter *out);

/* Ends an answer without a file, which is always JSON. The caller drops *ret. Returns the first error. */
int emit_value_of(struct emitter *out, json_t **ret);

/* Keeps an error of the caller, if it is the first one. */
void emit_err(struct emitter *out, int err);

/* ---- text ---- */

/* Whether text is wanted. A function with a result: if (emits_text(out)) emit_err(out, put_row(out->file, …)); */
bool emits_text(const struct emitter *out);

/* As put_line(). */
__attribute__((format(printf, 2, 3))) void emit_line(struct emitter *out, const char *fmt, ...);
__attribute__((format(printf, 3, 4))) void emit_toned_line(struct emitter *out, enum tone tone, const char *fmt, ...);

/*
 * A row of text: columns, and a place behind them, which a narrow terminal cuts. Both free the place, which may be
 * NULL: no memory. emit_place() takes columns that end with two spaces; where too little room is left, the place is
 * below them.
 */
void emit_row_of(struct emitter *out, unsigned int width, enum tone tone, const char *columns, char *place);
void emit_place(struct emitter *out, unsigned int width, enum tone tone, const char *columns, char *place);

/* ---- JSON: members of the innermost object, or items of the innermost list, which have no key (NULL) ---- */

/* Whether JSON is wanted: what takes long to make asks before. */
bool emits_json(const struct emitter *out);

void emit_text(struct emitter *out, const char *key, const char *text); /* NULL is left out */
void emit_int(struct emitter *out, const char *key, int64_t value);
void emit_uint(struct emitter *out, const char *key, uint64_t value); /* as json_count() */
void emit_bool(struct emitter *out, const char *key, bool value);
void emit_real(struct emitter *out, const char *key, double value); /* infinite sums of impossible weights: left out */

/* Open an object, a list, or a list of many rows, which is the last member of the answer. emit_end() closes each. */
void emit_object(struct emitter *out, const char *key);
void emit_list(struct emitter *out, const char *key);
void emit_rows(struct emitter *out, const char *key);
void emit_end(struct emitter *out);

/* ---- both ---- */

/* A heading of text, an object of JSON. */
void emit_section(struct emitter *out, const char *key, const char *heading);

#endif
