/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TOP_LAYOUT_H
#define ALLOCSNAP_TOP_LAYOUT_H

/* The look of the view: lines of clean text with styles, for a terminal of any size or for a text without end. */

#include <stdbool.h>
#include <stddef.h>

#include "top/model.h"

enum top_style {
	TOP_STYLE_PLAIN,
	TOP_STYLE_TITLE,
	TOP_STYLE_HEAD,	    /* of columns */
	TOP_STYLE_SELECTED,
	TOP_STYLE_SURE,	    /* of a line that leaks */
	TOP_STYLE_LIKELY,
	TOP_STYLE_WARNING,
	TOP_STYLE_FOOT,
	TOP_STYLE_NR,
};

struct top_screen_line {
	char *text;
	enum top_style style;
};

/* Zeroed: an empty one. */
struct top_screen {
	struct top_screen_line *line;
	size_t line_nr, line_alloc;
	unsigned int width;  /* columns; 0: lines are not cut */
	unsigned int height; /* lines; 0: as many as there are, and no help at the end */
	int err;	     /* -ENOMEM: lines are missing */
};

/* Draws the model. It moves cursors so that what is selected is shown. Release the screen after a failure, too. */
int top_layout_draw(struct top_model *model, unsigned int width, unsigned int height, struct top_screen *ret);
void top_screen_release(struct top_screen *screen);

#endif
