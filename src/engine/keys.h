/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_KEYS_H
#define ALLOCSNAP_ENGINE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "base/strpool.h"
#include "engine/key_type.h"

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
