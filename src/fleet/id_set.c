// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/id_set.h"

#include <errno.h>
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

struct hash_id hash_id_make(const void *bytes, size_t len)
{
	XXH128_hash_t hash = XXH3_128bits(bytes, len);

	return (struct hash_id){ (hash.low64 & INT64_MAX) ?: 1, hash.high64 };
}

/* An id is a hash already. */
static size_t known_slot(const struct known *known, int64_t id, uint32_t domain)
{
	return (id + domain * 0x9e3779b97f4a7c15) & (known->row_nr - 1);
}

const struct known_row *known_find(const struct known *known, int64_t id, uint32_t domain)
{
	size_t mask = known->row_nr - 1;

	if (!known->row_nr)
		return NULL;
	for (size_t i = known_slot(known, id, domain); known->row[i].hash.id; i = (i + 1) & mask)
		if (known->row[i].hash.id == id && known->row[i].domain == domain)
			return &known->row[i];
	return NULL;
}

void known_prefetch(const struct known *known, int64_t id, uint32_t domain)
{
	if (known->row_nr)
		__builtin_prefetch(&known->row[known_slot(known, id, domain)]);
}

static void known_place_row(struct known *known, const struct known_row *row)
{
	size_t i = known_slot(known, row->hash.id, row->domain);

	while (known->row[i].hash.id)
		i = (i + 1) & (known->row_nr - 1);
	known->row[i] = *row;
	known->nr++;
}

static int known_grow(struct known *known)
{
	struct known bigger = { .row_nr = known->row_nr ? known->row_nr * 2 : 1024 };

	bigger.row = calloc(bigger.row_nr, sizeof(*bigger.row));
	if (!bigger.row)
		return -ENOMEM;
	for (size_t i = 0; i < known->row_nr; i++)
		if (known->row[i].hash.id)
			known_place_row(&bigger, &known->row[i]);
	free(known->row);
	*known = bigger;
	return 0;
}

int known_add(struct known *known, const struct known_row *row)
{
	int err = known->nr * 2 >= known->row_nr ? known_grow(known) : 0;

	if (!err)
		known_place_row(known, row);
	return err;
}

void known_release(struct known *known)
{
	free(known->row);
	*known = (struct known){};
}
