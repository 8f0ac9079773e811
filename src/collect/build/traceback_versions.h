/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUILD_TRACEBACK_VERSIONS_H
#define ALLOCSNAP_COLLECT_BUILD_TRACEBACK_VERSIONS_H

/*
 * The kernel side knows a traceback by its addresses. If these have meant the code of several files, one after another,
 * the traceback has a version for each time. A block has the version of the time of its birth.
 *
 *	first version ──► unplaced ──► version from time 1 on ──► version from time 2 on …
 *
 * The kernel counts the allocations of all versions as one. Those between two drains belong to the version of that time
 * if there was only one. Otherwise each live block counts for its own version, and the rest for the unplaced one, which
 * has no names where the code changed. A traceback that has many versions gets no more: all later blocks are of a last
 * one, which is unplaced.
 */

#include "collect/drain/block_set.h"
#include "process/mappings.h"
#include "collect/target/tracebacks.h"

/* Makes the traceback known, with a version for each time up to now. 0 or -ENOMEM. */
int versions_resolve(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
		     const struct traceback *traceback);

/*
 * Makes the traceback known by the code of that time (HISTORY_ANY: it is not known which), for good: its addresses were no
 * other code then, and the same addresses at another time have another id. 0 or -ENOMEM.
 */
int versions_resolve_then(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
			  const struct traceback *traceback, uint64_t time_ns);

/*
 * Blocks that were born from then on have another traceback, without a name where the code may be another one. 0 or -ENOMEM; the first
 * call counts.
 */
int versions_unplace(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id, const struct traceback *traceback,
		     uint64_t from_ns);

/* Takes over what the map has counted for a traceback: at a drain, or when it has been taken out of the map. */
void versions_count(struct tracebacks *tracebacks, struct known_traceback *known, const struct churn *counted);
void versions_retire(struct tracebacks *tracebacks, struct known_traceback *known, const struct churn *counted);

/* After all tracebacks of a drain are resolved: live blocks count for their versions. blocks: NULL: none. */
void versions_credit(struct tracebacks *tracebacks, const struct image_blocks *blocks, const uint64_t *sample_bytes,
		     uint64_t now_ns);

/*
 * A traceback is retired when it is no longer in the map and no block has it: only its churn is still of use. A
 * program can make new tracebacks forever. So each target keeps the retired_most() retired tracebacks that have
 * allocated the most bytes, and the churn of all others becomes one sum (tracebacks->others). The places of
 * forgotten tracebacks are removed, too.
 */

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
