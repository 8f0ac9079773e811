/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_ADD_ALL_H
#define ALLOCSNAP_ENGINE_ADD_ALL_H

#include "engine.h"
#include "snapshot.h"

/*
 * Adds every trace to the cost of its traceback, without a test for each: what there are millions
 * of. Two threads where there are many, and processors for them. cost: zeroed, by traceback id.
 * False where not even the sum of all is known to fit into 63 bits; cost is of no use then.
 */
bool add_all_traces(struct cost *cost, const struct snapshot_tables *tables);

#endif
