// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/mounts.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"

static const struct {
	const char *path, *mount;
	int mode;
} needed[] = {
	{ "/dev/null", "/dev", R_OK | W_OK },
	{ "/proc/self/stat", "/proc", R_OK },
	{ "/sys/devices/system", "/sys", R_OK },
};

int mounts_check(struct reason *why)
{
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (access(needed[i].path, needed[i].mode))
			return reason_set(why, -errno, "%s: %s; allocsnap needs the machine's %s, in a container, too",
					  needed[i].path, strerror(errno), needed[i].mount);
	return 0;
}
