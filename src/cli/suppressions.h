/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_SUPPRESSIONS_H
#define ALLOCSNAP_CLI_SUPPRESSIONS_H

struct chosen;

/*
 * Adds an exclusive filter for each pattern of a file of suppressions: one a line; # begins a comment. Returns an exit
 * status; logs failures.
 */
int suppressions_read(const char *path, struct chosen *chosen);

#endif
