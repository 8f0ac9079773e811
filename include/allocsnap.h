/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_H
#define ALLOCSNAP_H

/*
 * liballocsnap reads, filters, groups, compares and writes snapshots of live heap blocks. It gives other programs the
 * functions of `allocsnap stats`, `diff`, `show` and `convert`. tests/example has a program that uses nothing else.
 *
 * Functions return 0 or a negative errno, or a handle that is NULL with errno set. A function that fails leaves its
 * outputs untouched. Options are structs in which zero is the default. The library prints nothing and has no globals:
 * different threads may use different handles, and may read the same snapshot at the same time.
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
