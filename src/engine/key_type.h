/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_KEY_TYPE_H
#define ALLOCSNAP_ENGINE_KEY_TYPE_H

#include "engine/classes.h"

enum key_kind {
	KEY_IS_FRAME,
	KEY_IS_TRACEBACK,
	KEY_IS_FRAME_TEXT, /* a text from a frame */
	KEY_IS_CLASS,	   /* a text from a trace, independent of its frames */
};

struct key_type_row {
	const char *name;
	enum key_kind kind;
	bool has_cumulative;
	bool asks_blocks; /* needs data that sums of many snapshots (tally.h) do not have */
	int (*frame_text)(const struct frame_view *frame, struct key_text *text);
	const struct class_type *classes;
};

const struct key_type_row *key_type_row(enum key_type key_type);

#endif
