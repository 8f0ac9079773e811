// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/limits/budget_pause.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reason.h"
#include "collect/files/written_files.h"
#include "collect/limits/own_links.h"
#include "collect/probe/attach_methods.h"
#include "process/proc.h"
#include "collect/sources/block_sources.h"
#include "collect/sources/ways.h"

/* ---- the terms of a budget ---- */

/* A link is attached or detached in a millisecond or less; a perf uprobe takes a tenth of a second. */
#define STRETCH_OF_LINKS_NS 5000000
#define STRETCH_OF_EVENTS_NS 1000000000

#define QUOTA_EVERY_NS (5 * SECOND_NS)

static struct budget_terms common_terms(const struct collector *collector)
{
	return (struct budget_terms){
		.percent = collector->options.max_overhead,
		.core_ns = BUDGET_CORE_NS,
		.least_stretch_ns = probe_way_of(collector->bpf)->is_alone ? STRETCH_OF_EVENTS_NS : STRETCH_OF_LINKS_NS,
	};
}

int budgets_begin(struct collector *collector)
{
	struct budget_terms terms = common_terms(collector);
	char *mounts = collector->options.max_overhead ? proc_read(getpid(), "mountinfo", NULL) : NULL;
	int err = mounts ? cpu_quotas_find(&collector->limits->budgets.quotas, mounts) : 0;

	free(mounts);
	terms.core_ns *= sysconf(_SC_NPROCESSORS_ONLN);
	terms.is_of_core = true;
	budget_begin(&collector->limits->budgets.together, &terms);
	return err;
}

static uint64_t read_core_ns(const struct cpu_quotas *quotas, pid_t pid)
{
	char *groups = proc_text(pid, "cgroup");
	uint64_t quota_ns = groups ? cpu_quota_ns(quotas, groups) : UINT64_MAX;

	free(groups);
	return quota_ns < BUDGET_CORE_NS ? quota_ns : BUDGET_CORE_NS;
}

void target_begin_budget(const struct collector *collector, struct target *target)
{
	struct budget_terms terms = common_terms(collector);

	if (terms.percent)
		terms.core_ns = read_core_ns(&collector->limits->budgets.quotas, target->identity.pid);
	target->budget.quota_ns = monotonic_now_ns();
	budget_begin(&target->budget.limit, &terms);
}

/* Enters what recording the process has cost, what it has used itself, and a quota that has changed. */
static void target_update_budget(const struct collector *collector, struct target *target)
{
	const struct cost_sum *sum = &target->now.cost;
	const struct budget_use use = {
		.cost_ns = sum->cost_ns + target->budget.own.nr * GAP_COST_NS,
		.own_ns = sum->cpu_ns > sum->cost_ns ? sum->cpu_ns - sum->cost_ns : 0,
	};
	uint64_t now_ns = monotonic_now_ns();

	if (use.cost_ns != target->budget.limit.use.cost_ns && now_ns - target->budget.quota_ns >= QUOTA_EVERY_NS) {
		target->budget.limit.terms.core_ns = read_core_ns(&collector->limits->budgets.quotas, target->identity.pid);
		target->budget.quota_ns = now_ns;
	}
	budget_update(&target->budget.limit, &use, now_ns);
}

/* The CPU time of an ended process is the kernel side's, or the last one read if that is greater. */
void target_read_cost(const struct trap_costs *costs, struct target *target, const struct process *account)
{
	uint64_t cpu_ns = account->cpu_ns;

	target->now.cost.cost_ns = cost_of_account(costs, account) + cost_of_walks(costs, account, &target->walks);
	if (!cpu_ns && (target->life.has_ended || cpu_time_read(target->identity.pid, &cpu_ns)))
		return;
	cpu_ns -= target->life.cpu_before_ns;
	if ((int64_t)(cpu_ns - target->now.cost.cpu_ns) > 0)
		target->now.cost.cpu_ns = cpu_ns;
}

/* ---- rates ---- */

#define NAMED_MOST 32 /* named processes: a machine that compiles would fill the journal */

/* Returns whether a process may be named in a note, and counts it; the last note says so. */
static bool may_name_process(struct budgets *budgets, bool *is_noted, const char **ret_end)
{
	if (*is_noted || budgets->named_nr >= NAMED_MOST)
		return false;
	*is_noted = true;
	*ret_end = ++budgets->named_nr < NAMED_MOST ? "" : "; further such processes are not named";
	return true;
}

