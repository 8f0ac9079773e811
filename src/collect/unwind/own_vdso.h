/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_OWN_VDSO_H
#define ALLOCSNAP_COLLECT_OWN_VDSO_H

/*
 * The kernel gives all 64-bit processes one vDSO, and each may write to its own copy. So what is true of
 * the vDSO is read from ours, never from another process.
 */

#include <stddef.h>

/* Our vDSO, if it has that many bytes; NULL: it has not, or we have none. */
const void *own_vdso(size_t bytes);

#endif
