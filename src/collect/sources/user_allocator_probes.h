/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_USER_ALLOCATOR_PROBES_H
#define ALLOCSNAP_COLLECT_SOURCES_USER_ALLOCATOR_PROBES_H

/*
 * The allocators of --probe. Their functions are probed with those of the heap (probes_attach()). This reports what
 * happened to them: the user may have misspelt a name.
 */

#include "collect/sources/block_sources.h"

extern const struct block_source user_allocator_source;

#endif
