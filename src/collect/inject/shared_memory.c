// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether another process uses the memory of one: vfork(), or clone() with CLONE_VM. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reason.h"
#include "collect/inject/inject_private.h"
#include "collect/process/proc.h"

#define SHARED_TRIES 20
#define SHARED_PAUSE_NS 10000000
#define NEW_MAX 4096
#define AGE_MAX_NS (100ull * 1000 * 1000) /* in so short a time the numbers do not begin anew and come back */
#define AMID_CLONE 32 /* a process may have its number for some time before it can be found by it */

/* False if they surely do not: the peak of one and the same memory would lie between two looks at it. */
static bool may_share_memory(pid_t pid, pid_t other)
{
	uint64_t before = 0, peak = 0, after = 0;

	return !proc_status(pid, "VmPeak", &before) && !proc_status(other, "VmPeak", &peak) &&
	       !proc_status(pid, "VmPeak", &after) && before <= peak && peak <= after;
}

/* 1: it does; 0; -errno: it cannot be told. The kernel compares no process with more privileges than ours. */
static int shares_memory(pid_t pid, pid_t other)
{
	long result = syscall(SYS_kcmp, pid, other, KCMP_VM, 0, 0);
	int err = result < 0 ? -errno : 0;

	if (!err)
		return !result;
	return err == -ESRCH || !may_share_memory(pid, other) ? 0 : err;
}

static bool is_thread_of(pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, tid);
	return !access(path, F_OK);
}

/* Each finds a process with the same memory. 1: *ret is one; 0: there is none; -errno, with *ret in question. */
static int find_sharer(pid_t pid, pid_t *ret)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int found = dir ? 0 : -errno;

	*ret = 0;
	while (!found && (entry = readdir(dir))) {
		*ret = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0;
		if (*ret && *ret != pid)
			found = shares_memory(pid, *ret);
	}
	if (dir)
		closedir(dir);
	return found;
}

static int find_new_sharer(pid_t pid, pid_t after, pid_t newest, pid_t *ret)
{
	int found = 0;

	for (*ret = after; !found && *ret < newest;) {
		found = shares_memory(pid, ++*ret);
		if (found > 0 && is_thread_of(pid, *ret))
			found = 0;
	}
	return found;
}

static int refuse_sharer(int found, pid_t other, struct reason *why)
{
	if (found > 0)
		return reason_set(why, -EAGAIN, "process %d uses the same memory (vfork, or clone with CLONE_VM)", other);
	if (found < 0)
		return reason_set(why, found, "cannot find out whether process %d uses the same memory: %s", other,
				  strerror(-found));
	return 0;
}

/* A child of vfork() shares it until its exec. If one is there all the time, it may be another one each time. */
int check_shared_memory(pid_t pid, struct reason *why)
{
	pid_t other;
	int found = find_sharer(pid, &other);

	for (int i = 0; i < SHARED_TRIES && found > 0; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = SHARED_PAUSE_NS }, NULL);
		if (!shares_memory(pid, other))
			return 0;
	}
	return refuse_sharer(found, other, why);
}

struct newest_process newest_process(void)
{
	FILE *file = fopen("/proc/loadavg", "re");
	struct newest_process newest = { .seen_ns = monotonic_now_ns() };

	if (file && fscanf(file, "%*s %*s %*s %*s %d", &newest.pid) != 1)
		newest.pid = 0;
	if (file)
		fclose(file);
	return newest;
}

int check_new_sharers(pid_t pid, const struct newest_process *before, struct reason *why)
{
	struct newest_process now = newest_process();
	pid_t other, first = before->pid > AMID_CLONE ? before->pid - AMID_CLONE : 0;
	int found;

	if (!before->pid || now.pid < before->pid || now.pid - before->pid > NEW_MAX ||
	    now.seen_ns - before->seen_ns > AGE_MAX_NS)
		found = find_sharer(pid, &other);
	else
		found = find_new_sharer(pid, first, now.pid, &other);
	return refuse_sharer(found, other, why);
}
