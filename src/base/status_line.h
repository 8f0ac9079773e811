/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_STATUS_LINE_H
#define ALLOCSNAP_BASE_STATUS_LINE_H

#include <stdbool.h>

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

#endif
