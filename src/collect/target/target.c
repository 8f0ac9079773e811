// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/target/target.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "collect/drain/map_reader.h"

/* Finds the process that a thread belongs to. */
static int find_thread_process(pid_t id, pid_t *ret_pid, struct reason *why)
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

void target__read_start_rss(struct target *target)
{
	target->resident.at_start_bytes = read_rss_bytes(target->identity.pid);
}

/*
 * Probes follow the main thread's memory. A kernel thread has none, and neither has a main thread that ended, or a
 * process that is ending.
 */
static int check_is_program(pid_t pid, struct reason *why)
{
	uint64_t vm;
	pid_t live;

	if (!proc_status(pid, "VmSize", &vm))
		return 0;
	if (proc_is_kernel_thread(pid))
		return reason_set(why, -ENOTSUP, "process %d is a kernel thread: it has no memory to trace", pid);
	live = proc_live_thread(pid);
	if (live && live != pid)
		return reason_set(why, -ENOTSUP, "process %d cannot be probed: its main thread has ended", pid);
	return reason_set(why, -ESRCH, "process %d has ended", pid);
}

int target__read_identity(struct target *target)
{
	if (target->identity.cmdline && (target__is_over(target) || target->now.account.has_left))
		return process_identity_read_kept(&target->identity, &target->now.account);
	return process_identity_read(&target->identity);
}

static int open_process(struct target *target, pid_t id, struct reason *why)
{
	int err = find_thread_process(id, &target->identity.pid, why);
	uint64_t uid;

	if (err)
		return err;
	if (!proc_status(target->identity.pid, "Uid", &uid))
		target->mappings.user = objects_user(target->mappings.objects, uid);
	target->identity.pidfd = syscall(SYS_pidfd_open, target->identity.pid, 0);
	if (target->identity.pidfd < 0)
		return reason_set(why, -errno, "cannot open process %d: %s", target->identity.pid,
				  strerror(errno));
	err = check_is_program(target->identity.pid, why);
	if (!err && proc_start_time(target->identity.pid, &target->identity.start_ticks))
		err = reason_set(why, -ESRCH, "process %d has ended", target->identity.pid);
	err = err ?: target__read_identity(target);
	if (err)
		return err;
	target__read_start_rss(target);
	err = process_identity_read_cgroup(&target->identity, target->mappings.objects->cgroups_root) ?: target__refresh(target, why);
	made_code_begin(&target->made_code);
	return err;
}

static struct target *target_new(struct objects *objects)
{
	struct target *target = calloc(1, sizeof(*target));

	if (!target)
		return NULL;
	target->identity.pidfd = target->sampler.memory_fd = target->made_code.fd = -1;
	target->slot = ACCOUNT_NONE;
	target->mappings.objects = objects;
	target->probes.used = &target->probes.own;
	return target;
}

struct target *target__open(pid_t id, struct objects *objects, struct reason *why)
{
	struct target *target = target_new(objects);
	int err = target ? open_process(target, id, why) : -ENOMEM;

	if (!err)
		return target;
	if (target && target->identity.pid && proc_is_ending(target->identity.pid)) /* whatever it was that failed */
		err = reason_set(why, -ESRCH, "process %d has ended", target->identity.pid);
	target__free(target);
	errno = -err;
	return NULL;
}

/* ---- a child ---- */

/* The unit of a start time in /proc/PID/stat (fs/proc/array.c, nsec_to_clock_t). */
uint64_t target__tick_ns(void)
{
	return 1000000000 / sysconf(_SC_CLK_TCK);
}

/* A failure to read is no evidence: file descriptors may have run out. */
void target__check_pid(struct target *target)
{
	uint64_t ticks;

	if (kill(target->identity.pid, 0) && errno == ESRCH)
		target->life.is_gone = true;
	else if (!proc_start_time(target->identity.pid, &ticks) && ticks != target->identity.start_ticks)
		target->life.is_gone = true;
}

/*
 * The copy may include files that the parent mapped after the fork; these do no harm. Nothing is copied if the
 * parent has called exec since.
 */