static void note_thinning(struct collector *collector, struct target *target)
{
	const char *end;

	if (!may_name_process(&collector->limits->budgets, &target->budget.is_thinning_noted, &end))
		return;
	notes_add(&collector->notes,
		  "%s (PID %d): to record every block would cost more than --max-overhead %u allows: samples are "
		  "recorded where needed, sums are estimates%s", target->identity.comm, target->identity.pid,
		  collector->options.max_overhead, end);
}

static void note_pause(struct collector *collector, struct target *target, const char *what)
{
	const char *end;

	if (!may_name_process(&collector->limits->budgets, &target->budget.is_pause_noted, &end))
		return;
	notes_add(&collector->notes,
		  "%s (PID %d): even samples cost more than --max-overhead %u allows: the recording of %s pauses now "
		  "and then, and what is allocated meanwhile is missing%s", target->identity.comm, target->identity.pid,
		  collector->options.max_overhead, what, end);
}

/* ---- what recording costs without a budget ---- */

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void note_cost(struct collector *collector, struct target *target, const struct cost_look *part)
{
	struct ways ways;
	struct reason slower;
	char cheaper[WAYS_TEXT_MAX];
	const char *end;

	if (!may_name_process(&collector->limits->budgets, &target->budget.is_cost_noted, &end))
		return;
	cost_watch_format(&slower, part);
	ways_find(collector, target->identity.pid, target, &ways);
	ways_text(cheaper, &ways);
	notes_add(&collector->notes, "%s (PID %d) is recorded by traps and %s%s%s%s", target->identity.comm, target->identity.pid,
		  slower.text, *cheaper ? "; cheaper: " : "", cheaper, end);
}

static void watch_cost(struct collector *collector, struct target *target, uint64_t now_ns)
{
	const struct trap_costs *costs = &collector->limits->budgets.costs;
	const struct process *account = account_of(&collector->targets, target->slot);
	struct cost_watch *watch = &target->budget.watch;
	struct cost_look part, now = {
		.now_ns = now_ns,
		.trap_nr = account->counter[COUNTER_entry_traps] + account->counter[COUNTER_stepped_traps] +
			   account->counter[COUNTER_return_traps],
		.sum.cost_ns = cost_of_account(costs, account),
	};

	if (account->image != target->now.account.image || !cost_watch_wants(watch, target->life.started_ns, &now))
		return;
	target_read_cost(costs, target, account);
	now.sum = target->now.cost;
	if (cost_watch_judge(watch, &now, &part))
		note_cost(collector, target, &part);
}

/* Returns when to look again, in ns; UINT64_MAX: at the next look. */
static uint64_t watch_costs(struct collector *collector)
{
	uint64_t now_ns = monotonic_now_ns(), wait_ns = UINT64_MAX;

	if (collector->options.max_overhead || !collector->limits->budgets.costs.entry_ns)
		return UINT64_MAX;
	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		struct target *target = collector->targets.target[i];

		if (target->life.has_ended || target->budget.is_cost_noted)
			continue;
		watch_cost(collector, target, now_ns);
		wait_ns = sooner(wait_ns, cost_watch_wait_ns(&target->budget.watch, target->life.started_ns, now_ns));
	}
	return wait_ns;
}

/* Gives the kernel side the rate of a process's budget. least: the rate of all processes. */
static void budget_apply_rate(struct collector *collector, struct target *target, uint32_t least)
{
	uint32_t rate = target->budget.limit.rate;

	if (sources_have_own_rate(target))
		return;
	thinned_time_set(&target->budget.thinned, rate || least, target->budget.limit.now_ns);
	if (rate)
		note_thinning(collector, target);
	if (target->now.account.sample_rate == rate)
		return;
	target->now.account.sample_rate = rate;
	accounts_sample_at(&collector->targets.accounts, target->slot, rate);
}

/* ---- pause and resume ---- */

/* The owner of a set of probes with a budget: one process, or all of them. */
struct spender {
	struct probes *probes;
	struct pausing *pausing;
	struct target *target; /* NULL: the shared probes */
	struct cost_sum sum;
};

/* Runs before the first probe is removed, so that the order of the removals does not matter. */
static void pause_kernel_side(const struct allocsnap_bpf *bpf, const struct spender *spender)
{
	if (spender->target)
		run_request_program(bpf->progs.process_pause, spender->target->slot);
	else
		__atomic_store_n(&bpf->bss->shared_paused, 1, __ATOMIC_SEQ_CST);
}

