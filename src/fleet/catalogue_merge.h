/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CATALOGUE_MERGE_H
#define ALLOCSNAP_FLEET_CATALOGUE_MERGE_H

/*
 * Several catalogues as one, in memory: the facts and names of all, and the rows of chosen snapshots. A snapshot that
 * several catalogues have is there once.
 */

#include "fleet/catalogue.h"
#include "fleet/selection.h"

struct catalogue_merge;

/* Returns 0, or a negative errno and a line in *why, as catalogue__open() and the function below do. */
int catalogue_merge__new(const char *const *path, size_t path_nr, struct catalogue_merge **ret, struct reason *why);
void catalogue_merge__free(struct catalogue_merge *merge); /* NULL is allowed */

/* The catalogue; it is the caller's to close. */
struct catalogue *catalogue_merge__catalogue(const struct catalogue_merge *merge);

/* Brings the rows of the cohorts. Called once, before any are read. */
int catalogue_merge__read(struct catalogue_merge *merge, const struct cohort *const *cohort, size_t cohort_nr,
			  struct reason *why);

#endif
