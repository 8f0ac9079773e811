/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_LEDGER_H
#define ALLOCSNAP_TESTS_LEDGER_H

/*
 * The ledger's account, as they lie in its file, which is mapped by the program that it is preloaded
 * into and by who compares: struct account, then a hash table of slot_nr blocks.
 */

#include <stdint.h>

#define LEDGER_MAGIC 0x7265676465c0ffeeULL
#define LEDGER_THREADS_MAX 65536 /* that have been; half an hour of tests/workloads/storm.c has 4,320 */

/* The first ones have the names and the meanings of bpf/shared/bpf_types.h. X(name). */
#define LEDGER_COUNTERS(X) \
	X(allocations) \
	X(allocated_bytes) \
	X(frees) \
	X(freed_bytes) \
	X(current_blocks) \
	X(current_bytes) \
	X(peak_bytes) \
	X(unknown_frees) \
	X(failed_calls) \
	X(nested_calls)	      /* that came back to the ledger: fewer than the probes see */ \
	X(most_in_flight)     /* bytes: the most that the latest call of each thread were about */ \
	X(blocks_replaced)    /* an address that was given out twice: a bug of the ledger */ \
	X(blocks_dropped)     /* its table was full: make it larger */ \
	X(threads)	      /* that have called the allocator */ \
	X(threads_ended)      /* of these, at whose end the C library cleans up */

/* The latest call of one thread. */
struct ledger_call {
	uint32_t thread;
	uint32_t is_inside;
	uint64_t pointer; /* free, realloc: the old block */
	uint64_t result;
	uint64_t bytes, weight;
	uint64_t reserved[3];
};
_Static_assert(sizeof(struct ledger_call) == 64, "a cache line");

struct ledger_block {
	uint64_t address; /* 0: none */
	uint64_t size;
};

struct account {
	uint64_t magic; /* written last */
	uint64_t slot_nr; /* a power of two */
	uint32_t pid;
	uint32_t lock;
	uint64_t in_flight; /* bytes, as in most_in_flight */
#define X(name) uint64_t name;
	LEDGER_COUNTERS(X)
#undef X
	struct ledger_call call[LEDGER_THREADS_MAX];
	struct ledger_block block[];
};

static inline uint64_t ledger_slot(const struct account *account, uint64_t address)
{
	return (address >> 4) * 0x9e3779b97f4a7c15ULL >> 20 & (account->slot_nr - 1);
}

/* Where the block is, or the free place where it would be. Not to be called on a full table. */
static inline uint64_t ledger_find(const struct account *account, uint64_t address)
{
	uint64_t at = ledger_slot(account, address);

	while (account->block[at].address && account->block[at].address != address)
		at = (at + 1) & (account->slot_nr - 1);
	return at;
}

#endif
