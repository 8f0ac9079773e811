// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Runs in the link holder (link_holder.h). */
#include "collect/probe/kept_samplers.h"

#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "collect/probe/link_holder.h"

#define ALL_NS (5 * SECOND_NS)
#define TRY_NS (SECOND_NS / 2) /* then it is another one's turn: a parent must not use up its children's time */
#define BETWEEN_TRIES_NS 100000000

static struct kept_sampler *find_kept_sampler(const struct kept_samplers *kept, pid_t pid)
{
	return array_find(kept, sampler, i, kept->sampler[i].pid == pid);
}

int kept_samplers_add(struct kept_samplers *kept, pid_t pid)
{
	struct kept_sampler *known = find_kept_sampler(kept, pid), sampler = { .pid = pid };

	if (!known)
		return array_push(kept, sampler, sampler);
	*known = sampler;
	return 0;
}

int kept_samplers_tell_files(struct kept_samplers *kept, pid_t pid, const struct inject_file *file, uint32_t nr)
{
	struct kept_sampler *known = find_kept_sampler(kept, pid);

	if (!known || nr > INJECT_ALLOCATORS_MAX)
		return known ? -E2BIG : -ENOENT;
	memcpy(known->file, file, nr * sizeof(*file));
	known->file_nr = nr;
	return 0;
}

static bool is_over(uint64_t until_ns)
{
	return monotonic_now_ns() >= until_ns;
}

static int eject_for_a_while(pid_t pid, uint64_t until_ns, struct eject_result *ret, struct reason *why)
{
	uint64_t now_ns = monotonic_now_ns();

	return inject_eject(pid, 0, now_ns + TRY_NS < until_ns ? now_ns + TRY_NS : until_ns, ret, why);
}

/* A child of vfork() loses what its parent loses. */
static bool has_memory_of(const struct kept_sampler *parent, pid_t pid)
{
	return pid == parent->pid || !syscall(SYS_kcmp, parent->pid, pid, KCMP_VM, 0, 0);
}

/* It was forked from the parent, and has called no exec since: that would have unmapped the file. */
static bool has_file_of(const struct kept_sampler *parent, pid_t pid)
{
	for (uint32_t i = 0; i < parent->file_nr; i++)
		if (inject_has_file(pid, &parent->file[i]))
			return !has_memory_of(parent, pid);
	return false;
}

static bool calls_sampler(pid_t pid)
{
	struct inject_found found;
	struct reason why;

	return !inject_find(pid, &found, &why) && found.is_active;
}

/*
 * Goes through the forked children until the time is over. Returns how many may be ejected another time; *ret says which
 * ones have the file, whether or not they call it.
 */
static uint32_t eject_from_children(const struct kept_sampler *parent, uint64_t until_ns, struct link_holder_ejection *ret)
{
	DIR *dir = parent->file_nr ? opendir("/proc") : NULL;
	uint32_t again_nr = 0;
	struct dirent *entry;

	ret->child_nr = ret->child = 0;
	while (dir && (entry = readdir(dir))) {
		pid_t pid = atoi(entry->d_name);
		struct eject_result ignored;
		struct reason why;

		if (pid <= 0 || !has_file_of(parent, pid))
			continue;
		if (!is_over(until_ns) && calls_sampler(pid))
			again_nr += eject_for_a_while(pid, until_ns, &ignored, &why) == -EAGAIN;
		if (!has_file_of(parent, pid))
			continue;
		ret->child_nr++;
		ret->child = pid;
	}
	if (dir)
		closedir(dir);
	return again_nr;
}

/* By turns, until all is out, or the time is over; the process itself has one try at least. */
static void eject_from_family(struct kept_sampler *sampler, uint64_t until_ns, struct link_holder_ejection *ret)
{
	struct eject_result result = {};
	uint64_t pause_ns;
	uint32_t again_nr;

	/*
	 * The recording was killed before it could say them. The process may have made files of its own, and given them to
	 * others that now count as its children: that costs no more than the time for it.
	 */
	if (!sampler->file_nr)
		sampler->file_nr = inject_files(sampler->pid, sampler->file);
	ret->value = -EAGAIN;
	for (;;) {
		if (ret->value == -EAGAIN)
			ret->value = eject_for_a_while(sampler->pid, until_ns, &result, &ret->why);
		again_nr = eject_from_children(sampler, until_ns, ret);
		pause_ns = inject_pause_ns(BETWEEN_TRIES_NS, result.times.stopped_ns);
		if ((ret->value != -EAGAIN && !again_nr) || is_over(until_ns - pause_ns))
			break;
		nanosleep(&(struct timespec){ pause_ns / SECOND_NS, pause_ns % SECOND_NS }, NULL);
	}
	ret->function_nr = result.function_nr;
	ret->kept_nr = result.kept_nr;
	ret->stopped_ns = result.times.stopped_ns;
}

void kept_samplers_eject(struct kept_samplers *kept, pid_t pid, struct link_holder_ejection *ret)
{
	struct kept_sampler *known = find_kept_sampler(kept, pid);
	uint64_t now_ns = monotonic_now_ns(), left_ns;

	if (!known) {
		ret->value = -ENOENT;
		return;
	}
	kept->until_ns = kept->until_ns ?: now_ns + ALL_NS;
	left_ns = kept->until_ns > now_ns ? kept->until_ns - now_ns : 0;
	eject_from_family(known, now_ns + left_ns / kept->sampler_nr, ret);
	*known = kept->sampler[--kept->sampler_nr];
}

void kept_samplers_eject_all(struct kept_samplers *kept)
{
	struct link_holder_ejection ignored;

	kept->until_ns = monotonic_now_ns() + 60 * SECOND_NS; /* the recorder is gone: no user waits */
	while (kept->sampler_nr)
		kept_samplers_eject(kept, kept->sampler[0].pid, &ignored);
}
