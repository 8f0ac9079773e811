/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_PARALLEL_H
#define ALLOCSNAP_BASE_PARALLEL_H

#include <stddef.h>

/* The number of processors that this process may run on; at least 1. */
unsigned int processor_nr(void);

/*
 * Runs run(what) in `nr` threads at once: in this one and in as many others as can be started.
 * Returns when all have returned.
 */
void run_by(unsigned int nr, void (*run)(void *what), void *what);

/* Runs run(a) and run(b), at once if a thread can be started. Returns when both have returned. */
void run_both(void (*run)(void *part), void *a, void *b);

/*
 * Work in parts: several threads make them, and they are taken one after another in their order. So the sum of all
 * parts is the same to the last bit, however many threads there are.
 */

#define ORDERED_PLACES 16 /* parts that are made or wait to be taken, at most */

struct ordered_work {
	size_t nr; /* parts */
	/* Makes part `at`, in any thread. Until it is taken, no other part has the same place, below ORDERED_PLACES. */
	void (*make)(void *what, size_t at, unsigned int place);
	/*
	 * Takes it, in one thread at a time. After an error no more parts are begun, but those that were begun are
	 * taken, too.
	 */
	int (*take)(void *what, size_t at, unsigned int place);
	void *what;
};

/* Returns 0 or the first error of take(). */
int ordered_work_run(const struct ordered_work *work, unsigned int thread_nr);

#endif