static int target_copy_parent(struct target *target, const struct target *parent)
{
	bool is_same = parent && parent->life.execed_ns < target->reading.mapped_ns;
	int err;

	target->identity.comm = strndup(target->now.account.comm, COMM_BYTES);
	target->identity.exe = strdup(is_same ? parent->identity.exe : "");
	target->identity.cmdline = strdup(is_same ? parent->identity.cmdline : "");
	target->identity.cgroup = strdup(parent ? parent->identity.cgroup : "");
	if (parent)
		target->identity.pod = parent->identity.pod;
	err = target->identity.comm && target->identity.exe && target->identity.cmdline && target->identity.cgroup
		      ? 0
		      : -ENOMEM;
	if (!err && is_same)
		err = mappings_copy(&target->mappings, &parent->mappings);
	return err ?: late_functions_see_all(&target->late, &target->mappings, target->reading.mapped_ns);
}

struct target *target__adopt(pid_t pid, const struct process *account, uint64_t began_ns,
			     const struct target *parent, struct objects *objects)
{
	struct target *target = target_new(objects);
	int err = target ? 0 : -ENOMEM;

	if (!err) {
		target->identity.pid = pid;
		target->now.account = *account;
		target->identity.start_ticks = account->start_boottime_ns / target__tick_ns();
		target->slot = account->slot;
		target->mappings.user = account->user;
		target->life.born_ns = target->reading.mapped_ns = began_ns;
		target->life.started_ns = account->admitted_ns ?: account->forked_ns;
		target->life.exec_event_cnt = account->admitted_ns != 0; /* the exec that it was admitted at */
		err = target_copy_parent(target, parent);
	}
	if (!err && process_identity_open(&target->identity)) {
		err = target__read_identity(target) ?: process_identity_read_cgroup(&target->identity, objects->cgroups_root);
		target->reading.is_touched = true;
	}
	if (!err)
		return target;
	target__free(target);
	errno = -err;
	return NULL;
}

/* ---- what changes ---- */

int target__refresh(struct target *target, struct reason *why)
{
	uint64_t rss_bytes = read_rss_bytes(target->identity.pid), begun_ns;
	int err;

	if (!rss_bytes) { /* the process has ended, or only its main thread has */
		target->losses.leaderless_nr += proc_live_thread(target->identity.pid) != 0;
		return 0;
	}
	target->resident.bytes = rss_bytes;
	begun_ns = monotonic_now_ns();
	err = mappings_refresh(&target->mappings, target->identity.pid, why);
	if (!err)
		made_code_open(&target->made_code, &target->mappings, target->identity.pid);
	err = err ?: late_functions_see_all(&target->late, &target->mappings, target->reading.mapped_ns);
	/* If the process ends meanwhile, the text may be cut; the events have the rest. */
	if (!err && read_rss_bytes(target->identity.pid)) {
		target->reading.mapped_ns = begun_ns;
		target->reading.is_exe_due &= !*target->identity.exe; /* the program was mapped first */
	}
	return err;
}

/* The parent's exe and arguments are not the new program's. */
static int target_begin_image(struct target *target, uint64_t time_ns)
{
	mappings_forget(&target->mappings);
	late_functions_begin_image(&target->late);
	target->life.execed_ns = time_ns;
	target->reading.is_exe_due = true;
	*target->identity.exe = *target->identity.cmdline = '\0';
	return target__read_identity(target);
}

/* The files of a process that is gone are most likely found under its parent's root. */
static void find_root(char root[32], const struct process *account)
{
	char to[1];

	snprintf(root, 32, "/proc/%d/root", (int)account->parent);
	if (!account->parent || readlink(root, to, sizeof(to)) < 0) /* access() would ask the file system */
		strcpy(root, "/");
}

/*
 * Whether the event is an exec that the target does not know yet. The target's time begins after the exec that
 * it was admitted at, so the event of that exec is older. Events of earlier programs in the same process, which
 * were not recorded, are older, too.
 */
static bool is_new_exec(const struct target_life *life, const struct process *account, const struct mapping_event *event)
{
	return event->is_exec && event->time_ns > life->execed_ns && event->time_ns > account->admitted_ns;
}

/* The process has called exec of a program that is not recorded. All later events belong to that program. */
static bool is_of_next_program(struct target_life *life, const struct process *account, const struct mapping_event *event)
{
	life->has_left_by_exec |=
		account->has_left && is_new_exec(life, account, event) && life->exec_event_cnt >= account->exec_cnt;
	return life->has_left_by_exec;
}

bool target__was_there(const struct target *target, uint64_t time_ns)
{
	return time_ns >= target->life.born_ns && (!target->now.account.exit_ns || time_ns <= target->now.account.exit_ns);
}

