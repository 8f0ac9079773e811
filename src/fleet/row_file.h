/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_ROW_FILE_H
#define ALLOCSNAP_FLEET_ROW_FILE_H

/* Row tables in a new file of SQLite, which is there completely or not at all. */

#include "fleet/row_tables.h"

struct row_file;

/* Returns 0, or a negative errno and a line in *why. */
int row_file__create(const char *path, struct row_file **ret, struct reason *why);

struct row_sink *row_file__sink(struct row_file *file);

/* Gives the file its name; a file of that name is replaced. Returns 0, or a negative errno and a line in *why. */
int row_file__finish(struct row_file *file, struct reason *why);

/* After a failure the file is gone. NULL is allowed. */
void row_file__free(struct row_file *file);

#endif
