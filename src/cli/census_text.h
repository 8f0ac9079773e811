/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CENSUS_TEXT_H
#define ALLOCSNAP_CLI_CENSUS_TEXT_H

#include <stdint.h>
#include <stdio.h>

#include "base/units.h"

struct census;
struct census_sum;

/*
 * Writes a census: what is in use, free and elsewhere, what that means, then tables of at most `top` rows (0: all).
 * Returns 0 or a negative errno.
 */
int census_text(FILE *out, const struct census *census, uint64_t top);

/* ---- parts that a diff has, too ---- */

/* Resident bytes, by what they are. */
struct census_shares {
	uint64_t in_use, free, elsewhere;
};
struct census_shares census_shares_of(const struct census *census, const struct census_sum *sum);

/* "64 B", "to 4096 B". Returns text. */
const char *census_class_label(char text[UNIT_TEXT_MAX], size_t class);

/* The name of a type of Python, or what blocks without an object are. */
const char *census_type_label(const char *name);

/* An empty line, then the names of the columns. */
__attribute__((format(printf, 2, 3))) int census_put_table_head(FILE *out, const char *fmt, ...);

/* Says that a table of `top` rows has left some of `nr` out. */
int census_put_more(FILE *out, uint64_t top, size_t nr);
int census_put_losses(FILE *out, const struct census *census);

#endif
