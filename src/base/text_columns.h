/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_TEXT_COLUMNS_H
#define ALLOCSNAP_BASE_TEXT_COLUMNS_H

/*
 * How many columns of a terminal a text takes. Ideographs take two, combining marks none, as the C library says of its
 * locale C.UTF-8, whatever the locale of the program is. The text is clean (clean_text()).
 */

#include <stddef.h>

/* The width of all of it. A character that the C library does not know takes one column. */
size_t text_columns(const char *text);

/* Where the text has taken at most `nr` columns, with the marks that belong to the last character. */
const char *text_after_columns(const char *text, size_t nr);

/* Where the rest of the text takes at most `nr` columns. */
const char *text_last_columns(const char *text, size_t nr);

/* Replaces each character that the C library does not know by "?", in place. */
void text_replace_unknown(char *text);

#endif
