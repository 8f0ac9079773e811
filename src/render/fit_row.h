/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_FIT_ROW_H
#define ALLOCSNAP_RENDER_FIT_ROW_H

#include <stddef.h>
#include <stdio.h>

#include "base/terminal.h"
#include "render/emitter.h"

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

/*
 * A row of text: columns, and a place behind them, which a narrow terminal cuts. Both free the place, which may be
 * NULL: no memory. emit_place() takes columns that end with two spaces; where too little room is left, the place is
 * below them.
 */
void emit_row_of(struct emitter *out, unsigned int width, enum tone tone, const char *columns, char *place);
void emit_place(struct emitter *out, unsigned int width, enum tone tone, const char *columns, char *place);

#endif
