// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/idmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* hash == 0 marks a free slot; a real hash of 0 is stored as 1. */
struct idmap_slot {
	uint64_t hash;
	uint32_t id;
};

static uint64_t stored_hash(uint64_t hash)
{
	return hash ? hash : 1;
}

uint32_t idmap_find(const struct idmap *map, uint64_t hash, idmap_same_fn same, const void *key,
		    const void *table)
{
	size_t mask = map->slot_nr - 1;

	if (!map->slot_nr)
		return IDMAP_NONE;
	hash = stored_hash(hash);
	for (size_t i = hash & mask; map->slot[i].hash; i = (i + 1) & mask)
		if (map->slot[i].hash == hash && same(map->slot[i].id, key, table))
			return map->slot[i].id;
	return IDMAP_NONE;
}

static void idmap_place(struct idmap_slot *slots, size_t slot_nr, uint64_t hash, uint32_t id)
{
	size_t i = hash & (slot_nr - 1);

	while (slots[i].hash)
		i = (i + 1) & (slot_nr - 1);
	slots[i] = (struct idmap_slot){ .hash = hash, .id = id };
}

static int idmap_grow(struct idmap *map)
{
	size_t slot_nr = map->slot_nr ? map->slot_nr * 2 : 64;
	struct idmap_slot *slots = calloc(slot_nr, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->slot_nr; i++)
		if (map->slot[i].hash)
			idmap_place(slots, slot_nr, map->slot[i].hash, map->slot[i].id);
	free(map->slot);
	map->slot = slots;
	map->slot_nr = slot_nr;
	return 0;
}

int idmap_add(struct idmap *map, uint64_t hash, uint32_t id)
{
	int err;

	if (map->nr * 4 >= map->slot_nr * 3) {
		err = idmap_grow(map);
		if (err)
			return err;
	}
	idmap_place(map->slot, map->slot_nr, stored_hash(hash), id);
	map->nr++;
	return 0;
}

void idmap_release(struct idmap *map)
{
	free(map->slot);
	memset(map, 0, sizeof(*map));
}

uint64_t hash_bytes(const void *bytes, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(bytes, len, seed);
}

struct keyed_rows {
	const char *row;
	size_t row_bytes, key_bytes;
};

static bool same_key(uint32_t id, const void *key, const void *table)
{
	const struct keyed_rows *rows = table;

	return !memcmp(rows->row + id * rows->row_bytes, key, rows->key_bytes);
}

uint32_t idmap_find_key(const struct idmap *map, const void *key, size_t key_bytes, const void *rows, size_t row_bytes)
{
	const struct keyed_rows table = { rows, row_bytes, key_bytes };

	return idmap_find(map, hash_bytes(key, key_bytes, 0), same_key, key, &table);
}

int idmap_add_key(struct idmap *map, const void *key, size_t key_bytes, uint32_t id)
{
	return idmap_add(map, hash_bytes(key, key_bytes, 0), id);
}

struct string_key {
	const char *bytes;
	size_t len;
};

static size_t strpool_string_end(const struct strpool *pool, uint32_t id)
{
	return (id + 1 < pool->start_nr ? pool->start[id + 1] : pool->bytes_nr) - 1;
}

static bool same_string(uint32_t id, const void *key, const void *table)
{
	const struct string_key *want = key;
	const struct strpool *pool = table;

	return strpool_string_end(pool, id) - pool->start[id] == want->len &&
	       !memcmp(pool->bytes + pool->start[id], want->bytes, want->len);
}

static int strpool_append(struct strpool *pool, const struct string_key *key, uint64_t hash)
{
	int err;

	if (pool->start_nr >= IDMAP_NONE)
		return -ENOMEM;
	err = array_reserve(&pool->bytes, &pool->bytes_alloc, pool->bytes_nr + key->len + 1);
	if (!err)
		err = array_reserve(&pool->start, &pool->start_alloc, pool->start_nr + 1);
	if (!err)
		err = idmap_add(&pool->ids, hash, pool->start_nr);
	if (err)
		return err;
	pool->start[pool->start_nr++] = pool->bytes_nr;
	memcpy(pool->bytes + pool->bytes_nr, key->bytes, key->len);
	pool->bytes[pool->bytes_nr + key->len] = '\0';
	pool->bytes_nr += key->len + 1;
	return 0;
}

uint32_t strpool_find(const struct strpool *pool, const char *bytes, size_t len)
{
	struct string_key key = { .bytes = bytes, .len = len };

	return idmap_find(&pool->ids, hash_bytes(bytes, len, 0), same_string, &key, pool);
}

static int strpool_intern_key(struct strpool *pool, const struct string_key *key, uint32_t *ret_id)
{
	uint32_t id = strpool_find(pool, key->bytes, key->len);
	int err;

	if (id == IDMAP_NONE) {
		err = strpool_append(pool, key, hash_bytes(key->bytes, key->len, 0));
		if (err)
			return err;
		id = pool->start_nr - 1;
	}
	*ret_id = id;
	return 0;
}

int strpool_add(struct strpool *pool, const char *bytes, size_t len, uint32_t *ret_id)
{
	struct string_key empty = { .bytes = "" };
	struct string_key key = { .bytes = bytes, .len = len };
	uint32_t first;
	int err = 0;

	if (!pool->start_nr)
		err = strpool_intern_key(pool, &empty, &first);
	return err ?: strpool_intern_key(pool, &key, ret_id);
}

const char *strpool_get(const struct strpool *pool, uint32_t id)
{
	return pool->start_nr ? pool->bytes + pool->start[id] : "";
}

void strpool_release(struct strpool *pool)
{
	free(pool->bytes);
	free(pool->start);
	idmap_release(&pool->ids);
	memset(pool, 0, sizeof(*pool));
}
