// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A program with its own operator new: blocks of malloc behind a header, or, with -DPOOL, pieces of an array. Operator
 * delete is inlined where the compiler likes. Some callers have names that libraries use, too. With -DOWN_MALLOC it has
 * its own malloc, too; with -DNEXT, malloc is called by a pointer.
 */
#include <new>

#include "workload.h"

#define BLOCKS 100

#ifdef OWN_MALLOC
#include <string.h>

static char heap[16 << 20] __attribute__((aligned(16)));
static size_t heap_used;

extern "C" SITE void *malloc(size_t size)
{
	size_t *block = reinterpret_cast<size_t *>(heap + heap_used);

	heap_used += (size + 31) & ~15ul;
	if (heap_used > sizeof(heap))
		return nullptr;
	*block = size;
	return block + 2;
}

extern "C" SITE void free(void *block)
{
	asm volatile("" : : "r"(block) : "memory");
}

extern "C" SITE void *calloc(size_t count, size_t size)
{
	return malloc(count * size); /* never given out before: it is zero */
}

extern "C" SITE void *realloc(void *old, size_t size)
{
	void *block = malloc(size);

	if (old && block)
		memcpy(block, old, size < static_cast<size_t *>(old)[-2] ? size : static_cast<size_t *>(old)[-2]);
	return block;
}
#endif

#ifdef POOL
static char pool[1 << 20];
static size_t used;

SITE static void *take(size_t size)
{
	used += (size + 15) & ~15ul;
	return pool + used - size;
}

static void give(void *block)
{
	asm volatile("" : : "r"(block) : "memory");
}
#else
#ifdef NEXT
#include <dlfcn.h>

static void *next_malloc(size_t size)
{
	static void *(*const next)(size_t) = reinterpret_cast<void *(*)(size_t)>(dlsym(RTLD_NEXT, "malloc"));

	return next(size);
}
#else
#define next_malloc malloc
#endif

static size_t live;

/* The count keeps the call of malloc from being the last, and so from becoming a jump. */
SITE static void *take(size_t size)
{
	size_t *block = static_cast<size_t *>(next_malloc(size + 16));

	*block = size;
	live += size;
	return block + 2;
}

static void give(void *block)
{
	size_t *header = static_cast<size_t *>(block) - 2;

	live -= *header;
	free(header);
}
#endif

SITE void *operator new(size_t size)
{
	void *block = take(size);

	asm volatile("" : : : "memory"); /* not a jump, either */
	return block;
}

void operator delete(void *block) noexcept
{
	give(block);
}

void operator delete(void *block, size_t) noexcept
{
	give(block);
}

struct Order {
	char bytes[40];

	SITE static void *operator new(size_t size)
	{
		void *block = ::operator new(size);

		asm volatile("" : : : "memory");
		return block;
	}

#ifndef POOL
	/* The global operator delete is passed by, as where the compiler has inlined it. */
	static void operator delete(void *block)
	{
		give(block);
	}
#endif
};

struct Session {
	char bytes[200];
};

static Session *session[BLOCKS];
static char *item[BLOCKS];
static Order *order[BLOCKS];

namespace core {
struct Cache {
	SITE void put()
	{
		for (Session *&place : session)
			place = new Session;
	}
};
}

/* libstdc++ has the operator new[] that is called: in three steps, it calls the operator new above. */
extern "C" SITE void g_list_of_items(void)
{
	for (char *&place : item)
#ifdef OWN_MALLOC
		place = new (std::nothrow) char[300];
#else
		place = static_cast<char *>(operator new(300));
#endif
}

namespace alloc {
SITE void orders()
{
	for (Order *&place : order)
		place = new Order;
}
}

/* Half of each. */
SITE static void free_some(void)
{
	for (int i = 0; i < BLOCKS; i += 2) {
		delete session[i];
		operator delete(item[i]);
		delete order[i];
	}
}

int main()
{
	core::Cache cache;

	ready();
	while (!strcmp(next_command(), "go")) {
		cache.put();
		g_list_of_items();
		alloc::orders();
		free_some();
		answer("{\"done\": {\"blocks\": %d}}", BLOCKS / 2);
	}
	return 0;
}
