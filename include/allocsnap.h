/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_H
#define ALLOCSNAP_H

/*
 * liballocsnap: reading, filtering, grouping, comparing and writing snapshots of live heap
 * blocks. What `allocsnap stats`, `diff`, `show` and `convert` do, for other programs. tests/example
 * has one that uses nothing else.
 *
 * Functions return 0 or a negative errno, or a handle that is NULL with errno set; outputs are
 * untouched where they fail. Options are structs in which zero is the default. Nothing is
 * printed, and there are no globals: different threads may use different handles, and read the
 * same snapshot at once.
 */

#ifdef __cplusplus
#define _Static_assert static_assert
extern "C" {
#endif

#include "engine.h"
#include "reason.h"
#include "render.h"
#include "snapshot.h"

#ifdef __cplusplus
}
#undef _Static_assert
#endif

#endif
