/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CENSUS_CENSUS_JSON_H
#define ALLOCSNAP_CENSUS_CENSUS_JSON_H

/* A census as JSON, schema allocsnap.census/1 (docs/json.md), and back. What is read may be from anybody. */

#include <jansson.h>

#include "census/census.h"
#include "render/emitter.h"

#define CENSUS_SCHEMA "allocsnap.census/1"
#define CENSUS_JSON_MOST (256u << 20) /* bytes of a census that is read */

void emit_census(struct emitter *out, const struct census *census);
json_t *census_to_json(const struct census *census); /* NULL: no memory */

/* The same from text, or from a file: also -errno of opening and reading it. */
int census_from_text(const char *text, size_t bytes, struct census *ret, struct reason *why);
int census_from_file(const char *path, struct census *ret, struct reason *why);

#endif
