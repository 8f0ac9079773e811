/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_LEAK_PLACE_H
#define ALLOCSNAP_ENGINE_LEAK_PLACE_H

/* Where a line that leaks is called from: the tracebacks of a line (engine/leak_report.h), as frames with names. */

#include "engine/leak_report.h"

struct leak_place_caller {
	struct leak_verdict verdict;
	uint32_t domain, site_nr;
	struct frame_view *frame; /* from the oldest to the line that allocates, wrappers left out */
	uint32_t nframe;	  /* 0: not known */
};

struct leak_place {
	struct leak_place_caller *caller; /* by rate, descending */
	size_t caller_nr;
	size_t all_nr; /* callers that the line has; at least caller_nr */
	char *strings; /* memory of the names, if they are the place's own */
};

/*
 * Reads the first `most` callers of a line. Their names are the snapshot's, which must stay open, unless
 * leak_place_own_names() copies them. Return 0 or -ENOMEM. leak_place_release() ends a place, also after an error.
 */
int leak_place_read(const struct leaks *leaks, const struct leak_line *line, size_t most, struct leak_place *ret);
int leak_place_own_names(struct leak_place *place);
void leak_place_release(struct leak_place *place);

/* Number of frames from the oldest frame, of the first caller; NULL: there is no such frame, or UINT32_MAX. */
const struct frame_view *leak_place_frame(const struct leak_place *place, uint32_t at);

#endif
