/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TOP_TOP_VIEW_H
#define ALLOCSNAP_TOP_TOP_VIEW_H

/* The two ways to show a viewer. Each runs until the viewer stops, and returns an exit status. */

struct viewer;

/* On the whole terminal, with keys. Lines on stderr are shown at the bottom, and again at the end. */
int terminal_view_run(struct viewer *viewer);

/* As text on stdout, one screen after another. */
int text_view_run(struct viewer *viewer);

#endif
