/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_OWN_VDSO_H
#define ALLOCSNAP_COLLECT_OWN_VDSO_H

/*
 * The kernel gives all 64-bit processes the same vDSO, but each process can write to its own copy. So facts about
 * the vDSO are read from the recorder's own, never from another process.
 */

#include <stddef.h>

/* The recorder's vDSO, if it has this many bytes. NULL: its size differs, or the recorder has none. */
const void *own_vdso(size_t bytes);

#endif
