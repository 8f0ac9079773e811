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
#include <stdio.h>

#include "engine.h"

struct reason;
struct snapshot;
struct statistics;

struct report {
	const struct statistics *statistics;
	const struct snapshot *const *snapshot; /* that they were made of: [new] or [old, new] */
	size_t snapshot_nr;
	const char *const *warning; /* one line each */
	size_t warning_nr;
	size_t top;		    /* rows to show; 0: all */
	bool oldest_first;	    /* order of the frames of a text traceback */
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
};

/* NULL and a line that names the right ones in *why if there is no such format. */
const struct renderer *renderer_find(const char *name, struct reason *why);

/* The table, for help texts. */
const struct renderer *renderer_table(size_t *ret_nr);

/*
 * The losses of a snapshot in one line for stderr, without its newline: only what is not zero.
 * Returns a string that the caller frees, NULL if there are none (or no memory: errno ENOMEM).
 */
char *losses_line(const struct snapshot *snapshot);

/*
 * A line "traced 66.0 MiB in 1200 blocks, of RSS 80.1 MiB; up to 10.0 MiB older than the
 * recording"; what is not known is left out. 0 or a negative errno.
 */
int render_traced(FILE *out, const struct snapshot *snapshot);

#endif