/* Runs before the first probe is placed: pending calls and blocks that are older are from before the gap. */
static void mark_kernel_return(const struct allocsnap_bpf *bpf, const struct spender *spender)
{
	if (spender->target)
		run_request_program(bpf->progs.process_return, spender->target->slot);
	else
		__atomic_store_n(&bpf->bss->shared_resumed_ns, monotonic_now_ns(), __ATOMIC_SEQ_CST);
}

/* Runs when all probes are placed. */
static void resume_kernel_side(const struct allocsnap_bpf *bpf, const struct spender *spender)
{
	if (spender->target)
		run_request_program(bpf->progs.process_resume, spender->target->slot);
	else
		__atomic_store_n(&bpf->bss->shared_paused, 0, __ATOMIC_SEQ_CST);
}

/* The probes of a process that pause with the spender's, though they are never shared. */
static bool pauses_beside(const struct spender *spender, const struct target *target)
{
	return target__is_beside(target) && !target->life.has_ended && (!spender->target || spender->target == target);
}

/* Places the probes beside the shared ones again. 0, also if the process has ended, or a negative errno: still paused. */
static int resume_own_probes(struct collector *collector, struct target *target)
{
	struct probes *probes = &target->probes.beside;
	int err;

	if (!probes->is_paused)
		return 0;
	check_probed_files(collector, probes);
	err = probes_resume(probes, collector->bpf, &collector->objects, &collector->shared.detacher);
	if (!err)
		put_off_unplaced_objects(collector, probes);
	return err == -ESRCH ? 0 : err;
}

static void begin_gap(struct collector *collector, const struct spender *spender)
{
	pause_kernel_side(collector->bpf, spender);
	/* The gap begins only now: a block that entered until here is older than the gap and has lived through it. */
	spender->pausing->open_ns = monotonic_now_ns();
	probes_pause(spender->probes, &collector->shared.detacher);
	for (size_t i = 0; i < collector->targets.target_nr; i++)
		if (pauses_beside(spender, collector->targets.target[i]))
			probes_pause(&collector->targets.target[i]->probes.beside, &collector->shared.detacher);
}

static void pause_recording(struct collector *collector, const struct spender *spender)
{
	if (!pausing_make_room(spender->pausing)) /* otherwise recording goes on: an unrecorded gap would be worse */
		begin_gap(collector, spender);
}

static struct spender spender_of(struct target *target)
{
	return (struct spender){ &target->probes.own, &target->budget.own, target, {} };
}

void budget_pause_target(struct collector *collector, struct target *target)
{
	const struct spender spender = spender_of(target);

	if (pausing_make_room(spender.pausing))
		notes_add(&collector->notes, "no memory for a gap in a recording");
	else
		begin_gap(collector, &spender);
}

void budget_mark_return(struct collector *collector, struct target *target)
{
	const struct spender spender = spender_of(target);

	if (spender.pausing->open_ns && !target->life.has_ended)
		mark_kernel_return(collector->bpf, &spender);
}

void budget_open_again(struct collector *collector, struct target *target)
{
	const struct spender spender = spender_of(target);

	if (!spender.pausing->open_ns || target->life.has_ended || resume_own_probes(collector, target))
		return;
	resume_kernel_side(collector->bpf, &spender);
	pausing_close_gap(spender.pausing, monotonic_now_ns());
	target->probes.own.is_paused = false;
}

static int resume_beside(struct collector *collector, const struct spender *spender)
{
	int err = 0;

	for (size_t i = 0; i < collector->targets.target_nr && !err; i++)
		if (pauses_beside(spender, collector->targets.target[i]))
			err = resume_own_probes(collector, collector->targets.target[i]);
	return err;
}

/* Resumes the recording. The next look handles code that was mapped during the pause. */
static int resume_recording(struct collector *collector, const struct spender *spender)
{
	int err;

	if (spender->target && own_links_complete(collector, spender->target))
		return -ENOMEM;
	check_probed_files(collector, spender->probes);
	mark_kernel_return(collector->bpf, spender);
	err = resume_beside(collector, spender) ?: probes_resume(spender->probes, collector->bpf, &collector->objects,
								  &collector->shared.detacher);
	if (err)
		return err;
	put_off_unplaced_objects(collector, spender->probes);
	check_probed_files(collector, spender->probes);
	for (size_t i = 0; i < collector->targets.target_nr; i++)
		collector->targets.target[i]->reading.is_touched |=
			collector->targets.target[i]->probes.used == spender->probes;
	resume_kernel_side(collector->bpf, spender);
	pausing_close_gap(spender->pausing, monotonic_now_ns());
	return 0;
}

