// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/container_id.h"

#include <string.h>

const char *container_id(const char *cgroup, char id[CONTAINER_ID_LEN + 1])
{
	static const char digits[] = "0123456789abcdef";

	*id = '\0';
	for (const char *at = cgroup; *at; at += strcspn(at, digits)) {
		size_t len = strspn(at, digits);

		if (len == CONTAINER_ID_LEN) {
			memcpy(id, at, len);
			id[len] = '\0';
		}
		at += len;
	}
	return id;
}
