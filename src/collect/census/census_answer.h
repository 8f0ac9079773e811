/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_CENSUS_CENSUS_ANSWER_H
#define ALLOCSNAP_COLLECT_CENSUS_CENSUS_ANSWER_H

/*
 * A census, or the change from one to another, as text or as JSON: what is in use, free and elsewhere, what that means,
 * then tables, of which text has at most `top` rows (0: all).
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct census;

#define CENSUS_DIFF_SCHEMA "allocsnap.census.diff/1"

/* Return 0 or a negative errno. */
int census_put(FILE *file, const struct census *census, uint64_t top, bool is_json);
int census_put_diff(FILE *file, const struct census *old, const struct census *new, uint64_t top, bool is_json);

#endif
