/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_LATE_FUNCTIONS_H
#define ALLOCSNAP_COLLECT_LATE_FUNCTIONS_H

/*
 * Functions that were probed when the process could have called them already: of which the process had mapped the
 * object earlier.
 */

#include <stddef.h>
#include <stdint.h>

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

#endif