/* ---- shared probes ---- */

/*
 * Budgets for shared probes: each process has a budget, and all processes together have as much for each core of the
 * machine. A process that spends much is sampled; that makes no difference for the others. If the traps alone cost it
 * more than its budget, probing pauses for all processes, since a shared probe can't be taken from one process alone.
 */

/*
 * Skips processes without new cost, unless what they use themselves gives them credit again: reading the clocks of
 * hundreds of processes takes a while.
 */
static void shared_budgets_read_costs(const struct trap_costs *costs, const struct targets *targets)
{
	for (size_t i = 0; i < targets->target_nr; i++) {
		struct target *target = targets->target[i];
		const struct process *account = account_of(targets, target->slot);

		if (target->life.has_ended || account->image != target->now.account.image)
			continue;
		if (cost_of_account(costs, account) + target->walks.ns != target->now.cost.cost_ns ||
		    !budget_is_full(&target->budget.limit))
			target_read_cost(costs, target, account);
	}
}

static void shared_budgets_set_rate(struct collector *collector, uint32_t rate)
{
	if (collector->bpf->bss->shared_sample_rate != rate)
		__atomic_store_n(&collector->bpf->bss->shared_sample_rate, rate, __ATOMIC_RELAXED);
}

/* Its budget is spent, and only a pause helps. */
static bool budget_asks_for_pause(const struct target *target)
{
	return target->budget.limit.is_spent && !sources_can_save(target);
}

static bool shared_budgets_judge(struct collector *collector, uint64_t together_ns, uint64_t now_ns)
{
	struct budget *together = &collector->limits->budgets.together;
	bool is_any;

	budget_update(together, &(struct budget_use){ .cost_ns = together_ns }, now_ns);
	shared_budgets_set_rate(collector, together->rate);
	is_any = together->is_spent;
	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		struct target *target = collector->targets.target[i];

		if (target->life.has_ended)
			continue;
		target_update_budget(collector, target);
		budget_apply_rate(collector, target, together->rate);
		is_any |= budget_asks_for_pause(target);
	}
	return is_any;
}

static uint64_t shared_budgets_wait_ns(const struct collector *collector, unsigned int processors)
{
	uint64_t wait_ns = budget_wait_ns(&collector->limits->budgets.together, processors);

	for (size_t i = 0; i < collector->targets.target_nr; i++)
		if (!collector->targets.target[i]->life.has_ended)
			wait_ns = sooner(wait_ns,
					 budget_wait_ns(&collector->targets.target[i]->budget.limit, processors));
	return wait_ns;
}

/* ---- what each process spends ---- */

static void add_spent_cost(struct cost_sum *sum, const struct cost_sum *more)
{
	sum->cpu_ns += more->cpu_ns;
	sum->cost_ns += more->cost_ns;
}

static struct spender shared_spender(struct budgets *budgets, struct shared_probes *shared,
				     const struct targets *targets)
{
	struct spender spender = {
		.probes = &shared->probes,
		.pausing = &budgets->pausing,
		.sum = budgets->pausing.gone,
	};

	for (size_t i = 0; i < targets->target_nr; i++)
		add_spent_cost(&spender.sum, &targets->target[i]->now.cost);
	spender.sum.cost_ns += cost_of_account(&budgets->costs, &targets->accounts.bpf->bss->ended_small_sum);
	spender.sum.cost_ns += spender.pausing->nr * GAP_COST_NS;
	return spender;
}

/* Finds the ith spender with a budget of its own; false: there are no more. */
static bool spender_at(struct collector *collector, size_t i, struct spender *ret)
{
	struct target *target;

	bool is_shared = collector->options.follow_forks && !links_are_own(collector);

	if (i >= (is_shared ? 1 : collector->targets.target_nr) || !collector->targets.target_nr)
		return false;
	if (is_shared) {
		*ret = shared_spender(&collector->limits->budgets, &collector->shared, &collector->targets);
		return true;
	}
	target = collector->targets.target[i];
	*ret = spender_of(target);
	ret->sum = target->now.cost;
	ret->sum.cost_ns += target->budget.own.nr * GAP_COST_NS;
	return true;
}

static bool spender_has_ended(const struct spender *spender)
{
	return spender->target && spender->target->life.has_ended;
}

