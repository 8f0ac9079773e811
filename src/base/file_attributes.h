/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_FILE_ATTRIBUTES_H
#define ALLOCSNAP_BASE_FILE_ATTRIBUTES_H

#include <sys/stat.h>

/*
 * Gives a file the owner, the extended attributes (ACLs and labels are such) and the mode of another one, which
 * from_fd, that may be O_PATH, stands for and old describes: 0, or a negative errno where one of
 * them cannot be had. The bits for set-user-ID and the like are not passed on.
 */
int file_attributes_copy(int to_fd, int from_fd, const struct stat *old);

#endif
