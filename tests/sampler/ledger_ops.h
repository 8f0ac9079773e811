/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_SAMPLER_LEDGER_OPS_H
#define TESTS_SAMPLER_LEDGER_OPS_H

/*
 * Calls of the allocator, each checked against the events that it caused in its thread: a block comes at most once,
 * with its own address and size and the weight that libm computes; frees are reported of reported blocks, and of no
 * others. Each check that fails is a line on stderr and counts.
 */

#include <stddef.h>
#include <stdint.h>

struct block {
	void *address;
	size_t size;
	double weight; /* 0: it was not reported */
};

/* How a block is allocated. */
enum way {
	WAY_MALLOC,
	WAY_CALLOC,
	WAY_REALLOC, /* of NULL */
	WAY_REALLOCARRAY,
	WAY_MEMALIGN,
	WAY_ALIGNED_ALLOC,
	WAY_POSIX_MEMALIGN,
	WAY_POSIX_MEMALIGN_PAGE,
	WAY_VALLOC,
	WAY_PVALLOC, /* valloc if the allocator has none */
	WAY_NR,
};

extern _Atomic long check_failures, checks;

/* The intervals that a weight may belong to. If only the first one is set, it holds for all weights. */
extern uint64_t intervals[4];

__attribute__((format(printf, 2, 3))) void check(int is_good, const char *what, ...);

struct block block_allocate(enum way way, size_t size);
void block_free(struct block *block);

/* Fails if the new size is huge; the block stays as it is then. */
void block_resize(struct block *block, size_t size);

/* size / (1 - exp(-size / interval)) */
double weight_of(double size, double interval);

#endif
