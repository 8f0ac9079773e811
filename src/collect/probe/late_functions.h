/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_LATE_FUNCTIONS_H
#define ALLOCSNAP_COLLECT_PROBE_LATE_FUNCTIONS_H

/*
 * Functions that were probed when the process could have called them already: of which the process had mapped the
 * object earlier.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mappings;
struct objects;
struct probes;

/* An object that the image maps, and since when. Functions that are probed later than that are late. */
struct seen_object {
	uint32_t object;
	uint64_t since_ns;
};

/* Zeroed: no object was seen. */
struct late_functions {
	struct seen_object *seen; /* each object once */
	size_t seen_nr, seen_alloc;
	size_t judged_nr; /* the first of `seen`: their late functions are in nr */
	uint64_t nr;	  /* late functions */
};

/* An object is mapped since then, if it was not before. 0 or -ENOMEM. */
int late_functions_see(struct late_functions *late, uint32_t object, uint64_t since_ns);
int late_functions_see_all(struct late_functions *late, const struct mappings *mappings, uint64_t since_ns);

/*
 * Counts functions that were probed after the process had mapped them, no matter for which process, and those
 * that could not be probed before the process ended. with_heap is as for probes_attach().
 */
void late_functions_count(struct late_functions *late, const struct objects *objects, const struct probes *probes,
			  bool with_heap, bool has_ended);

/* Objects with goes[index] set are dropped: no mapping is of one. */
void late_functions_forget(struct late_functions *late, const bool *goes);

/* After an exec: nothing was seen. */
void late_functions_begin_image(struct late_functions *late);

void late_functions_release(struct late_functions *late);

#endif
