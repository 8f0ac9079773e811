/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_SAMPLER_TRAP_H
#define TESTS_SAMPLER_TRAP_H

/*
 * Listens to the probes of the preloaded library from inside of its process, without the kernel's help: it finds their
 * notes in the file, raises the semaphores, and puts int3 in place of the nops. A trap adds an event to its thread's
 * list.
 */

#include <stdbool.h>
#include <stdint.h>

#include "sampler/sampler_info.h"

struct event {
	bool is_alloc;
	uint64_t address, size, weight;
};

#define EVENTS_MAX 8

/* The events of a thread since it last cleared its list. */
struct events {
	int nr; /* may be above EVENTS_MAX */
	struct event event[EVENTS_MAX];
};

extern __thread struct events seen;

/* Exits with a line on stderr if the library is not there, or not as it should be. */
void trap_find_library(void);
void trap_listen(void);
void trap_stop_listening(void);

/* The library's description of itself, found by the file's symbols. */
extern struct sampler_info *trap_info;
extern char trap_path[4096];

#endif
