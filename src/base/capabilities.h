/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_CAPABILITIES_H
#define ALLOCSNAP_BASE_CAPABILITIES_H

/*
 * Capabilities (capabilities(7)) as sets: bit N is capability N of linux/capability.h. They are a
 * thread's own: of the calling one here, and of the threads and processes that it starts afterwards.
 */

#include <stdint.h>

#define CAPABILITY(number) (UINT64_C(1) << (number))

/* The effective ones; none where that cannot be read. */
uint64_t capabilities_held(void);

/*
 * Takes some away for a moment, from what is effective only, so that something can be tried without
 * them; *ret_before is for capabilities_restore(). 0 or a negative errno.
 */
int capabilities_lower(uint64_t lowered, uint64_t *ret_before);
int capabilities_restore(uint64_t before);

/*
 * Gives up all but these, for good, in all five sets; nothing that is executed gets any back
 * (no_new_privs). The bounding set needs CAP_SETPCAP, and is left to no_new_privs where that is
 * missing. 0 or a negative errno.
 */
int capabilities_keep(uint64_t kept);

#endif
