/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_KNOWN_H
#define ALLOCSNAP_FLEET_KNOWN_H

/*
 * Ids made of content, and what is known by them: so that a row in a file costs no look-up in SQLite. Half of an
 * XXH3 hash of 128 bits is the id, never 0, the other half says whether two of one id are the same.
 */

#include <stddef.h>
#include <stdint.h>

struct hash_id {
	int64_t id; /* 63 bits */
	uint64_t verify;
};

struct hash_id hash_id_of(const void *bytes, size_t len);

struct known_row {
	struct hash_id hash;
	uint32_t domain; /* part of the key; 0 where there are none */
	uint32_t number;
};

/* Rows are never removed. A zeroed struct is empty. */
struct known {
	struct known_row *row; /* hash.id 0: free */
	size_t nr;
	size_t row_nr; /* a power of two, or 0 */
};

/* NULL: not known. Valid until the next known_add(). */
const struct known_row *known_find(const struct known *known, int64_t id, uint32_t domain);

/* What is going to be looked for is on its way to the cache. */
void known_prefetch(const struct known *known, int64_t id, uint32_t domain);

/* One that is not there yet. 0 or -ENOMEM. */
int known_add(struct known *known, const struct known_row *row);
void known_release(struct known *known);

#endif
