/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_FORGET_H
#define ALLOCSNAP_COLLECT_FORGET_H

/*
 * A traceback is retired when it has left the map and no block has it: nothing but its churn is wanted
 * of it. A program can have new ones for ever; so of each target the retired_most() that have allocated the
 * most bytes stay, and the churn of all others becomes one sum (target->others). The places of these go,
 * and target->place has those of known tracebacks only.
 */

#include "collect/drain/drained_blocks.h"
#include "collect/target/target.h"

#define RETIRED_MOST 16384
#define RETIRED_ALL 131072 /* of all targets together: some 100 MiB */
#define RETIRED_LEAST 256

/* How many retired tracebacks each of so many targets may keep. */
size_t retired_most(size_t target_nr);

/*
 * At a drain, between resolve_held() and resolve_drained(). blocks: those drained of the target's image;
 * NULL: none. most: the retired ones that stay. 0 or -ENOMEM, and then nothing has changed.
 */
int forget_retired(struct target *target, const struct image_blocks *blocks, size_t most);

/* Whether more tracebacks than that hold nothing, but stay in the map, and so in each snapshot. */
bool has_many_unused(const struct target *target, const struct image_blocks *blocks);

#endif
