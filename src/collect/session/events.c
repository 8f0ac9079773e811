// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Handles the events of recorded processes: children, execs, exits, new code. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "collect/files/unused_files.h"
#include "collect/files/written_files.h"
#include "collect/recording/map_shares.h"
#include "collect/session/session.h"
#include "collect/sources/copied_functions.h"

/* ---- oom ---- */

/* The memory cgroups in which the OOM killer has chosen a process. */
struct groups {
	uint64_t group[OOM_KILLS];
	size_t nr;
};

static bool has_group(const struct groups *groups, uint64_t group)
{
	return array_any(groups->nr, i, groups->group[i] == group);
}

static void mark_near_oom(struct targets *targets, pid_t pid)
{
	struct target *target = find_target(targets, pid);

	if (target)
		target->snapshots.is_near_oom = true;
}

static void mark_all_near_oom(struct targets *targets)
{
	for (size_t i = 0; i < targets->target_nr; i++)
		targets->target[i]->snapshots.is_near_oom = true;
}

static void mark_members(struct targets *targets, const struct groups *groups, const struct oom_kill *member, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (has_group(groups, member[i].group))
			mark_near_oom(targets, member[i].tgid);
}

/*
 * Marks the members of the groups. Each read() returns whole entries, because the kernel's buffer holds whole
 * entries. 0 or a negative errno.
 */
static int read_group_members(struct targets *targets, const struct groups *groups, int fd)
{
	struct oom_kill member[256];
	ssize_t got;

	while ((got = read(fd, member, sizeof(member))) > 0 || (got < 0 && errno == EINTR))
		if (got > 0)
			mark_members(targets, groups, member, got / sizeof(*member));
	return got < 0 ? -errno : 0;
}

static int mark_groups(struct allocsnap_bpf *bpf, struct targets *targets, const struct groups *groups)
{
	struct bpf_link *link = bpf_program__attach_iter(bpf->progs.memory_groups, NULL);
	int fd, err;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	err = fd < 0 ? fd : read_group_members(targets, groups, fd);
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	return err;
}

/*
 * Marks the traced processes (is_near_oom) in whose memory cgroup the OOM killer has chosen a process since the
 * last call. Marks all traced processes if the cgroup cannot be known.
 */
static void handle_oom_kills(struct allocsnap_bpf *bpf, struct event_sources *events, struct targets *targets)
{
	const struct oom_kill *kills = bpf->bss->oom_kills;
	uint64_t cnt = __atomic_load_n(&bpf->bss->oom_kill_cnt, __ATOMIC_ACQUIRE);
	uint64_t seen = events->oom_kill_cnt;
	struct groups groups = {};

	if (cnt == seen)
		return;
	events->oom_kill_cnt = cnt;
	if (cnt - seen > OOM_KILLS) {
		mark_all_near_oom(targets);
		return;
	}
	for (; seen < cnt; seen++) {
		const struct oom_kill *kill = &kills[seen % OOM_KILLS];

		mark_near_oom(targets, kill->tgid);
		if (!has_group(&groups, kill->group))
			groups.group[groups.nr++] = kill->group;
	}
	if (mark_groups(bpf, targets, &groups))
		mark_all_near_oom(targets);
}

/* ---- the accounting as it is now ---- */

/*
 * Finds the target that had the PID at that time: several processes or programs may have had it, one after
 * another.
 */
static struct target *find_target_then(const struct targets *targets, pid_t pid, uint64_t time_ns)
{
	struct target *latest = find_target(targets, pid);

	if (!latest || target__was_there(latest, time_ns))
		return latest;
	for (size_t i = 0; i < targets->target_nr; i++)
		if (targets->target[i]->identity.pid == pid && target__was_there(targets->target[i], time_ns))
			return targets->target[i];
	return NULL;
}

static uint64_t cost_of_event(const struct mappings *mappings, const struct mapping_event *event)
{
	return PACE_EVENT_NS + PACE_REGION_NS * unwind_tables_regions(event->start, event->end) +
	       PACE_MOVE_NS * mappings_cost(mappings, event->start);
}

