/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_FLEET_H
#define ALLOCSNAP_RENDER_FLEET_H

/* How groups differ between hosts, and how they grow (fleet/spread.h), as text or JSON. */

#include <stdio.h>

#include "fleet/per_host.h"
#include "render.h"

struct fleet_answer {
	const struct report *report; /* the question; its statistics have no rows */
	const struct groups *groups;
	const char *const *host; /* names by number */

	/* Only the answer to the question is set. */
	const struct host_rows *hosts;
	const struct trend_rows *trend;
	const struct leak_rows *leaks;
};

/* Each returns 0, or the negative errno of the write. */
struct fleet_renderer {
	int (*hosts)(FILE *out, const struct fleet_answer *answer);
	int (*trend)(FILE *out, const struct fleet_answer *answer);
	int (*leaks)(FILE *out, const struct fleet_answer *answer);
};

extern const struct fleet_renderer fleet_text, fleet_json;

#endif
