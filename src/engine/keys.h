/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_KEYS_H
#define ALLOCSNAP_ENGINE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "engine/trace_source.h"

/* The text of a key while it is built. A zeroed struct is an empty one; free(bytes) ends it. */
struct key_text {
	char *bytes; /* no NUL at the end */
	size_t bytes_nr, bytes_alloc;
};

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

/* How a key type makes classes; a row of the table in keys.c points to it. */
struct class_type {
	/* Prepares the classes; NULL: nothing to prepare. 0, or -ENODATA with a line in *why. */
	int (*prepare)(struct classes *classes, struct reason *why);
	/* Stores the class of trace number `at`. 0 or -ENOMEM. */
	int (*find)(struct classes *classes, uint64_t at, uint32_t *ret_class);
	/* Appends the key of the class. 0 or -ENOMEM. */
	int (*name)(const struct classes *classes, uint32_t class, struct key_text *text);
};

extern const struct class_type age_classes;

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
	bool asks_blocks; /* needs data that sums of many snapshots (tally.h) do not have */
	int (*frame_text)(const struct frame_view *frame, struct key_text *text);
	const struct class_type *classes;
};

const struct key_type_row *key_type_row(enum key_type key_type);

/*
 * The groups of one or several snapshots: equal keys get the same small id, whichever snapshot they come
 * from. Costs are then added into plain arrays by key id.
 *
 *	snapshot 0: frame ids ──┬─► canonical frames ──► canonical tracebacks (key type traceback)
 *	snapshot 1: frame ids ──┘
 *	            frame ids, classes ────► texts (key types whose key is a text)
 *
 * For key types lineno and filename a key is a canonical frame. For traceback it is a canonical
 * traceback, stored oldest frame first. For the others it is a text. The caller keeps the options and
 * the snapshots until release.
 */
struct keyspace {
	const struct engine_options *options;
	const struct key_type_row *type;
	bool by_function; /* frames of one line, but of several functions, are different keys */

	struct frame_view *frame; /* canonical frames by id */
	size_t frame_nr, frame_alloc;
	struct idmap frame_ids;

	struct key_traceback *traceback; /* canonical tracebacks by id */
	size_t traceback_nr, traceback_alloc;
	struct idmap traceback_ids;
	struct frame_view *traceback_view; /* the frames of all tracebacks, one after another… */
	size_t traceback_view_nr, traceback_view_alloc;
	uint32_t *traceback_frame; /* …and the canonical ids of these frames */
	size_t traceback_frame_nr, traceback_frame_alloc;

	struct strpool texts;	  /* the key's string id is its id + 1, because no key is empty */
	struct key_text scratch;
};

/* The mapping from one snapshot to the keyspace. */
struct key_source {
	struct source *traces;
	struct classes classes;
	uint32_t *frame_key; /* frame id → canonical frame or text; IDMAP_NONE: not mapped yet */
	struct frame_view *frame_view; /* of each frame that is mapped; for keys that are tracebacks */
};

/* Key ids, in a growing array that is used repeatedly. A zeroed struct is an empty one. */
struct key_list {
	uint32_t *id;
	size_t id_nr, id_alloc;
};

/* The memory that statistics point into; the caller frees both members with free(). */
struct key_memory {
	struct frame_view *views;
	char *texts;
};

void keyspace_init(struct keyspace *keys, const struct engine_options *options);
void keyspace_release(struct keyspace *keys);

/* The caller keeps the source until release. 0 or -ENOMEM. */
int key_source_init(struct key_source *source, struct source *traces);
void key_source_release(struct key_source *source);

/*
 * Stores in *list the keys that row `at` of struct costs, a traceback or a class, counts for. This
 * is one key, or with `cumulative` one for each of the traceback's frames. 0 or -ENOMEM.
 */
int keyspace_find(struct keyspace *keys, struct key_source *source, uint32_t at,
		  struct key_list *list);

/* The number of keys so far; their ids start at 0. */
size_t keyspace_nr(const struct keyspace *keys);

/* Points statistic->frame or statistic->key at the key, valid until the next find. */
void keyspace_view(const struct keyspace *keys, size_t key, struct statistic *statistic);

/* Passes the memory that keyspace_view() points into to the caller. */
struct key_memory keyspace_take_memory(struct keyspace *keys);

#endif
