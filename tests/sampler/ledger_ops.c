// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ledger_ops.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trap.h"

#define REPORTS_MAX 20
#define PAGE 4096

_Atomic long check_failures, checks;
uint64_t intervals[4];

void check(int is_good, const char *what, ...)
{
	va_list args;

	checks++;
	if (is_good || check_failures++ >= REPORTS_MAX)
		return;
	va_start(args, what);
	fprintf(stderr, "exercise: ");
	vfprintf(stderr, what, args);
	fprintf(stderr, "\n");
	va_end(args);
}

double weight_of(double size, double interval)
{
	return size / -expm1(-size / interval);
}

static int is_weight(double weight, double size)
{
	for (int i = 0; i < 4 && intervals[i]; i++)
		if (fabs(weight - weight_of(size, intervals[i])) <= 1 + 1e-6 * weight)
			return 1;
	return 0;
}

/* The events from `at` on belong to this call: none, or this block's event. Returns the weight. */
static double check_alloc(int at, const void *address, size_t size)
{
	const struct event *event = &seen.event[at];

	check(seen.nr <= at + 1, "%d events in a call for %zu bytes", seen.nr, size);
	if (seen.nr <= at || at >= EVENTS_MAX)
		return 0;
	check(event->is_alloc, "a free of %lx in an allocation", (long)event->address);
	check(event->address == (uintptr_t)address && event->size == size, "told %lx of %ld, got %p of %zu",
	      (long)event->address, (long)event->size, address, size);
	check(is_weight(event->weight, size), "%zu bytes have the weight %ld", size, (long)event->weight);
	return event->weight;
}

/* The first event is the free of the block if the block was reported. Returns how many events that takes. */
static int check_free(const struct block *block)
{
	int wanted = block->weight != 0;

	if (!wanted)
		return 0;
	check(seen.nr >= 1 && !seen.event[0].is_alloc && seen.event[0].address == (uintptr_t)block->address,
	      "the free of %p is not told", block->address);
	return 1;
}

static void *allocate(enum way way, size_t size)
{
	void *address = NULL;

	switch (way) {
	case WAY_CALLOC:
		return size % 4 ? calloc(1, size) : calloc(size / 4, 4);
	case WAY_REALLOC:
		return realloc(NULL, size);
	case WAY_REALLOCARRAY:
		return size % 4 ? reallocarray(NULL, size, 1) : reallocarray(NULL, size / 4, 4);
	case WAY_MEMALIGN:
		return memalign(64, size);
	case WAY_ALIGNED_ALLOC:
		return aligned_alloc(16, size);
	case WAY_POSIX_MEMALIGN:
		return posix_memalign(&address, sizeof(void *), size) ? NULL : address;
	case WAY_POSIX_MEMALIGN_PAGE:
		return posix_memalign(&address, PAGE, size) ? NULL : address;
	case WAY_VALLOC:
		return valloc(size);
	case WAY_PVALLOC:
#ifdef __GLIBC__
		/* Before jemalloc, which has none, the C library's would give out a block that jemalloc cannot free. */
		return getenv("NO_PVALLOC") ? valloc(size) : pvalloc(size);
#else
		return valloc(size);
#endif
	default:
		return malloc(size);
	}
}

struct block block_allocate(enum way way, size_t size)
{
	struct block block = { .size = size };

	seen.nr = 0;
	block.address = allocate(way, size);
	check(block.address || !size, "no memory for %zu bytes", size);
	block.weight = check_alloc(0, block.address, size);
	if (block.address && size)
		memset(block.address, 0x5a, size);
	return block;
}

void block_free(struct block *block)
{
	seen.nr = 0;
	free(block->address);
	check(seen.nr == check_free(block), "%d events in a free", seen.nr);
	*block = (struct block){};
}

static int is_filled(const unsigned char *byte, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (byte[i] != 0x5a)
			return 0;
	return 1;
}

void block_resize(struct block *block, size_t size)
{
	struct block old = *block;
	void *address;
	int at;

	seen.nr = 0;
	address = realloc(block->address, size);
	at = check_free(&old);
	if (!address && size) { /* it failed: the old block is reported again, with its old weight */
		check(seen.nr == 2 * at, "%d events in a realloc that fails", seen.nr);
		if (at)
			check(seen.event[1].is_alloc && seen.event[1].address == (uintptr_t)old.address &&
				      seen.event[1].size == old.size && seen.event[1].weight == old.weight,
			      "a failed realloc tells another block");
		return;
	}
	*block = (struct block){ address, size, check_alloc(at, address, size) };
	if (!size)
		check(seen.nr == at, "an event for 0 bytes");
	check(is_filled(address, old.size < size ? old.size : size), "realloc lost bytes");
	if (address && size)
		memset(address, 0x5a, size);
}
