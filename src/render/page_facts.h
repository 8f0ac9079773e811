/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_PAGE_FACTS_H
#define ALLOCSNAP_RENDER_PAGE_FACTS_H

/* A snapshot whose blocks are resident pages (--domain pages): what RSS is made of, to the page, and what that means. */

#include <stdbool.h>
#include <stdio.h>

struct emitter;
struct snapshot;

/* Belongs below each answer about pages. */
#define PAGES_MEANING "pages say who needed a fresh page, not who holds what lies there"

bool snapshot_has_pages(const struct snapshot *snapshot);

/* Why its pages are recorded although the user has not asked for them; NULL otherwise. */
const char *snapshot_pages_why(const struct snapshot *snapshot);

/* A line that says so, if it is the case. */
void emit_pages_why(struct emitter *out, const struct snapshot *snapshot, const char *margin);

/* Text, each line after the margin. 0 or a negative errno. */
int render_pages(FILE *file, const struct snapshot *snapshot, const char *margin);

/* The object "pages" of JSON. */
void emit_pages(struct emitter *out, const struct snapshot *snapshot);

#endif