#define DETACHMENTS_MOST 32

/* Whether too many probes are still being removed. Perf uprobes go on trapping until they are removed. */
static bool is_detaching(const struct allocsnap_bpf *bpf, const struct helpers *helpers, struct shared_probes *shared)
{
	bool is_alone = probe_way_of(bpf)->is_alone;

	return detach_pending(&shared->detacher) +
		       (helpers->link_holder ? link_holder__detaching_nr(helpers->link_holder) : 0) >
	       (is_alone ? 0 : DETACHMENTS_MOST);
}

/* All together have spent too much: those that have spent their own budgets lately pause first. */
static bool gives_way(const struct collector *collector, const struct target *target)
{
	return collector->options.follow_forks && collector->limits->budgets.together.is_spent &&
	       budget_is_spending(&target->budget.limit, monotonic_now_ns()) && !sources_can_save(target);
}

/* Updates the budgets of a spender, and sets sampling rates. Returns whether a budget is spent. */
static bool judge_spender(struct collector *collector, const struct spender *spender)
{
	struct target *target = spender->target;

	if (!target)
		return shared_budgets_judge(collector, spender->sum.cost_ns, monotonic_now_ns()) && !links_become_own(collector);
	if (!collector->options.follow_forks) { /* otherwise shared_budgets_judge() has looked at it */
		target_update_budget(collector, target);
		budget_apply_rate(collector, target, 0);
	}
	return budget_asks_for_pause(target) || gives_way(collector, target);
}

/* For tests. Events arrive at any time, so the time is kept here. Returns false: there is no pause. */
static bool take_next_rate(struct collector *collector, const struct spender *spender)
{
	uint64_t now_ns = monotonic_now_ns();
	struct target *target = spender->target;
	struct budget *budget = target ? &target->budget.limit : &collector->limits->budgets.together;

	if (now_ns - budget->now_ns < collector->limits->budgets.rate_every_ns)
		return false;
	budget->now_ns = now_ns;
	budget->rate = (budget->rate + 1) % SAMPLE_RATES;
	if (target)
		budget_apply_rate(collector, target, 0);
	else
		shared_budgets_set_rate(collector, budget->rate);
	return false;
}

/* Whether the spender shall be paused now. */
static bool decide_pause(struct collector *collector, const struct spender *spender)
{
	bool is_paused = spender->probes->is_paused, is_spent;

	if (collector->limits->budgets.pause_every_ns)
		is_spent = !is_paused;
	else if (collector->limits->own_links.change_every_ns)
		is_spent = false;
	else if (collector->limits->budgets.rate_every_ns)
		is_spent = take_next_rate(collector, spender);
	else
		is_spent = judge_spender(collector, spender);
	if (collector->helpers.has_lost_helper)
		return is_paused;
	return is_spent || (is_paused && is_detaching(collector->bpf, &collector->helpers, &collector->shared));
}

/* Retries at each look, but logs the failure once. A process that has just ended is no failure. */
static void resume_spender(struct collector *collector, const struct spender *spender)
{
	struct reason why;
	int err = resume_recording(collector, spender);

	if (err && err != -ESRCH && !spender->pausing->is_stuck) {
		reason_set(&why, err, "the recording cannot go on after a pause: %s; it is tried again",
			   strerror(-err));
		notes_add(&collector->notes, "%s", why.text);
	}
	spender->pausing->is_stuck = err != 0;
}

static void note_pauses(struct collector *collector, const struct spender *spender)
{
	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		struct target *target = collector->targets.target[i];

		if ((!spender->target || spender->target == target) && budget_asks_for_pause(target) &&
		    !target->life.has_ended)
			note_pause(collector, target, spender->target ? "it" : "all");
	}
}

static void apply_budget(struct collector *collector, const struct spender *spender)
{
	bool is_paused = spender->probes->is_paused, shall_pause = decide_pause(collector, spender);

	if (shall_pause && !is_paused) {
		note_pauses(collector, spender);
		pause_recording(collector, spender);
	} else if (!shall_pause && is_paused)
		resume_spender(collector, spender);
}

static uint64_t spender_wait_ns(const struct collector *collector, const struct spender *spender)
{
	unsigned int processors = sysconf(_SC_NPROCESSORS_ONLN);

	return spender->target ? budget_wait_ns(&spender->target->budget.limit, processors) :
				 shared_budgets_wait_ns(collector, processors);
}

