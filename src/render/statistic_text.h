/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_STATISTIC_TEXT_H
#define ALLOCSNAP_RENDER_STATISTIC_TEXT_H

#include "render.h"
#include "snapshot.h"

/* "16 (pool)", a domain's number and its name, or "16". A long name is cut. Returns text. */
#define DOMAIN_TEXT_MAX 128
const char *domain_text(char text[DOMAIN_TEXT_MAX], const struct snapshot *snapshot, uint32_t domain);

/* Returns the domain's name of a statistic by domain; NULL if it has none, or is of another kind. */
const char *statistic_domain_name(const struct report *report, const struct statistic *statistic);

/* These return text that is not cleaned; the caller frees it. NULL: no memory. */

/*
 * A line of a stack: "FUNCTION at FILE:LINE", "FUNCTION (OBJECT+0xOFFSET)", or if less is known "FILE:LINE",
 * "OBJECT+0xOFFSET", "0xADDRESS", "<unknown>". Names of functions are in full if names is NULL. *ret_tail is where the
 * text behind the function begins.
 */
struct readable_names;
char *frame_text(const struct readable_names *names, const struct frame_view *frame, size_t *ret_tail);

/* Replaces the folder in such a text by "…": "FUNCTION at …/FILE:LINE". Frees it; NULL: no memory, also if text is NULL. */
char *frame_without_folder(char *text, size_t tail_at);

/* The shortest name: "FUNCTION", otherwise as frame_text(). */
char *frame_name(const struct readable_names *names, const struct frame_view *frame);

/* "in FUNCTION", which FILE:LINE does not say, or "". The name of a frame without a line says it. */
char *frame_extra(const struct readable_names *names, const struct frame_view *frame);

/* The function alone; of variants of a function the name that they share. frame->function must be known. */
char *frame_function(const struct readable_names *names, const struct frame_view *frame);

/*
 * The two parts of statistic_text(), which are joined by ": ". The name of a line is "FILE:LINE"; where no line is known
 * but more than the file, it is as of frame_text().
 */
char *statistic_name(const struct readable_names *names, const struct statistic *statistic, enum key_type key_type);
bool statistic_has_line(const struct statistic *statistic);
char *statistic_costs(const struct statistic *statistic, bool is_diff);

#define COST_TEXT_MAX 512

/*
 * "size=5002 B (+5000 B), count=2 (+1)": the middle of tracemalloc's str(StatisticDiff), or of str(Statistic) if diff
 * is NULL. With an estimate each inexact number has its error behind it, the distance to the farther end of its
 * interval: "size=66.0 KiB ±12.1 KiB, count=132 ±24". "±?": it is not known (struct estimate). Returns text.
 */
const char *cost_text(char text[COST_TEXT_MAX], const struct cost *cost, const struct cost *diff,
		      const struct estimate *estimate);

#endif
