// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The ledger's contents: a table of blocks and a few sums, under one lock. */
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "own.h"

static void lock(void)
{
	while (__atomic_exchange_n(&books->lock, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void unlock(void)
{
	__atomic_store_n(&books->lock, 0, __ATOMIC_RELEASE);
}

static void put(uint64_t address, uint64_t size)
{
	uint64_t at = ledger_find(books, address);

	if (books->current_blocks > books->slot_nr / 4 * 3) {
		books->blocks_dropped++;
		return;
	}
	books->blocks_replaced += books->block[at].address != 0;
	books->block[at] = (struct ledger_block){ address, size };
}

/* Closes the hole: moves entries that a full place had pushed on, so that each is found from its own place again. */
static void close_hole(uint64_t hole)
{
	uint64_t mask = books->slot_nr - 1;

	for (uint64_t at = (hole + 1) & mask; books->block[at].address; at = (at + 1) & mask) {
		uint64_t home = ledger_slot(books, books->block[at].address);

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		books->block[hole] = books->block[at];
		hole = at;
	}
	books->block[hole] = (struct ledger_block){};
}

static bool take(uint64_t address, uint64_t *ret_size)
{
	uint64_t at = ledger_find(books, address);

	if (!books->block[at].address)
		return false;
	*ret_size = books->block[at].size;
	close_hole(at);
	return true;
}

/* Goes no further until somebody has looked. */
static void stop_here(void)
{
	static unsigned int nr;

	if (books->allocations != stop_after[nr])
		return;
	nr++;
	kill(getpid(), SIGSTOP);
}

static void count_entered(uint64_t size)
{
	books->allocations++;
	books->allocated_bytes += size;
	books->current_blocks++;
	books->current_bytes += size;
	if (books->peak_bytes < books->current_bytes)
		books->peak_bytes = books->current_bytes;
	stop_here();
}

static void count_removed(uint64_t size)
{
	books->frees++;
	books->freed_bytes += size;
	books->current_blocks--;
	books->current_bytes -= size;
}

/* The probes may still be at this thread's previous call, or at this one when it is over. */
static void weigh(struct ledger_call *call, uint64_t bytes)
{
	uint64_t weight = call->bytes > bytes ? call->bytes : bytes;

	books->in_flight += weight - call->weight;
	call->weight = weight;
	call->bytes = bytes;
	if (books->most_in_flight < books->in_flight)
		books->most_in_flight = books->in_flight;
}

void record_allocation(struct ledger_call *call, void *p, uint64_t size)
{
	lock();
	weigh(call, p ? size : 0);
	call->result = (uint64_t)p;
	if (p) {
		put((uint64_t)p, size);
		count_entered(size);
	} else {
		books->failed_calls++;
	}
	unlock();
}

void record_free(struct ledger_call *call, void *p)
{
	uint64_t size = 0;

	lock();
	if (take((uint64_t)p, &size))
		count_removed(size);
	else
		books->unknown_frees++;
	weigh(call, size);
	unlock();
}

/* Another thread may get the address before realloc returns. */
bool begin_realloc(void *p, uint64_t *ret_old_size)
{
	bool was_there;

	lock();
	was_there = p && take((uint64_t)p, ret_old_size);
	unlock();
	return was_there;
}

void end_realloc(struct ledger_call *call, bool was_there, uint64_t old_size, void *p,
		 uint64_t size)
{
	bool has_failed = !p && size;

	lock();
	weigh(call, old_size + (p ? size : 0));
	call->result = (uint64_t)p;
	if (was_there && has_failed)
		put(call->pointer, old_size);
	else if (was_there)
		count_removed(old_size);
	else if (call->pointer && !has_failed)
		books->unknown_frees++;
	if (p) {
		put((uint64_t)p, size);
		count_entered(size);
	} else {
		books->failed_calls++;
	}
	unlock();
}

void forget_call(struct ledger_call *call)
{
	lock();
	books->threads_ended++;
	books->in_flight -= call->weight;
	call->weight = call->bytes = 0;
	unlock();
}
