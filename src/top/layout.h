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

/* Adds a line. Text that is too long is cut at its end. */
__attribute__((format(printf, 3, 4))) void top_screen_put(struct top_screen *screen, enum top_style style,
							  const char *fmt, ...);

/* Adds a text in as many lines as it needs; all but the first are indented. */
void top_screen_put_words(struct top_screen *screen, enum top_style style, unsigned int indent, const char *text);

/* How many lines are left above the foot. */
size_t top_screen_room(const struct top_screen *screen);

/* The parts of the pages. */
void top_layout_rows(struct top_model *model, struct top_screen *screen);
void top_layout_processes(struct top_model *model, struct top_screen *screen);
void top_layout_opened(struct top_model *model, struct top_screen *screen);
/* The facts about the process; with_view: also how its rows are chosen and sorted. */
void top_layout_facts(const struct top_model *model, struct top_screen *screen, bool with_view);

/* "+1.2 MiB": growth in a minute; "-": not known. Returns text. */
#define TOP_RATE_MAX 64
const char *top_rate_text(char text[TOP_RATE_MAX], double bytes, uint64_t window_ns);

#endif
