/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_ID_SET_H
#define ALLOCSNAP_FLEET_ID_SET_H

/*
 * A table of ids that are hashes of content, and their numbers. It saves a look-up in SQLite for each row of a file.
 * Half of a 128-bit XXH3 hash is the id, never 0. The other half shows whether two things with one id are the same.
 */

#include <stddef.h>
#include <stdint.h>

struct hash_id {
	int64_t id; /* 63 bits */
	uint64_t verify;
};

struct hash_id hash_id_make(const void *bytes, size_t len);

struct known_row {
	struct hash_id hash;
	uint32_t domain; /* part of the key; 0 if there are no domains */
	uint32_t number;
};

/* Rows are never removed. A zeroed struct is empty. */
struct known {
	struct known_row *row; /* hash.id 0: free */
	size_t nr;
	size_t row_nr; /* a power of two, or 0 */
};

/* Returns NULL if the id is not known. The row is valid until the next known_add(). */
const struct known_row *known_find(const struct known *known, int64_t id, uint32_t domain);

/* Starts loading the place of an id into the cache, ahead of known_find(). */
void known_prefetch(const struct known *known, int64_t id, uint32_t domain);

/* Adds a row that the table does not have yet. Returns 0 or -ENOMEM. */
int known_add(struct known *known, const struct known_row *row);
void known_release(struct known *known);

#endif
