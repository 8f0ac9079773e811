/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_AGE_H
#define ALLOCSNAP_ENGINE_AGE_H

#include "snapshot.h"

/* The time of the snapshot. 0, or -ENODATA with a line in *why: its blocks have no ages. */
int age_now(const struct snapshot *snapshot, uint64_t *ret_now_ns, struct reason *why);

/* The age of a block; a block that was born later has age 0. */
uint64_t age_of(const struct snapshot_tables *tables, uint64_t at, uint64_t now_ns);

#endif
