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
