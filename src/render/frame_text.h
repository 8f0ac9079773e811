/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_FRAME_TEXT_H
#define ALLOCSNAP_RENDER_FRAME_TEXT_H

struct frame_view;

/* These return text that is not cleaned; the caller frees it. NULL: no memory. */

/*
 * A line of a stack: "FUNCTION at FILE:LINE", "FUNCTION (OBJECT+0xOFFSET)", or if less is known "FILE:LINE",
 * "OBJECT+0xOFFSET", "0xADDRESS", "<unknown>".
 */
char *frame_text(const struct frame_view *frame);

/* The shortest name: "FUNCTION", otherwise as frame_text(). */
char *frame_name(const struct frame_view *frame);

/* The details that FILE:LINE lacks: "in FUNCTION", and its place if lineno is 0; "" if there are none. */
char *frame_extra(const struct frame_view *frame);

#endif