int target__apply_event(struct target *target, const struct mapping_event *event)
{
	char root[32];
	const struct mapped_file file = {
		.pid = target->identity.pid,
		.user = target->mappings.user,
		.start = event->start,
		.end = event->end,
		.dev = event->dev,
		.inode = event->inode,
		.build_id = *event->build_id ? event->build_id : NULL,
		.path = event->path,
		.root = root,
	};
	const struct mapping *mapping;
	bool is_read;
	int err = 0;

	if (!target__was_there(target, event->time_ns))
		return 0; /* another process with this PID */
	if (is_of_next_program(&target->life, &target->now.account, event))
		return 0;
	target->reading.is_touched = true;
	target->life.exec_event_cnt += is_new_exec(&target->life, &target->now.account, event);
	is_read = event->time_ns < target->reading.mapped_ns;
	if (event->is_exec)
		return is_read ? 0 : target_begin_image(target, event->time_ns);
	find_root(root, &target->now.account);
	if (is_read) /* the event adds since when that was mapped, and what was mapped before */
		return mappings_add(&target->mappings, &file, event->offset, event->time_ns);
	if (target->reading.is_exe_due && *event->path == '/')
		err = process_identity_set_exe(&target->identity, event->path);
	target->reading.is_exe_due &= *event->path != '/';
	err = err ?: mappings_add(&target->mappings, &file, event->offset, event->time_ns);
	mapping = err ? NULL : mappings_find(&target->mappings, event->start);
	return mapping ? late_functions_see(&target->late, mapping->object, event->time_ns) : err;
}

void target__skip_events(struct target *target, const struct mapping_event *event)
{
	if (is_of_next_program(&target->life, &target->now.account, event))
		return;
	target->reading.is_touched = true;
	target->mappings.skipped_nr += event->skipped_nr ?: 1;
}

bool target__is_over(const struct target *target)
{
	struct pollfd end = { .fd = target->identity.pidfd, .events = POLLIN };

	return target->identity.pidfd < 0 ? target->now.account.exit_ns || target->life.is_gone : poll(&end, 1, 0) > 0;
}

bool target__is_ending(const struct target *target)
{
	uint64_t vm;

	return target__is_over(target) || proc_status(target->identity.pid, "VmSize", &vm);
}

int target__read_memory(void *target_, uint64_t address, void *to, size_t bytes)
{
	const struct target *target = target_;
	const struct iovec into = { to, bytes }, from = { (void *)address, bytes };

	return process_vm_readv(target->identity.pid, &into, 1, &from, 1, 0) == (ssize_t)bytes ? 0 : -EFAULT;
}

bool target__is_beside(const struct target *target)
{
	return target->probes.own.is_beside;
}

struct probes *target__own_probes(struct target *target)
{
	return target__is_beside(target) ? &target->probes.beside : &target->probes.own;
}

int target__forget_image(struct target *target)
{
	target->life.exec_cnt = target->now.account.exec_cnt;
	target->reading.is_touched = true;
	target->identity.is_named = false;
	tracebacks_forget(&target->tracebacks);
	made_code_forget(&target->made_code);
	if (target->life.exec_event_cnt >= target->life.exec_cnt)
		return target__read_identity(target);
	target->life.exec_event_cnt = target->life.exec_cnt;
	return target_begin_image(target, monotonic_now_ns());
}

void targets_images(struct target *const *target, size_t nr, uint64_t *ret_image)
{
	for (size_t i = 0; i < nr; i++) {
		ret_image[2 * i] = target[i]->drained.account.image;
		ret_image[2 * i + 1] = target[i]->now.account.image;
	}
	qsort(ret_image, 2 * nr, sizeof(*ret_image), array_by_number);
}

struct gaps_sum target__gaps(const struct target *target, uint64_t now_ns)
{
	struct gaps_sum sum = pausing_sum(&target->budget.own, target->life.started_ns, now_ns), shared = {};

	if (target->budget.shared)
		shared = pausing_sum(target->budget.shared, target->life.started_ns, now_ns);
	return (struct gaps_sum){ sum.nr + shared.nr, sum.length_ns + shared.length_ns };
}

void target__free(struct target *target)
{
	if (!target)
		return;
	process_identity_release(&target->identity);
	pausing_release(&target->budget.own);
	mappings_release(&target->mappings);
	tracebacks_release(&target->tracebacks);
	made_code_forget(&target->made_code);
	late_functions_release(&target->late);
	if (target->sampler.memory_fd >= 0)
		close(target->sampler.memory_fd);
	free(target->sampler.functions);
	free(target);
}
