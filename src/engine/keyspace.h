/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_KEYSPACE_H
#define ALLOCSNAP_ENGINE_KEYSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "base/strpool.h"
#include "engine/key_type.h"

/*
 * The groups of one or several snapshots: equal keys get the same small id, wherever they come
 * from. Costs are then added into plain arrays by key id.
 *
 *	snapshot 0: frame ids ──┬─► canonical frames ──► canonical tracebacks (key type traceback)
 *	snapshot 1: frame ids ──┘
 *	            frame ids, classes ────► texts (key types whose key is a text)
 *
 * For key types lineno and filename a key is a canonical frame, for traceback a canonical
 * traceback, stored oldest frame first, for the others a text. The options and the snapshots must
 * stay until release.
 */
struct keyspace {
	const struct engine_options *options;
	const struct key_type_row *type;

	struct frame_view *frame; /* canonical frames by id */
	size_t frame_nr, frame_alloc;
	struct idmap frame_ids;

	struct key_traceback *traceback; /* canonical tracebacks by id */
	size_t traceback_nr, traceback_alloc;
	struct idmap traceback_ids;
	struct frame_view *traceback_view; /* their frames, one traceback after another… */
	size_t traceback_view_nr, traceback_view_alloc;
	uint32_t *traceback_frame; /* …and the canonical ids of these */
	size_t traceback_frame_nr, traceback_frame_alloc;

	struct strpool texts;	  /* string id − 1 is the key's; no key is empty */
	struct key_text scratch;
};

/* One snapshot's way into the keyspace. */
struct key_source {
	struct source *traces;
	struct classes classes;
	uint32_t *frame_key; /* frame id → canonical frame or text, IDMAP_NONE until asked for */
};

/* Key ids; a growing array that can be used again and again. A zeroed struct is an empty one. */
struct key_list {
	uint32_t *id;
	size_t id_nr, id_alloc;
};

/* What statistics point into; the caller frees both with free(). */
struct key_memory {
	struct frame_view *views;
	char *texts;
};

void keyspace_init(struct keyspace *keys, const struct engine_options *options);
void keyspace_release(struct keyspace *keys);

/* The source must stay until release. 0 or -ENOMEM. */
int key_source_init(struct key_source *source, struct source *traces);
void key_source_release(struct key_source *source);

/*
 * The keys that row `at` of struct costs, a traceback or a class of the snapshot, counts for, into
 * *list: one, or with `cumulative` one for each of its frames. 0 or -ENOMEM.
 */
int keyspace_find(struct keyspace *keys, struct key_source *source, uint32_t at,
		  struct key_list *list);

/* Keys so far; their ids count from 0. */
size_t keyspace_nr(const struct keyspace *keys);

/* Points statistic->frame or statistic->key at the key, valid until the next find. */
void keyspace_view(const struct keyspace *keys, size_t key, struct statistic *statistic);

/* The memory that keyspace_view() points into passes to the caller. */
struct key_memory keyspace_take_memory(struct keyspace *keys);

#endif
