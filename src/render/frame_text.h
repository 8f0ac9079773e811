/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_FRAME_TEXT_H
#define ALLOCSNAP_RENDER_FRAME_TEXT_H

struct frame_view;

/* Uncleaned text that the caller frees; NULL: no memory. */

/*
 * A line of a stack: "FUNCTION at FILE:LINE", "FUNCTION (OBJECT+0xOFFSET)", and less where less
 * is known: "FILE:LINE", "OBJECT+0xOFFSET", "0xADDRESS", "<unknown>".
 */
char *frame_text(const struct frame_view *frame);

/* The shortest name: "FUNCTION", else as frame_text(). */
char *frame_name(const struct frame_view *frame);

/* What FILE:LINE leaves out: "in FUNCTION", where lineno is 0 its place too; "" if nothing. */
char *frame_extra(const struct frame_view *frame);

#endif
