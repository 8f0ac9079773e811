/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUILD_RETIRED_TRACEBACKS_H
#define ALLOCSNAP_COLLECT_BUILD_RETIRED_TRACEBACKS_H

/*
 * A traceback is retired when it is no longer in the map and no block has it: only its churn is still of use. A
 * program can make new tracebacks forever. So each target keeps the retired_most() retired tracebacks that have
 * allocated the most bytes, and the churn of all others becomes one sum (tracebacks->others). The places of
 * forgotten tracebacks are removed, too.
 */

#include "collect/drain/block_set.h"
#include "collect/target/tracebacks.h"

#define RETIRED_MOST 16384
#define RETIRED_ALL 131072 /* of all targets together: some 100 MiB */
#define RETIRED_LEAST 256

/* How many retired tracebacks each of so many targets may keep. */
size_t retired_most(size_t target_nr);

/*
 * At a drain, between resolve_held() and resolve_drained(). blocks: the blocks drained from the target's image;
 * NULL: none. most: how many retired tracebacks stay. 0, or -ENOMEM and nothing has changed.
 */
int forget_retired(struct tracebacks *tracebacks, const struct image_blocks *blocks, size_t most);

/*
 * Whether the map has more than RETIRED_MOST tracebacks of the target that hold no block. Each snapshot has them,
 * too.
 */
bool has_many_unused_tracebacks(const struct tracebacks *tracebacks, const struct image_blocks *blocks);

#endif