/* New mappings are read from /proc/PID/maps instead, and the kernel side searches them itself. */
static void skip_events(struct unwind_tables *unwind_tables, const struct looks *looks, struct target *target,
			const struct mapping_event *event)
{
	if (pace_passes_over(&target->reading.pace, looks->nr))
		unwind_tables_forget_image(unwind_tables, target->now.account.image);
	target__skip_events(target, event);
}

static int handle_mapping_event(void *what, const struct mapping_event *event)
{
	struct collector *collector = what;
	struct target *target = find_target_then(&collector->targets, event->pid, event->time_ns);

	if (!target)
		return 0;
	__atomic_fetch_add(&collector->bpf->bss->code_generation, 1, __ATOMIC_RELAXED);
	if (event->is_exec)
		return target__apply_event(target, event);
	if (event->skipped_nr ||
	    !pace_takes_event(&target->reading.pace, collector->looks.nr, cost_of_event(&target->mappings, event))) {
		skip_events(&collector->unwind_tables, &collector->looks, target, event);
		return 0;
	}
	unwind_tables_forget(&collector->unwind_tables, event->start, event->end,
			     target->now.account.image);
	return target__apply_event(target, event);
}

static bool is_news(const struct process *known, const struct process *account)
{
	return account->image != known->image || account->code_cnt != known->code_cnt || account->exit_ns != known->exit_ns;
}

/* In system-wide mode copies only accounting that has changed, unless `whole` is set. */
static void read_known_target(struct collector *collector, struct target *target, bool whole)
{
	const struct process *account = account_of(&collector->targets, target->slot);

	if (collector->options.system_wide && !whole && !is_news(&target->now.account, account))
		return;
	if (collector->options.system_wide && __atomic_load_n(&account->exit_ns, __ATOMIC_ACQUIRE))
		target->life.has_ended = true;
	if (target->now.account.image != account->image)
		gone_add(&collector->totals.gone, &target->now.account);
	target->now.account = *account;
	target_read_cost(&collector->limits->budgets.costs, target, &target->now.account);
}

/*
 * The later target's time begins when the earlier target with the same PID ends. That target may have been read
 * before it ended, so its accounting is read again.
 */
static void begin_after(struct collector *collector, struct target *later, struct target *earlier)
{
	read_known_target(collector, earlier, true);
	if (later->life.born_ns < earlier->now.account.exit_ns)
		later->life.born_ns = earlier->now.account.exit_ns;
}

/*
 * Separates the targets of one PID in time. A process that calls exec can be recorded as several programs of one
 * fork, with other programs in between.
 */
static void separate_targets(struct collector *collector, struct target *target)
{
	if (!find_target(&collector->targets, target->identity.pid))
		return;
	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		struct target *other = collector->targets.target[i];

		if (other->identity.pid != target->identity.pid)
			continue;
		if (other->life.started_ns < target->life.started_ns)
			begin_after(collector, target, other);
		else
			begin_after(collector, other, target);
	}
}

static struct target *parent_of(const struct targets *targets, const struct process *account)
{
	struct target *parent;

	if (!account->parent)
		return NULL;
	parent = find_target_then(targets, account->parent, account->forked_ns) ?: find_target(targets, account->parent);
	if (parent && parent->identity.start_ticks > account->start_boottime_ns / target__tick_ns())
		return NULL; /* the next process with its PID */
	return parent;
}

/*
 * Makes the target of a new child. A child without memory for a target has no snapshot: its parent's snapshot
 * counts it.
 */
static void adopt_child(struct collector *collector, const struct new_child *child)
{
	const struct process account = *account_of(&collector->targets, child->slot);
	struct target *parent = parent_of(&collector->targets, &account);
	struct target *target = target__adopt(account.tgid, &account, child->began_ns, parent,
					      &collector->objects);

	if (target) {
		own_links_adopt(collector, target);
		target_begin_budget(collector, target);
		/* The coming drain is its last. */
		target->life.has_ended = collector->options.system_wide && account.exit_ns;
		separate_targets(collector, target);
	}
	if (target && !add_target(collector, target))
		return;
	target__free(target);
	accounts_end(&collector->targets.accounts, child->slot);
	if (parent)
		parent->losses.children_dropped_nr++;
}

