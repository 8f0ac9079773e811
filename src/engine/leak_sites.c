// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/leak_sites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "snapshot.h"

/* ---- frames --------------------------------------------------------------------------------- */

struct frame_place {
	const struct snapshot *snapshot;
	uint32_t frame;
};

static const struct snap_frame *frame_row(const struct frame_place *place)
{
	return &snapshot__tables(place->snapshot)->frame[place->frame];
}

static const char *object_path(const struct frame_place *place)
{
	const struct snapshot_tables *tables = snapshot__tables(place->snapshot);

	return snapshot__string(place->snapshot, tables->object[frame_row(place)->object].path);
}

static bool has_code_place(const struct snap_frame *row)
{
	return row->object && row->offset;
}

static uint64_t hash_string(const struct frame_place *place, uint32_t string, uint64_t seed)
{
	const char *text = snapshot__string(place->snapshot, string);

	return hash_bytes(text, strlen(text), seed);
}

static uint64_t hash_place(const struct frame_place *place)
{
	const struct snap_frame *row = frame_row(place);
	const char *path = object_path(place);
	uint64_t hash = hash_bytes(path, strlen(path), row->offset);

	if (has_code_place(row))
		return hash;
	hash = hash_string(place, row->filename, hash + row->lineno);
	return hash_string(place, row->function, hash);
}

static bool is_same_string(const struct frame_place *a, uint32_t string_a, const struct frame_place *b,
			   uint32_t string_b)
{
	return !strcmp(snapshot__string(a->snapshot, string_a), snapshot__string(b->snapshot, string_b));
}

static bool is_same_place(uint32_t id, const void *key, const void *table)
{
	const struct leak_sites *sites = table;
	const struct frame_place *b = key, a = { sites->last, id };
	const struct snap_frame *row_a = frame_row(&a), *row_b = frame_row(b);

	if (row_a->offset != row_b->offset || strcmp(object_path(&a), object_path(b)))
		return false;
	if (has_code_place(row_a) && has_code_place(row_b))
		return true;
	return row_a->lineno == row_b->lineno && is_same_string(&a, row_a->filename, b, row_b->filename) &&
	       is_same_string(&a, row_a->function, b, row_b->function);
}

static uint32_t find_place(const struct leak_sites *sites, const struct frame_place *place)
{
	return idmap_find(&sites->frame_ids, hash_place(place), is_same_place, place, sites);
}

/*
 * By frame id of the snapshot: the first equal frame of the last snapshot. add: its frames are new ones. NULL: no
 * memory.
 */
static uint32_t *map_frames(const struct leak_sites *sites, const struct snapshot *snapshot, struct idmap *add)
{
	uint32_t nr = snapshot__tables(snapshot)->frame_nr;
	uint32_t *map = calloc(nr ?: 1, sizeof(*map));

	for (uint32_t i = 0; i < nr && map; i++) {
		const struct frame_place place = { snapshot, i };

		map[i] = find_place(sites, &place);
		if (map[i] != IDMAP_NONE || !add)
			continue;
		map[i] = i;
		if (idmap_add(add, hash_place(&place), i)) {
			free(map);
			return NULL;
		}
	}
	return map;
}

/* ---- tracebacks ----------------------------------------------------------------------------- */

/* Frames in ids of the last snapshot, without inlined calls: these are at the same place as their caller. */
struct place_list {
	uint32_t *id;
	size_t id_nr, id_alloc;
};

/* Returns -ENOENT if the last snapshot lacks one of the frames. */
static int list_places(struct place_list *list, const struct snapshot *snapshot, uint32_t traceback,
		       const uint32_t *frame_map)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const struct snap_traceback *row = &tables->traceback[traceback];
	int err = array_reserve(&list->id, &list->id_alloc, row->nframe + 1ull);

	list->id_nr = 0;
	for (uint32_t i = 0; i < row->nframe && !err; i++) {
		uint32_t frame = tables->traceback_frame[row->first + i];
		const struct snap_frame *place = &tables->frame[frame];

		if (place->flags & SNAP_FRAME_INLINE && has_code_place(place))
			continue;
		if (frame_map[frame] == IDMAP_NONE)
			err = -ENOENT;
		list->id[list->id_nr++] = frame_map[frame];
	}
	return err;
}

struct traceback_lookup {
	const struct place_list *wanted;
	struct place_list *scratch;
	const uint32_t *frame_map; /* of the last snapshot */
	const struct snapshot *last;
};

