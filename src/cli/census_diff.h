/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CENSUS_DIFF_H
#define ALLOCSNAP_CLI_CENSUS_DIFF_H

/* The change from one census to another one, as text, and as JSON of schema allocsnap.census.diff/1. */

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

struct census;

#define CENSUS_DIFF_SCHEMA "allocsnap.census.diff/1"

int census_diff_text(FILE *out, const struct census *old, const struct census *new, uint64_t top);
json_t *census_diff_json(const struct census *old, const struct census *new); /* NULL: no memory */

#endif
