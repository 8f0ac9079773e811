/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_STRPOOL_H
#define ALLOCSNAP_BASE_STRPOOL_H

#include "base/idmap.h"

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
