/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_FLEET_H
#define ALLOCSNAP_RENDER_FLEET_H

/* How groups differ between hosts, and which lines leak, as text or JSON. */

#include <stdio.h>

#include "fleet/leaks.h"
#include "fleet/per_host.h"
#include "render.h"

struct fleet_answer {
	const struct report *report; /* the question; its statistics have no rows */
	const struct groups *groups;
	const char *const *host; /* names by number */

	/* Only the answer to the question is set. */
	const struct host_rows *hosts;
	const struct fleet_leaks *leaks;
	bool shows_all; /* leaks: also lines that do not leak */
};

/* Each returns 0, or the negative errno of the write. */
struct fleet_renderer {
	int (*hosts)(FILE *out, const struct fleet_answer *answer);
	int (*leaks)(FILE *out, const struct fleet_answer *answer);
};

extern const struct fleet_renderer fleet_text, fleet_json;

/* How many bundles of leaks may be shown, without a limit. */
size_t fleet_leaks_listed(const struct fleet_answer *answer);

/* The hints about the leaks that are shown (engine/leak_runtime.h): bits. */
unsigned int fleet_leaks_hints(const struct fleet_answer *answer);

/* "2 of 5 processes: 1 with gaps in the recording, 1 without files"; NULL: all were judged. */
#define FLEET_UNJUDGED_MAX 1024
const char *fleet_unjudged_text(char text[FLEET_UNJUDGED_MAX], const struct fleet_leaks *leaks);

/* "gaps", "snapshots", "dropped"… */
const char *fleet_unjudged_name(enum fleet_unjudged unjudged);

#endif
