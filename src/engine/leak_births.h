/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_LEAK_BIRTHS_H
#define ALLOCSNAP_ENGINE_LEAK_BIRTHS_H

/* The blocks of one snapshot by site and bin of births: as large as the snapshot, however many sites there are. */

#include <stddef.h>
#include <stdint.h>

/* A zeroed struct is an empty one. */
struct leak_births {
	uint64_t *key; /* of each block: site × LEAK_BINS + bin */
	size_t key_nr, key_alloc;
};

/* 0 or -ENOMEM. */
int leak_births_add(struct leak_births *births, uint32_t site, uint32_t bin);

/* Sorts the keys. Returns 0 or -ENOMEM. */
int leak_births_sort(struct leak_births *births);

/* Counts blocks with this key, from *at on, which moves behind them. Of sorted births, keys ascending. */
uint64_t leak_births_count(const struct leak_births *births, uint64_t key, size_t *at);

void leak_births_release(struct leak_births *births);

#endif
