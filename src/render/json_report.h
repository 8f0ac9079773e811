/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_JSON_REPORT_H
#define ALLOCSNAP_RENDER_JSON_REPORT_H

/*
 * Members of JSON reports, common to all kinds of rows. Each function sets the members that are known, and returns 0
 * or -ENOMEM.
 */

#include <jansson.h>

#include "render.h"

/* "schema", "key_type", "measure", "cumulative", "selection" or "baseline" and "candidate", "sampling", "gap_blocks" */
int json_set_origin(json_t *head, const struct report *report, const char *schema);

/* "warnings", "losses" */
int json_set_doubts(json_t *head, const struct report *report);

/* "key", "name", "traceback": they identify the group */
int json_set_group(json_t *object, const struct report *report, const struct statistic *statistic);

/* "size", "count", and "size_diff", "count_diff"; diff may be NULL */
int json_set_sizes(json_t *object, const struct cost *cost, const struct cost *diff);

#endif
