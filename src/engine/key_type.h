/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_KEY_TYPE_H
#define ALLOCSNAP_ENGINE_KEY_TYPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "engine/trace_source.h"

/* The text of a key while it is built. A zeroed struct is an empty one; free(bytes) ends it. */
struct key_text {
	char *bytes; /* no NUL at the end */
	size_t bytes_nr, bytes_alloc;
};

/* These append to the text. 0 or -ENOMEM. */
int key_text_add(struct key_text *text, const char *string);
int key_text_add_number(struct key_text *text, uint64_t number);

/*
 * The groups of one snapshot for key types whose key is no frame. A trace is in one class; class
 * numbers start at 0. A zeroed struct is an empty one.
 */
struct classes {
	struct source *source;
	uint64_t now_ns;  /* the time that ages are measured from */
	uint32_t *number; /* of each class: the domain, the thread */
	size_t number_nr, number_alloc;
	struct idmap number_ids;
};

/* How a key type makes classes; a row of key_type.c points to it. */
struct class_type {
	/* Prepares the classes; NULL: nothing to prepare. 0, or -ENODATA with a line in *why. */
	int (*prepare)(struct classes *classes, struct reason *why);
	/* Stores the class of trace number `at`. 0 or -ENOMEM. */
	int (*find)(struct classes *classes, uint64_t at, uint32_t *ret_class);
	/* Appends the key of the class. 0 or -ENOMEM. */
	int (*name)(const struct classes *classes, uint32_t class, struct key_text *text);
};

extern const struct class_type domain_classes, process_classes, size_classes, age_classes,
			       thread_classes;

void classes_release(struct classes *classes);

/* Blocks of age class number `class` are younger than this; 0: the last class, which has no limit, or none. */
uint64_t age_class_limit_ns(size_t class);

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
	bool asks_blocks; /* needs data that sums of many snapshots (presummed.h) do not have */
	int (*frame_text)(const struct frame_view *frame, struct key_text *text);
	const struct class_type *classes;
};

const struct key_type_row *key_type_row(enum key_type key_type);

#endif
