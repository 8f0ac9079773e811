/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_WORKLOAD_H
#define ALLOCSNAP_UNWIND_WORKLOAD_H

/*
 * Programs whose stacks are hard to walk, built as distributions build: optimized, without frame
 * pointers. A command is the name of a row: its function allocates, and the blocks stay. The callers
 * of each block are known by name; the answer has the number of blocks so far.
 */

#include "workload.h"

static volatile long kept_nr;

#ifndef ALLOCATE
#define ALLOCATE(size) malloc(size)
#endif

/* The caller's line is the call site, so that a function is seen to be the direct caller. */
#define KEEP_BLOCK(size) \
	do { \
		void *volatile block_ = ALLOCATE(size); \
		kept_nr += block_ != NULL; \
	} while (0)

/* The compiler must not know how large a frame is, or that a call is the last thing it does. */
#define STAYS_BEHIND(address) __asm__ volatile("" : : "r"(address) : "memory")

struct order {
	const char *name;
	void (*run)(void);
};

static inline void obey_orders(const struct order *order)
{
	for (;;) {
		const char *command = next_command();
		const struct order *found = order;

		while (found->name && strcmp(found->name, command) != 0)
			found++;
		if (!found->name)
			return;
		found->run();
		answer("{\"done\": {\"count\": %ld}}", kept_nr);
	}
}

#endif
