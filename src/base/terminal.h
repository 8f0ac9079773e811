/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_TERMINAL_H
#define ALLOCSNAP_BASE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/*
 * The width of the terminal behind a descriptor; 80 if the terminal does not know it, 0 if it is no terminal. A pager
 * that shows our standard output on a terminal counts as that terminal.
 */
int terminal_width(int fd);

/* Whether the cursor can be moved: not if TERM is unset or "dumb". */
bool terminal_has_cursor(int fd);

/*
 * From now on standard output goes through a pager to a terminal of this width, or with 0 no longer does. Only the code
 * that starts the pager calls it.
 */
void terminal_set_paged(int width);

/*
 * The meaning of a piece of text. Colours say nothing that the text does not say: growth has its sign, a verdict its
 * word. A reader need not tell red and green apart.
 */
enum tone {
	TONE_PLAIN,
	TONE_HEAD,   /* heads of columns, totals */
	TONE_GROWTH,
	TONE_SHRINK,
	TONE_ALARM,  /* what surely leaks, what does not work */
	TONE_NR,
};

/*
 * Write what begins and ends a tone on a terminal, and nothing elsewhere. Colours follow https://bixense.com/clicolors
 * and https://no-color.org: NO_COLOR, CLICOLOR=0 and TERM=dumb switch them off, CLICOLOR_FORCE=1 switches them on, also
 * in a pipe.
 */
void tone_begin(FILE *out, enum tone tone);
void tone_end(FILE *out, enum tone tone);

/*
 * The status line of the program: the last line of stderr, rewritten in place, on a terminal that can do that. The
 * functions of base/log.h clear it before they write, and so does a signal that ends the program. Only one thread shows
 * it.
 */

/* Whether it may be rewritten: several times a second at most. False where there is no terminal. */
bool status_line_is_due(void);

/* The columns that a text may have. */
int status_line_columns(void);

/* Shows a clean text of at most status_line_columns(). */
void status_line_show(const char *text);

/* Nothing stays of it. */
void status_line_clear(void);

/*
 * How many columns of a terminal a text takes. Ideographs take two, combining marks none, as the C library says of its
 * locale C.UTF-8, whatever the locale of the program is. The text is clean (clean_text()).
 */

/* The width of all of it. A character that the C library does not know takes one column. */
size_t text_columns(const char *text);

/* Where the text has taken at most `nr` columns, with the marks that belong to the last character. */
const char *text_after_columns(const char *text, size_t nr);

/* Where the rest of the text takes at most `nr` columns. */
const char *text_last_columns(const char *text, size_t nr);

/* Replaces each character that the C library does not know by "?", in place. */
void text_replace_unknown(char *text);

#endif
