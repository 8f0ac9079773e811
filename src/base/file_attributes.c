// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/file_attributes.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/limits.h>

static int attribute_errno(int result)
{
	return result < 0 ? -errno : 0;
}

/* An attribute that was removed meanwhile is skipped. */
static int copy_attribute(int to_fd, const char *from, const char *name, char *value)
{
	ssize_t len = getxattr(from, name, value, XATTR_SIZE_MAX);

	if (len < 0)
		return errno == ENODATA ? 0 : -errno;
	return attribute_errno(fsetxattr(to_fd, name, value, len, 0));
}

/* Reads by a name below /proc: an O_PATH descriptor does not give access to attributes. */
static int copy_attributes(int to_fd, int from_fd)
{
	char from[64], *list = malloc(XATTR_LIST_MAX), *value = malloc(XATTR_SIZE_MAX);
	ssize_t len = -1;
	int err = list && value ? 0 : -ENOMEM;

	snprintf(from, sizeof(from), "/proc/self/fd/%d", from_fd);
	if (!err) {
		len = listxattr(from, list, XATTR_LIST_MAX);
		err = len < 0 && errno != EOPNOTSUPP ? -errno : 0;
	}
	for (ssize_t at = 0; at < len && !err; at += strlen(list + at) + 1)
		err = copy_attribute(to_fd, from, list + at, value);
	free(list);
	free(value);
	return err;
}

/*
 * Sets the owner first, because a change of the owner clears some bits of the mode. Sets the mode
 * last: for a file with an ACL, the group bits of the mode are the ACL's mask.
 */
int file_attributes_copy(int to_fd, int from_fd, const struct stat *old)
{
	return attribute_errno(fchown(to_fd, old->st_uid, old->st_gid)) ?:
	       copy_attributes(to_fd, from_fd) ?:
	       attribute_errno(fchmod(to_fd, old->st_mode & 0777));
}
