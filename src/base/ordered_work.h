/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_ORDERED_WORK_H
#define ALLOCSNAP_BASE_ORDERED_WORK_H

/*
 * Work in parts: several threads make them, and they are taken one after another in their order. So the sum of all
 * parts is the same to the last bit, however many threads there are.
 */

#include <stddef.h>

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
