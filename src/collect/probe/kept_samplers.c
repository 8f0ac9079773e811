// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Runs in the keeper (link_holder.h). */
#include "collect/probe/kept_samplers.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/inject/inject.h"
#include "collect/probe/link_holder_orders.h"

#define TRIES 30
#define BETWEEN_TRIES_NS 100000000

static struct kept_sampler look_at(pid_t pid)
{
	struct kept_sampler sampler = { .pid = pid };
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (!stat(path, &st)) {
		sampler.exe_dev = st.st_dev;
		sampler.exe_inode = st.st_ino;
	}
	return sampler;
}

static struct kept_sampler *find_kept_sampler(const struct kept_samplers *kept, pid_t pid)
{
	for (size_t i = 0; i < kept->sampler_nr; i++)
		if (kept->sampler[i].pid == pid)
			return &kept->sampler[i];
	return NULL;
}

int kept_samplers_add(struct kept_samplers *kept, pid_t pid)
{
	struct kept_sampler *known = find_kept_sampler(kept, pid), sampler = look_at(pid);

	if (!known)
		return array_push(kept, sampler, sampler);
	*known = sampler;
	return 0;
}

static int eject_patiently(pid_t pid, struct eject_result *ret, struct reason *why)
{
	const struct timespec between = { .tv_nsec = BETWEEN_TRIES_NS };
	int err = inject_eject(pid, 0, ret, why);

	for (int i = 1; i < TRIES && err == -EAGAIN; i++) {
		nanosleep(&between, NULL);
		err = inject_eject(pid, 0, ret, why);
	}
	return err;
}

/* A child has the program of its parent, until it calls exec, and the sampler with the name of its owner. */
static bool has_forked_sampler(const struct kept_samplers *kept, const struct kept_sampler *parent, pid_t pid)
{
	struct kept_sampler child = look_at(pid);
	struct inject_found found;
	struct reason why;

	return child.exe_inode == parent->exe_inode && child.exe_dev == parent->exe_dev && pid != parent->pid &&
	       !find_kept_sampler(kept, pid) && !inject_find(pid, &found, &why) && found.is_active && found.owner == getpid();
}

static void eject_from_children(const struct kept_samplers *kept, const struct kept_sampler *parent)
{
	DIR *dir = parent->exe_inode ? opendir("/proc") : NULL;
	struct eject_result ignored;
	struct dirent *entry;
	struct reason why;

	while (dir && (entry = readdir(dir))) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0 && has_forked_sampler(kept, parent, pid))
			eject_patiently(pid, &ignored, &why);
	}
	if (dir)
		closedir(dir);
}

void kept_samplers_eject(struct kept_samplers *kept, pid_t pid, struct link_holder_ejection *ret)
{
	struct kept_sampler *known = find_kept_sampler(kept, pid);
	struct eject_result result = {};

	ret->value = eject_patiently(pid, &result, &ret->why);
	ret->function_nr = result.function_nr;
	ret->kept_nr = result.kept_nr;
	ret->stopped_ns = result.times.stopped_ns;
	if (!known)
		return;
	eject_from_children(kept, known);
	*known = kept->sampler[--kept->sampler_nr];
}

void kept_samplers_eject_all(struct kept_samplers *kept)
{
	struct link_holder_ejection ignored;

	while (kept->sampler_nr)
		kept_samplers_eject(kept, kept->sampler[0].pid, &ignored);
}
