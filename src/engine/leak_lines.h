/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_LEAK_LINES_H
#define ALLOCSNAP_ENGINE_LEAK_LINES_H

/* From judged sites to lines and bundles (leak_report.h). */

#include "engine/leak_report.h"

/* Judges all sites of the tally and makes the lines. Returns 0, -ENOMEM, or an error with a line in *why. */
int leak_lines_make(struct leaks *leaks, struct leak_tally *tally, const struct engine_options *options,
		    struct reason *why);

/* Orders the lines and bundles those that leak together. Returns 0 or -ENOMEM. */
int leak_bundles_make(struct leaks *leaks);

#endif
