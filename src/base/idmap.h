/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_IDMAP_H
#define ALLOCSNAP_BASE_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

/*
 * Hash → small integer id, for a table that owns its rows and interns them.
 *
 * The map stores only (hash, id) pairs; `same` compares the row with that id to the key. Rows are never
 * removed. A zeroed struct is an empty map.
 *
 *	id = idmap_find(&pool->ids, hash, same_string, &key, pool);
 *	if (id == IDMAP_NONE)
 *		err = idmap_add(&pool->ids, hash, new_id);
 */
struct idmap {
	struct idmap_slot *slot;
	size_t nr;
	size_t slot_nr; /* a power of two, or 0 */
};

#define IDMAP_NONE UINT32_MAX

typedef bool (*idmap_same_fn)(uint32_t id, const void *key, const void *table);

/* The id whose row equals the key, or IDMAP_NONE. */
uint32_t idmap_find(const struct idmap *map, uint64_t hash, idmap_same_fn same, const void *key,
		    const void *table);

/* Adds an id that is not in the map. 0 or -ENOMEM; after an error the map is unchanged. */
int idmap_add(struct idmap *map, uint64_t hash, uint32_t id);

void idmap_release(struct idmap *map);

/* The same for rows of row_bytes that begin with their key: key_bytes, without padding. */
uint32_t idmap_find_key(const struct idmap *map, const void *key, size_t key_bytes, const void *rows, size_t row_bytes);
int idmap_add_key(struct idmap *map, const void *key, size_t key_bytes, uint32_t id);

/* Appends the value, which begins with the key, to the array whose parts are named item, item##_nr and item##_alloc. */
#define idmap_push(map, owner, item, key, value) \
	(array_push(owner, item, value) ?: idmap_add_key(map, &(key), sizeof(key), (owner)->item##_nr - 1))

/* The id of the row with the key; appends the value if no row has it. 0 or -ENOMEM. */
#define idmap_intern(map, owner, item, key, value, ret_id) \
	({ \
		uint32_t *id_ = (ret_id); \
		*id_ = idmap_find_key(map, &(key), sizeof(key), (owner)->item, sizeof(*(owner)->item)); \
		*id_ != IDMAP_NONE ? 0 : (*id_ = (owner)->item##_nr, idmap_push(map, owner, item, key, value)); \
	})

/* A hash of bytes. It differs between builds, so it is never stored. */
uint64_t hash_bytes(const void *bytes, size_t len, uint64_t seed);

/* Numbers that follow each other would be a row of full slots, which a search for another number goes through. */
static inline uint64_t hash_number(uint64_t number)
{
	return hash_bytes(&number, sizeof(number), 0);
}

/*
 * Interned strings. Equal bytes get equal ids; ids start at 0, and id 0 is the empty string. The
 * bytes lie one after another, each string followed by a NUL, so that `bytes` and `start` can be
 * written to a file as they are. A zeroed struct is an empty pool.
 */
struct strpool {
	char *bytes;
	size_t bytes_nr, bytes_alloc;
	uint64_t *start; /* string id begins at bytes[start[id]]; start_nr strings */
	size_t start_nr, start_alloc;
	struct idmap ids;
};

/* 0 and the id in *ret_id, or -ENOMEM. The bytes may contain NULs, but are read as a C string later. */
int strpool_add(struct strpool *pool, const char *bytes, size_t len, uint32_t *ret_id);

/* The id of a string, or IDMAP_NONE. */
uint32_t strpool_find(const struct strpool *pool, const char *bytes, size_t len);

/* The string of an id that strpool_add() gave; valid until the next add. */
const char *strpool_get(const struct strpool *pool, uint32_t id);

void strpool_release(struct strpool *pool);

#endif
