// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/strpool.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

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
