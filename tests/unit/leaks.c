// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Criterion runs each test in a process of its own, started by one that only collects results. That
 * one now and then loses 48 bytes of its own: leaks are looked for in the others.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int __lsan_is_turned_off(void);

/* True unless our parent is this program, too. */
int __lsan_is_turned_off(void)
{
	char path[64], ours[PATH_MAX] = "", parents[PATH_MAX] = "";

	snprintf(path, sizeof(path), "/proc/%d/exe", getppid());
	return readlink("/proc/self/exe", ours, sizeof(ours) - 1) < 0 ||
	       readlink(path, parents, sizeof(parents) - 1) < 0 || strcmp(ours, parents);
}
