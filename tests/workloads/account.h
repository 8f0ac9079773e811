/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_WORKLOAD_ACCOUNT_H
#define ALLOCSNAP_WORKLOAD_ACCOUNT_H

/*
 * The program's own counts: the blocks that each of its threads has allocated and freed, and at which line of one
 * file. Nothing here allocates.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "workload.h"

#define KEPT_MAX 1024
#define ACCOUNT_LINES 1000

struct kept {
	void *pointer;
	size_t size;
	int line;
};

struct totals {
	long allocations, allocated_bytes, frees, freed_bytes, failed_calls, unknown_frees;
};

/* The blocks of one thread, and its totals. Worker 0 is the main thread. */
struct worker {
	pthread_t thread;
	int index;
	int kept_nr;
	struct kept kept[KEPT_MAX];
	struct totals totals;
};

static const char *function_of_line[ACCOUNT_LINES];

static inline void entered(struct worker *w, size_t size)
{
	w->totals.allocations++;
	w->totals.allocated_bytes += size;
}

static inline void removed(struct worker *w, size_t size)
{
	w->totals.frees++;
	w->totals.freed_bytes += size;
}

SITE static struct kept *keep(struct worker *w, void *pointer, size_t size, const char *function,
			      int line)
{
	struct kept *kept = &w->kept[w->kept_nr];

	if (!pointer) {
		w->totals.failed_calls++;
		return NULL;
	}
	if (++w->kept_nr > KEPT_MAX)
		abort();
	*kept = (struct kept){ pointer, size, line };
	function_of_line[line] = function;
	entered(w, size);
	return kept;
}

/* Reallocates a kept block; if that fails, the old block stays. */
SITE static void move(struct worker *w, struct kept *old, void *pointer, size_t size,
		      const char *function, int line)
{
	if (pointer) {
		removed(w, old->size);
		old->pointer = NULL;
	}
	keep(w, pointer, size, function, line);
}

#define KEEP(w, call, size) keep(w, call, size, __func__, __LINE__)
#define MOVE(w, old, call, size) move(w, old, call, size, __func__, __LINE__)

[[gnu::unused]] SITE static void drop(struct worker *w, struct kept *kept)
{
	if (!kept->pointer)
		return;
	removed(w, kept->size);
	free(kept->pointer);
	kept->pointer = NULL;
}

struct live {
	long count, size;
};

/* Sums up the blocks that the workers keep, by line, and their totals. */
[[gnu::unused]] static void add_up(const struct worker *worker, int nr, struct live live[ACCOUNT_LINES],
				   struct totals *sum)
{
	for (int i = 0; i < nr; i++) {
		for (int k = 0; k < worker[i].kept_nr; k++) {
			const struct kept *kept = &worker[i].kept[k];

			live[kept->line].count += !!kept->pointer;
			live[kept->line].size += kept->pointer ? kept->size : 0;
		}
		for (size_t k = 0; k < sizeof(*sum) / sizeof(long); k++)
			((long *)sum)[k] += ((long *)&worker[i].totals)[k];
	}
}

[[gnu::unused]] static void answer_account(const struct live live[ACCOUNT_LINES], const struct totals *sum)
{
	struct live all = {};

	for (int line = 0; line < ACCOUNT_LINES; line++) {
		all.count += live[line].count;
		all.size += live[line].size;
		if (live[line].count)
			answer("{\"function\": \"%s\", \"line\": %d, \"count\": %ld, \"size\": %ld}",
			       function_of_line[line], line, live[line].count, live[line].size);
	}
	answer("{\"done\": {\"count\": %ld, \"size\": %ld, \"allocations\": %ld, "
	       "\"allocated_bytes\": %ld, \"frees\": %ld, \"freed_bytes\": %ld, "
	       "\"failed_calls\": %ld, \"unknown_frees\": %ld}}",
	       all.count, all.size, sum->allocations, sum->allocated_bytes, sum->frees,
	       sum->freed_bytes, sum->failed_calls, sum->unknown_frees);
}

[[gnu::unused]] static void report_account(const struct worker *worker, int nr)
{
	static struct live live[ACCOUNT_LINES];
	struct totals sum = {};

	memset(live, 0, sizeof(live));
	add_up(worker, nr, live, &sum);
	answer_account(live, &sum);
}

#endif
