/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef FLEET_DATA_ROWS_H
#define FLEET_DATA_ROWS_H

#include "model.h"

/*
 * The row tables of tests/fleet/tables.sql, in a new SQLite file: what a cluster would have of the same fleet.
 * Ids are numbers of our own. How many rows of allocation there are.
 */
uint64_t rows_write(const struct model *model, const char *path);

#endif
