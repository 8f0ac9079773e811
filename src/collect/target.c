// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/reason.h"
#include "collect/proc.h"

/* The process that a thread belongs to. */
static int process_of(pid_t id, pid_t *ret_pid, struct reason *why)
{
	uint64_t tgid;

	if (proc_status(id, "Tgid", &tgid))
		return reason_set(why, -ESRCH, "no process %d", id);
	*ret_pid = tgid;
	return 0;
}

static uint64_t read_rss_bytes(pid_t pid)
{
	uint64_t rss_kib = 0;

	proc_status(pid, "VmRSS", &rss_kib);
	return rss_kib * 1024;
}

/* The probes follow the main thread's memory; a kernel thread has none, nor has one that ended. */
static int check_is_program(pid_t pid, struct reason *why)
{
	uint64_t vm, kernel_thread;

	if (!proc_status(pid, "VmSize", &vm))
		return 0;
	if (!proc_status(pid, "Kthread", &kernel_thread) && kernel_thread)
		return reason_set(why, -ENOTSUP, "process %d is a kernel thread: it has no memory to trace",
				  pid);
	if (proc_live_thread(pid))
		return reason_set(why, -ENOTSUP,
				  "process %d is a kernel thread, or its main thread has ended: it cannot be probed",
				  pid);
	return reason_set(why, -ESRCH, "process %d has ended", pid);
}

/* Takes over what was read, but not nothing for something: the process may just have ended. */
static int replace(char **known, char *text)
{
	if (!text)
		return -ENOMEM;
	if (*known && !*text) {
		free(text);
		return 0;
	}
	free(*known);
	*known = text;
	return 0;
}

static int read_identity(struct target *target)
{
	int err = replace(&target->comm, proc_text(target->pid, "comm"));

	if (!err)
		err = replace(&target->exe, proc_link(target->pid, "exe"));
	return err ?: replace(&target->cmdline, proc_cmdline(target->pid));
}

static int open_process(struct target *target, pid_t id, struct reason *why)
{
	int err = process_of(id, &target->pid, why);

	if (err)
		return err;
	target->pidfd = syscall(SYS_pidfd_open, target->pid, 0);
	if (target->pidfd < 0)
		return reason_set(why, -errno, "cannot open process %d: %s", target->pid,
				  strerror(errno));
	err = check_is_program(target->pid, why);
	if (!err && proc_start_time(target->pid, &target->start_ticks))
		err = reason_set(why, -ESRCH, "process %d has ended", target->pid);
	if (!err)
		err = read_identity(target);
	if (err)
		return err;
	target->cgroup = proc_cgroup(target->pid);
	target->rss_at_start_bytes = read_rss_bytes(target->pid);
	return target->cgroup ? target__refresh(target, why) : -ENOMEM;
}

struct target *target__open(pid_t id, struct reason *why)
{
	struct target *target = calloc(1, sizeof(*target));
	int err = target ? 0 : -ENOMEM;

	if (!err) {
		target->pidfd = -1;
		err = open_process(target, id, why);
	}
	if (!err)
		return target;
	target__free(target);
	errno = -err;
	return NULL;
}

int target__refresh(struct target *target, struct reason *why)
{
	uint64_t rss_bytes = read_rss_bytes(target->pid);

	if (!rss_bytes) { /* it has ended, or only its main thread has */
		target->leaderless_nr += proc_live_thread(target->pid) != 0;
		return 0;
	}
	target->rss_bytes = rss_bytes;
	return mappings_refresh(&target->mappings, target->pid, why);
}

void target__forget_traces(struct target *target)
{
	target->place_nr = 0;
	target->traceback_nr = 0;
	target->frames_unmapped = 0;
	idmap_release(&target->traceback_ids);
}

void target__forget_image(struct target *target)
{
	target->mappings.mapping_nr = 0;
	target->mappings.replaced_nr = target->replaced_nr = 0;
	target__forget_traces(target);
	read_identity(target);
}

void target__free(struct target *target)
{
	if (!target)
		return;
	if (target->pidfd >= 0)
		close(target->pidfd);
	mappings_release(&target->mappings);
	idmap_release(&target->traceback_ids);
	free(target->place);
	free(target->traceback);
	free(target->comm);
	free(target->exe);
	free(target->cmdline);
	free(target->cgroup);
	free(target);
}
