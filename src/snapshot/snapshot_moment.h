/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_MOMENT_H
#define ALLOCSNAP_SNAPSHOT_MOMENT_H

/* When a snapshot was taken (base/moment.h), from its metadata. */

#include "base/moment.h"

struct snapshot;

/* wall_ns 0: not known. */
struct moment snapshot_moment(const struct snapshot *snapshot);

/* Reads no more of a file than that takes. Returns 0, or a negative errno if the file cannot be read. */
int snapshot_moment_read(const char *path, struct moment *ret);

#endif
