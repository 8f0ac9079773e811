/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_CAPABILITIES_H
#define ALLOCSNAP_BASE_CAPABILITIES_H

/*
 * Capabilities (capabilities(7)) as sets: bit N is capability N of linux/capability.h. They belong
 * to a thread: here to the calling one, and to the threads and processes that it starts afterwards.
 */

#include <stdint.h>

#define CAPABILITY(number) (UINT64_C(1) << (number))

/* The effective capabilities; none if they cannot be read. */
uint64_t capabilities_held(void);

/*
 * Removes capabilities from the effective set only, so that the caller can try something without
 * them. capabilities_restore() takes *ret_before to undo this. 0 or a negative errno.
 */
int capabilities_lower(uint64_t lowered, uint64_t *ret_before);
int capabilities_restore(uint64_t before);

/*
 * Gives up all capabilities except these, for good, in all five sets; executed programs do not
 * regain any (no_new_privs). Changing the bounding set needs CAP_SETPCAP; without it, no_new_privs
 * has to suffice. 0 or a negative errno.
 */
int capabilities_keep(uint64_t kept);

#endif