static int compare_child_forks(const void *a, const void *b)
{
	const struct new_child *x = a, *y = b;

	return (x->forked_ns > y->forked_ns) - (x->forked_ns < y->forked_ns);
}

/* Adopts children, oldest first: a child's first mappings are its parent's at the time of the fork. */
static void adopt_children(struct collector *collector, struct new_child *child, size_t nr)
{
	qsort(child, nr, sizeof(*child), compare_child_forks);
	for (size_t i = 0; i < nr; i++) {
		mapping_events__hand_out(collector->events.mappings, child[i].forked_ns, handle_mapping_event,
					 collector);
		adopt_child(collector, &child[i]);
	}
}

/* ---- the program of a new process ---- */

static int compare_child_pids(const void *a, const void *b)
{
	const struct new_child *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

struct newcomers {
	struct new_child *child; /* by pid */
	size_t nr;
};

/* The kernel reports an exec before it maps the program, and admits the process after that. */
static void handle_exec_begin(void *what, pid_t pid, uint64_t time_ns)
{
	const struct newcomers *newcomers = what;
	struct new_child *end = newcomers->child + newcomers->nr, *child;

	child = bsearch(&(struct new_child){ .pid = pid }, newcomers->child, newcomers->nr,
			sizeof(*child), compare_child_pids);
	while (child && child > newcomers->child && child[-1].pid == pid)
		child--;
	for (; child && child < end && child->pid == pid; child++)
		if (time_ns <= child->admitted_ns && time_ns > child->began_ns)
			child->began_ns = time_ns;
}

/*
 * Finds the time when each program began. Mappings from before its exec, in the same process, are its launcher's
 * and not its own. If no exec is found, it has been handed out already, and so have all older events.
 */
static void find_begins(struct mapping_events *events, struct new_child *child, size_t nr)
{
	struct newcomers newcomers = { child, nr };
	bool is_by_exec = false;

	for (size_t i = 0; i < nr; i++)
		is_by_exec |= child[i].admitted_ns != 0;
	if (!is_by_exec)
		return;
	qsort(child, nr, sizeof(*child), compare_child_pids);
	mapping_events__find_execs(events, handle_exec_begin, &newcomers);
}

static struct new_child make_new_child(const struct process *account, uint32_t slot)
{
	return (struct new_child){
		.forked_ns = account->forked_ns,
		.admitted_ns = account->admitted_ns,
		.began_ns = account->forked_ns,
		.slot = slot,
		.pid = account->tgid,
	};
}

static void read_account(struct collector *collector, bool whole)
{
	struct new_child *child = collector->targets.new_child;
	size_t nr = 0;

	for (uint32_t slot = 0; slot < PROCESSES_MAX; slot++) {
		if (!accounts_image(&collector->targets.accounts, slot))
			continue;
		if (collector->targets.by_slot[slot])
			read_known_target(collector, collector->targets.by_slot[slot], whole);
		else if (accounts_claim(&collector->targets.accounts, slot))
			child[nr++] = make_new_child(account_of(&collector->targets, slot), slot);
	}
	find_begins(collector->events.mappings, child, nr);
	adopt_children(collector, child, nr);
	fair_update(collector->bpf, &collector->targets, &collector->options);
}

/* ---- mappings of targets ---- */

/*
 * If another thread than the main one calls exec, the kernel ends probes that are tied to the main thread's task.
 * So these are placed again.
 */
static void handle_exec(struct collector *collector, struct target *target)
{
	sources_leave(collector, target);
	sources_forget_program(target);
	target__forget_image(target);
	target->losses.copied_nr = 0;
	if (target->now.account.thread_exec_cnt == target->life.thread_exec_cnt)
		return;
	target->life.thread_exec_cnt = target->now.account.thread_exec_cnt;
	probes_close(&target->probes.own);
}

/* Handles the exit of a process. Shared probes are still useful: they are in time for later processes. */
static void handle_target_exit(struct collector *collector, struct target *target)
{
	target__read_identity(target);
	if (target->probes.used == &collector->shared.probes)
		probe_new_objects(collector, target, NULL);
	late_functions_count(&target->late, &collector->objects, target->probes.used, !target->probes.hide_heap,
			     target->life.has_ended);
	own_links_end(collector, target);
	target->life.is_exit_handled = collector->options.system_wide;
	target->reading.is_touched &= !collector->options.system_wide;
}

/*
 * Runs the caller's hook between processes, so that a few of them with much work do not delay the caller. True:
 * work that can be done later waits.
 */
static bool is_hurried(const struct looks *looks)
{
	return looks->between && looks->between(looks->between_what);
}

/* If the pace does not allow a reading now, the target stays touched, and a later look reads the mappings. */
static int read_mappings(const struct looks *looks, struct target *target, bool must)
{
	uint64_t now_ns = monotonic_now_ns();
	bool hurried = is_hurried(looks);
	int err;

	if (!pace_reads(&target->reading.pace, now_ns, must && !hurried))
		return -EAGAIN;
	target->reading.is_touched = false;
	err = target__refresh(target, NULL);
	pace_has_read(&target->reading.pace, now_ns, target->mappings.mapping_nr);
	return err;
}

/* Whether the mappings may be another program's by now, which may not be recorded: the next look finds out. */
static bool has_left_by_exec(const struct targets *targets, const struct target *target)
{
	const struct process *account = account_of(targets, target->slot);

	return account->image != target->now.account.image || account->exit_ns != target->now.account.exit_ns;
}

static void refresh_target(struct collector *collector, struct target *target, bool whole, bool must)
{
	if (target->now.account.exec_cnt != target->life.exec_cnt)
		handle_exec(collector, target);
	if (target->life.has_ended && (!target->life.is_exit_handled || target->reading.is_touched))
		handle_target_exit(collector, target);
	if (target->life.has_ended || !(whole || target->reading.is_touched) ||
	    has_left_by_exec(&collector->targets, target))
		return;
	if (read_mappings(&collector->looks, target, must))
		return;
	if (target->mappings.replaced_nr != target->reading.replaced_nr &&
	    target->mappings.mapping_nr <= MAPPINGS_UNMAPPED_MAX)
		copied_count(&collector->objects, &collector->notes, target);
	target->reading.replaced_nr = target->mappings.replaced_nr;
	probe_new_mappings(collector, target);
	late_functions_count(&target->late, &collector->objects, target->probes.used, !target->probes.hide_heap,
			     target->life.has_ended);
}

/* A vforked child that never called exec: there is nothing to report about it. */
static bool is_stillborn(const struct target_life *life, const struct process *account)
{
	return account->memory_of && life->has_ended && !account->loss[LOSS_calls_ownerless];
}

/*
 * In system-wide mode: whether an ended process was too small to report. It is kept if it has snapshots already,
 * or if its functions were probed late: its peak proves nothing then, and its snapshot shows the late functions.
 */
static bool is_too_small(const struct collector_options *options, struct totals *totals, const struct target *target)
{
	uint64_t peak_bytes = account_most_bytes(&target->now.account);
	bool is = options->system_wide && target->life.has_ended && !target->snapshots.any_saved &&
		  !target->snapshots.is_unsaved && !target->late.nr && (peak_bytes < options->min_bytes || !peak_bytes);
	bool is_unprobed = is && target_is_unprobed(target);

	totals->unprobed_nr += is_unprobed;
	totals->small_nr += is && !is_unprobed;
	return is;
}

/*
 * Once a second, checks targets without a pidfd: only the accounting reports their end, and the kernel may have
 * skipped that.
 */
static void check_lost_targets(struct looks *looks, struct targets *targets)
{
	uint64_t now_ns = monotonic_now_ns();

	if (now_ns - looks->searched_ns < SECOND_NS)
		return;
	looks->searched_ns = now_ns;
	for (size_t i = 0; i < targets->target_nr; i++) {
		struct target *target = targets->target[i];

		if (target->identity.pidfd < 0 && !target->life.has_ended && !target->now.account.exit_ns)
			target__check_pid(target);
	}
}

/*
 * The BPF programs for an exit run before user space can see that the process has ended. So if the accounting has
 * no end, the kernel has skipped the program.
 */
static void update_target_end(struct accounts *accounts, bool system_wide, struct target *target)
{
	/* A process that called exec of a program that is not recorded runs on, but its target has ended. */
	target->life.has_ended = target__is_over(target) || (system_wide && target->life.has_ended);
	if (target->life.has_ended && !__atomic_load_n(&accounts->process[target->slot].exit_ns, __ATOMIC_ACQUIRE))
		accounts_end_unseen(accounts, target->slot, monotonic_now_ns());
}

static const struct mappings *mappings_of(void *targets, pid_t pid)
{
	struct target *target = find_target(targets, pid);

	return target ? &target->mappings : NULL;
}

void collector_read_news(struct collector *collector, bool whole)
{
	uint64_t expired_nr;

	collector->looks.nr++;
	if (collector->limits->budgets.timer_fd >= 0)
		(void)!read(collector->limits->budgets.timer_fd, &expired_nr, sizeof(expired_nr));
	ring_buffer__consume(collector->events.doorbell);
	mapping_events__collect(collector->events.mappings);
	read_account(collector, whole);
	mapping_events__hand_out(collector->events.mappings, UINT64_MAX, handle_mapping_event, collector);
	for (size_t i = 0; i < collector->targets.target_nr; i++)
		collector->targets.target[i]->mappings.told_ns =
			mapping_events__collected_ns(collector->events.mappings);
	handle_oom_kills(collector->bpf, &collector->events, &collector->targets);
}

/*
 * Checks for ends first, then collects events, then reads the accounting. So the accounting of an ended process is
 * final, and the owner of each event is known.
 */
static void update_processes(struct collector *collector, bool whole, bool must)
{
	check_lost_targets(&collector->looks, &collector->targets);
	for (size_t i = 0; i < collector->targets.target_nr; i++)
		if (whole || !collector->options.system_wide || collector->targets.target[i]->life.is_gone)
			update_target_end(&collector->targets.accounts, collector->options.system_wide,
					  collector->targets.target[i]);
	notice_blindness(collector);
	collector_read_news(collector, whole);
	handle_written_files(collector);
	/* Code that is mapped now. */
	for (size_t i = 0; i < collector->targets.target_nr && collector->unwind_tables.is_full; i++)
		collector->targets.target[i]->reading.is_touched |= !collector->targets.target[i]->life.has_ended;
	for (size_t i = 0; i < collector->targets.target_nr; i++)
		refresh_target(collector, collector->targets.target[i], whole && !collector->options.system_wide, must);
	if (collector->unwind_tables.is_full)
		drop_unmapped_tables(collector);
	unwind_tables_answer(&collector->unwind_tables, mappings_of, &collector->targets);
	for (size_t i = collector->targets.target_nr; i-- > 0;)
		if (is_stillborn(&collector->targets.target[i]->life, &collector->targets.target[i]->now.account) ||
		    is_too_small(&collector->options, &collector->totals, collector->targets.target[i]))
			remove_target(collector, i);
	apply_budgets(collector);
	if (whole)
		collector->looks.refreshed_ns = monotonic_now_ns();
}

void collector_refresh_all(struct collector *collector)
{
	update_processes(collector, true, true);
}

void collector__refresh(struct collector *collector)
{
	update_processes(collector, (!collector->options.system_wide || collector->options.max_overhead) &&
				   monotonic_now_ns() - collector->looks.refreshed_ns >= SECOND_NS, false);
}
