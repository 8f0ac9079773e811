/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_INJECT_STACK_WORDS_H
#define ALLOCSNAP_COLLECT_INJECT_STACK_WORDS_H

/*
 * Searches the stacks of stopped threads for addresses: all of a stack of 8 MiB; the last MiB of one that lies in larger
 * memory (a heap). Contexts that a program keeps elsewhere (coroutines that a signal preempted) are not found.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct stopped_threads;
struct target_maps;

struct stack_search {
	bool (*is_wanted)(uint64_t address, const void *context);
	const void *context;
	bool in_frames; /* only where a signal has interrupted a thread, not in words that a function has left behind */
};

/* Returns true and the thread if an address was found. */
bool find_on_stacks(const struct stopped_threads *threads, const struct target_maps *maps, int mem_fd,
		    const struct stack_search *search, pid_t *ret_tid);

#endif
