/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_CLEAN_H
#define ALLOCSNAP_RENDER_CLEAN_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "base/terminal.h"

/*
 * Passes text of any length through clean_text() (base/units.h): the result is one line of UTF-8 that cannot steer a
 * terminal. The caller frees the strings; NULL: no memory.
 */
char *clean_copy(const char *text);
__attribute__((format(printf, 1, 0))) char *clean_vformat(const char *fmt, va_list args);

/*
 * Writes a cleaned line and its newline. On a terminal, a line that is wider than it is broken at spaces, and goes on
 * below its last column or, if it has none, indented. Returns 0, -ENOMEM, or the errno of the write.
 */
__attribute__((format(printf, 2, 3))) int put_line(FILE *out, const char *fmt, ...);

/* The same in a tone (base/terminal.h). */
__attribute__((format(printf, 3, 0))) int put_line_of(FILE *out, enum tone tone, const char *fmt, va_list args);

/*
 * Writes cleaned text in lines of words, each behind so many spaces. A line has at most so many columns of text, fewer
 * on a terminal that is narrower. Returns as put_line().
 */
int put_words(FILE *out, size_t indent, size_t columns, const char *text);

/* ---- rows that fit ---- */

/* Where a row that is wider than a terminal loses text. The head goes first, as long as 24 columns of it are left. */
enum row_kind {
	ROW_PATH,     /* head "/a/b/cart.c:31", tail ": size=…": the head loses its start */
	ROW_FUNCTION, /* head "shop::Cart::add", tail " at /a/b/cart.c:31": first the folder, then the head's end */
};

/*
 * Indent and text as a cleaned line (render/clean.h) of at most `width` columns; 0: no limit. The tail begins at byte
 * tail_at. Cut text is replaced by "…". Frees the text. The caller frees the row; NULL: no memory, also if text is NULL.
 */
char *fit_row(unsigned int width, const char *indent, char *text, size_t tail_at, enum row_kind kind);

/* Writes such a row. Returns 0, -ENOMEM, or the errno of the write. */
int put_row(FILE *out, unsigned int width, const char *indent, char *text, size_t tail_at, enum row_kind kind);

/* The same without an indent; the tail has a tone (base/terminal.h), or the whole row if it has no tail. */
int put_toned_row(FILE *out, unsigned int width, char *text, size_t tail_at, enum row_kind kind, enum tone tone);

#endif
