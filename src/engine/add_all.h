/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_ADD_ALL_H
#define ALLOCSNAP_ENGINE_ADD_ALL_H

#include "engine.h"
#include "snapshot.h"

/*
 * Adds every trace to the cost of its traceback, without a test for each trace: there may be
 * millions. Uses two threads if there are many traces and more than one processor. cost: zeroed, by
 * traceback id. Returns false if the sum of all sizes may not fit into 63 bits; cost is then
 * invalid.
 */
bool add_all_traces(struct cost *cost, const struct snapshot_tables *tables);

#endif