static bool is_same_traceback(uint32_t id, const void *key, const void *table)
{
	const struct traceback_lookup *lookup = key;
	size_t bytes = lookup->wanted->id_nr * sizeof(*lookup->wanted->id);

	(void)table;
	return !list_places(lookup->scratch, lookup->last, id, lookup->frame_map) &&
	       lookup->scratch->id_nr == lookup->wanted->id_nr &&
	       !memcmp(lookup->scratch->id, lookup->wanted->id, bytes);
}

/* Fills map[] for all tracebacks of the snapshot. add: as in map_frames(). */
static int map_tracebacks(const struct leak_sites *sites, const struct snapshot *snapshot, const uint32_t *frame_map,
			  const uint32_t *last_frame_map, struct idmap *add, uint32_t *map)
{
	struct place_list wanted = {}, scratch = {};
	const struct traceback_lookup lookup = { &wanted, &scratch, last_frame_map, sites->last };
	uint32_t nr = snapshot__tables(snapshot)->traceback_nr;
	int err = 0;

	for (uint32_t i = 0; i < nr && !err; i++) {
		uint64_t hash;

		map[i] = LEAK_SITE_NONE;
		err = list_places(&wanted, snapshot, i, frame_map);
		if (err == -ENOENT) {
			err = 0;
			continue;
		}
		hash = hash_bytes(wanted.id, wanted.id_nr * sizeof(*wanted.id), wanted.id_nr);
		if (!err)
			map[i] = idmap_find(&sites->traceback_ids, hash, is_same_traceback, &lookup, sites);
		if (!err && map[i] == IDMAP_NONE && add) {
			map[i] = i;
			err = idmap_add(add, hash, i);
		}
	}
	free(wanted.id);
	free(scratch.id);
	return err;
}

uint32_t *leak_sites_map(const struct leak_sites *sites, const struct snapshot *snapshot)
{
	uint32_t *map = calloc(snapshot__tables(snapshot)->traceback_nr ?: 1, sizeof(*map));
	uint32_t *frame_map = map_frames(sites, snapshot, NULL);
	uint32_t *last_frame_map = map_frames(sites, sites->last, NULL);
	bool is_done = map && frame_map && last_frame_map &&
		       !map_tracebacks(sites, snapshot, frame_map, last_frame_map, NULL, map);

	free(frame_map);
	free(last_frame_map);
	if (is_done)
		return map;
	free(map);
	return NULL;
}

/* ---- sites ---------------------------------------------------------------------------------- */

int leak_sites_init(struct leak_sites *sites, const struct snapshot *last)
{
	uint32_t *frame_map;
	int err = -ENOMEM;

	*sites = (struct leak_sites){ .last = last };
	sites->traceback = calloc(snapshot__tables(last)->traceback_nr ?: 1, sizeof(*sites->traceback));
	frame_map = map_frames(sites, last, &sites->frame_ids);
	if (sites->traceback && frame_map)
		err = map_tracebacks(sites, last, frame_map, frame_map, &sites->traceback_ids, sites->traceback);
	free(frame_map);
	return err;
}

void leak_sites_release(struct leak_sites *sites)
{
	idmap_release(&sites->frame_ids);
	idmap_release(&sites->traceback_ids);
	idmap_release(&sites->site_ids);
	free(sites->traceback);
	free(sites->site);
}

static bool is_same_site(uint32_t id, const void *key, const void *table)
{
	const struct leak_sites *sites = table;
	const struct leak_site_key *wanted = key;

	return sites->site[id].traceback == wanted->traceback && sites->site[id].domain == wanted->domain;
}

static uint64_t hash_site(const struct leak_site_key *key)
{
	return hash_bytes(key, sizeof(*key), 0);
}

uint32_t leak_sites_find(const struct leak_sites *sites, uint32_t traceback, uint32_t domain)
{
	const struct leak_site_key key = { sites->traceback[traceback], domain };

	return idmap_find(&sites->site_ids, hash_site(&key), is_same_site, &key, sites);
}

int leak_sites_add(struct leak_sites *sites, uint32_t traceback, uint32_t domain, uint32_t *ret_site)
{
	const struct leak_site_key key = { sites->traceback[traceback], domain };
	int err;

	*ret_site = leak_sites_find(sites, traceback, domain);
	if (*ret_site != IDMAP_NONE)
		return 0;
	*ret_site = sites->site_nr;
	err = array_push(sites, site, key);
	return err ?: idmap_add(&sites->site_ids, hash_site(&key), *ret_site);
}