static void set_timer(const struct budgets *budgets, uint64_t wait_ns)
{
	const struct itimerspec when = {
		.it_value = { wait_ns / 1000000000, wait_ns % 1000000000 },
	};

	timerfd_settime(budgets->timer_fd, 0, &when, NULL);
}

/* Reading the CPU time of hundreds of processes takes a while, and events arrive all the time. */
#define JUDGE_SYSTEM_WIDE_NS 50000000
#define JUDGE_OWN_NS 5000000 /* links of their own are for few processes */

static bool is_too_soon(struct collector *collector)
{
	uint64_t now_ns = monotonic_now_ns();
	uint64_t least_ns = links_are_own(collector) ? JUDGE_OWN_NS : JUDGE_SYSTEM_WIDE_NS;

	if (!collector->options.system_wide || collector->limits->budgets.pause_every_ns || collector->limits->own_links.change_every_ns)
		return false;
	if (now_ns - collector->limits->budgets.judged_ns < least_ns) {
		set_timer(&collector->limits->budgets, collector->limits->budgets.judged_ns + least_ns - now_ns);
		return true;
	}
	collector->limits->budgets.judged_ns = now_ns;
	shared_budgets_read_costs(&collector->limits->budgets.costs, &collector->targets);
	return false;
}

void apply_budgets(struct collector *collector)
{
	struct budgets *budgets = &collector->limits->budgets;
	uint64_t wait_ns = sources_keep_cost(collector);
	struct spender spender;

	count_other_links(collector);
	wait_ns = sooner(wait_ns, watch_costs(collector));
	if (!collector->options.max_overhead && wait_ns != UINT64_MAX)
		set_timer(budgets, wait_ns);
	if (!collector->options.max_overhead || is_too_soon(collector))
		return;
	own_links_step(collector);
	if (links_are_own(collector) && !budgets->pause_every_ns && !budgets->rate_every_ns &&
	    !collector->limits->own_links.change_every_ns) {
		spender = shared_spender(budgets, &collector->shared, &collector->targets);
		shared_budgets_judge(collector, spender.sum.cost_ns, monotonic_now_ns());
	}
	for (size_t i = 0; spender_at(collector, i, &spender); i++) {
		uint64_t own_ns;

		if (spender_has_ended(&spender))
			continue;
		apply_budget(collector, &spender);
		own_ns = spender_wait_ns(collector, &spender);
		wait_ns = sooner(wait_ns, own_ns);
	}
	wait_ns = sooner(wait_ns, own_links_wait_ns(collector));
	set_timer(budgets, budgets->pause_every_ns ?: budgets->rate_every_ns ?: wait_ns == UINT64_MAX ? 0 : wait_ns);
}

void budget_lose_probes(struct collector *collector)
{
	struct spender spender;

	for (size_t i = 0; spender_at(collector, i, &spender); i++)
		if (!spender.probes->is_paused && !spender_has_ended(&spender))
			begin_gap(collector, &spender);
}

static bool spender_is_spending(const struct collector *collector, const struct spender *spender, uint64_t now_ns)
{
	if (spender->target)
		return budget_is_spending(&spender->target->budget.limit, now_ns);
	for (size_t i = 0; i < collector->targets.target_nr; i++)
		if (budget_is_spending(&collector->targets.target[i]->budget.limit, now_ns) &&
		    !collector->targets.target[i]->life.has_ended)
			return true;
	return budget_is_spending(&collector->limits->budgets.together, now_ns);
}

void pause_spenders(struct collector *collector)
{
	uint64_t now_ns = monotonic_now_ns();
	struct spender spender;

	if (collector->options.max_overhead && spender_at(collector, 0, &spender) && !spender.target &&
	    spender_is_spending(collector, &spender, now_ns) && links_become_own(collector) &&
	    !links_are_own(collector))
		return; /* they will have links of their own; then only those that spend pause */
	for (size_t i = 0; collector->options.max_overhead && spender_at(collector, i, &spender); i++) {
		if (spender.probes->is_paused || spender_has_ended(&spender))
			continue;
		if (spender_is_spending(collector, &spender, now_ns))
			pause_recording(collector, &spender);
	}
}

int resume_shared(struct collector *collector)
{
	struct spender spender = shared_spender(&collector->limits->budgets, &collector->shared, &collector->targets);

	return spender.probes->is_paused && !links_are_own(collector) ? resume_recording(collector, &spender) : 0;
}
