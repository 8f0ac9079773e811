/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_SUDO_USER_H
#define ALLOCSNAP_BASE_SUDO_USER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The user who ran sudo, as SUDO_UID and SUDO_GID tell it. False if this process is not root, if a variable is missing
 * or no id, or if that user is root.
 */
bool sudo_user_find(uid_t *ret_uid, gid_t *ret_gid);

#endif
