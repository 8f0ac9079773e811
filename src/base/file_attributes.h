/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_FILE_ATTRIBUTES_H
#define ALLOCSNAP_BASE_FILE_ATTRIBUTES_H

#include <sys/stat.h>

/*
 * Copies the owner, the extended attributes (including ACLs and labels) and the mode from another
 * file. from_fd, which may be O_PATH, is that file; old is its stat. Bits such as set-user-ID are
 * not copied. 0, or a negative errno if one of them cannot be set.
 */
int file_attributes_copy(int to_fd, int from_fd, const struct stat *old);

#endif
