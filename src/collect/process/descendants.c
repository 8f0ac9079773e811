// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/process/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "base/units.h"
#include "collect/process/proc.h"

struct parent_of_pid {
	pid_t pid, parent;
};

struct family {
	struct parent_of_pid *child;
	size_t child_nr, child_alloc;
};

static int read_family(struct family *family)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int err = dir ? 0 : -errno;

	while (!err && (entry = readdir(dir))) {
		struct parent_of_pid child;
		uint64_t pid;

		if (parse_count(entry->d_name, 1, INT32_MAX, &pid) || (pid_t)pid == getpid())
			continue;
		child = (struct parent_of_pid){ pid, proc_parent(pid) };
		if (child.parent)
			err = array_push(family, child, child);
	}
	if (dir)
		closedir(dir);
	return err;
}

static bool has_pid(const pid_t *pid, size_t nr, pid_t wanted)
{
	for (size_t i = 0; i < nr; i++)
		if (pid[i] == wanted)
			return true;
	return false;
}

/* The list grows while it is walked: its new members are asked for their children, too. */
int descendants_find(const pid_t *pid, size_t nr, struct descendants *ret)
{
	struct family family = {};
	int err = read_family(&family);

	*ret = (struct descendants){};
	for (size_t i = 0; i < nr + ret->pid_nr && !err; i++) {
		pid_t parent = i < nr ? pid[i] : ret->pid[i - nr];

		for (size_t k = 0; k < family.child_nr && !err; k++)
			if (family.child[k].parent == parent && !has_pid(pid, nr, family.child[k].pid))
				err = array_push(ret, pid, family.child[k].pid);
	}
	free(family.child);
	return err;
}

void descendants_release(struct descendants *descendants)
{
	free(descendants->pid);
	*descendants = (struct descendants){};
}
