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
int fleet_put_hosts(FILE *file, const struct fleet_answer *answer, bool is_json);
int fleet_put_leaks(FILE *file, const struct fleet_answer *answer, bool is_json);

#endif
