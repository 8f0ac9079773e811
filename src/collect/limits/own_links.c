// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/limits/own_links.h"

#include "base/array.h"
#include "base/clock.h"
#include "collect/files/written_files.h"
#include "collect/limits/budget_pause.h"
#include "collect/probe/attach_methods.h"
#include "collect/sources/block_sources.h"
#include "shared/links_state.h"

#define LINKS_MOST 32	       /* processes: then a hit costs about three times as much (make bench-consumers) */
#define OLDER_STAY_NS 10000000 /* a call that takes longer counts as one that did not return */
#define RETRY_NS 1000000000
#define NEWCOMERS_NS 4000000000 /* NEWCOMERS_SEEN newcomers in less time are too many */

/* ---- the kernel side ---- */

static enum links_phase links_phase(const struct collector *collector)
{
	return LINKS_PHASE(collector->bpf->bss->links_state);
}

static void begin_next_phase(struct collector *collector)
{
	__atomic_fetch_add(&collector->bpf->bss->links_state, 1, __ATOMIC_SEQ_CST);
}

/* ---- which processes ---- */

static size_t running_nr(const struct targets *targets)
{
	return array_count(targets->target_nr, i, !targets->target[i]->life.has_ended);
}

static bool come_quickly(const struct own_links *own)
{
	uint64_t oldest_ns = own->newcomer_ns[own->newcomer_nr % NEWCOMERS_SEEN];

	return oldest_ns && monotonic_now_ns() - oldest_ns < NEWCOMERS_NS;
}

static bool may_be_own(const struct collector *collector, size_t most)
{
	return collector->options.system_wide && !probe_way_of(collector->bpf)->is_alone &&
	       !collector->helpers.has_lost_helper && running_nr(&collector->targets) <= most &&
	       !come_quickly(&collector->limits->own_links);
}

void own_links_choose(struct collector *collector, struct target *target)
{
	struct probes *own = &target->probes.own;

	own->pid = target->identity.pid;
	own->slot = target->slot;
	own->link_holder = collector->helpers.link_holder;
	own->late = collector->shared.probes.late;
	target->probes.beside = *own;
	own->by_ret = collector->options.no_return_probes;
	if (!collector->options.follow_forks)
		return;
	target->budget.shared = &collector->limits->budgets.pausing;
	own->by_ret = collector->shared.probes.by_ret;
	own->is_beside = true;
	target->probes.used = links_are_own(collector) ? own : &collector->shared.probes;
}

uint64_t cost_of_walks(const struct trap_costs *costs, const struct process *account, struct link_walks *walks)
{
	const uint64_t *counter = account->counter;
	uint64_t hits = counter[COUNTER_entry_traps] + counter[COUNTER_stepped_traps] + counter[COUNTER_return_traps];

	walks->ns += (hits - walks->hits) * costs->others_nr * costs->link_ns;
	walks->hits = hits;
	return walks->ns;
}

void count_other_links(struct collector *collector)
{
	bool is_shared = collector->options.follow_forks && !links_are_own(collector);
	size_t nr = is_shared ? targets_beside_nr(&collector->targets) : running_nr(&collector->targets);

	collector->limits->budgets.costs.others_nr = nr ? nr - 1 : 0;
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The kernel side has opened its accounting, but while there were own links alone, nothing was recorded. */
static void note_gap_at_begin(const struct own_links *own, struct target *target)
{
	struct pausing *pausing = &target->budget.own;
	uint64_t begin_ns = later_of(target->life.started_ns, own->alone_ns);

	if (begin_ns >= own->returned_ns || pausing_make_room(pausing))
		return;
	pausing->open_ns = begin_ns;
	pausing_close_gap(pausing, own->returned_ns);
}

void own_links_adopt(struct collector *collector, struct target *target)
{
	struct own_links *own = &collector->limits->own_links;

	own_links_choose(collector, target);
	own->newcomer_ns[own->newcomer_nr++ % NEWCOMERS_SEEN] = monotonic_now_ns();
	if (!links_are_own(collector)) {
		note_gap_at_begin(own, target);
		return;
	}
	budget_pause_target(collector, target);
	if (links_phase(collector) == LINKS_OWN && target->budget.own.open_ns)
		target->budget.own.open_ns = later_of(target->life.started_ns, own->alone_ns);
}

void own_links_end(struct collector *collector, struct target *target)
{
	sources_leave(collector, target);
	if (target->probes.used != &collector->shared.probes && collector->options.system_wide)
		probes_detach(&target->probes.own, &collector->shared.detacher);
}

int own_links_complete(struct collector *collector, struct target *target)
{
	struct probes *own = &target->probes.own;

	if (!own->is_beside || own->looked_nr)
		return 0;
	return probes_copy(own, &collector->shared.probes, &target->mappings);
}

/* ---- from the shared links to own ones ---- */

static void note_own_links(struct collector *collector)
{
	if (!collector->limits->own_links.is_noted)
		notes_add(&collector->notes,
			  "a process has used up its budget: only its recording pauses, and until it costs less, "
			  "new programs are recorded some milliseconds after their start");
	collector->limits->own_links.is_noted = true;
}

/* A process whose links cannot be placed pauses, and is tried again at each look, as after any pause. */
static void place_own_links(struct collector *collector, struct target *target)
{
	struct probes *own = &target->probes.own;
	int err = own_links_complete(collector, target);

	own->is_paused = false;
	err = err ?: probes_resume(own, collector->bpf, &collector->objects, &collector->shared.detacher);
	if (err)
		budget_pause_target(collector, target);
	else
		put_off_unplaced_objects(collector, own);
}

bool links_become_own(struct collector *collector)
{
	struct own_links *own = &collector->limits->own_links;
	struct targets *targets = &collector->targets;
	uint64_t now_ns;

	if (!may_be_own(collector, LINKS_MOST))
		return false;
	if (links_phase(collector) == LINKS_TO_SHARED)
		return true;
	if (links_phase(collector) != LINKS_SHARED || collector->shared.probes.is_paused)
		return false;
	for (size_t i = 0; i < targets->target_nr; i++)
		if (!targets->target[i]->life.has_ended)
			place_own_links(collector, targets->target[i]);
	begin_next_phase(collector);
	now_ns = monotonic_now_ns();
	calm_end(&own->calm, now_ns);
	own->due_ns = now_ns + OLDER_STAY_NS;
	for (size_t i = 0; i < targets->target_nr; i++)
		if (!targets->target[i]->life.has_ended)
			targets->target[i]->probes.used = &targets->target[i]->probes.own;
	note_own_links(collector);
	return true;
}

static void remove_shared_links(struct collector *collector)
{
	begin_next_phase(collector);
	collector->limits->own_links.alone_ns = monotonic_now_ns();
	probes_pause(&collector->shared.probes, &collector->shared.detacher);
}

/* ---- from own links to the shared ones ---- */

static int place_shared_links(struct collector *collector)
{
	struct probes *shared = &collector->shared.probes;
	int err;

	check_probed_files(collector, shared);
	err = probes_resume(shared, collector->bpf, &collector->objects, &collector->shared.detacher);
	if (err)
		return err;
	put_off_unplaced_objects(collector, shared);
	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		struct target *target = collector->targets.target[i];

		target->probes.used = target->life.has_ended ? target->probes.used : shared;
		if (!target->life.has_ended)
			probe_new_objects(collector, target, NULL);
	}
	return 0;
}

static void go_back(struct collector *collector)
{
	struct own_links *own = &collector->limits->own_links;
	struct targets *targets = &collector->targets;

	if (place_shared_links(collector)) {
		own->retry_ns = monotonic_now_ns() + RETRY_NS;
		return;
	}
	for (size_t i = 0; i < targets->target_nr; i++)
		budget_mark_return(collector, targets->target[i]);
	own->returned_ns = monotonic_now_ns();
	begin_next_phase(collector);
	own->due_ns = own->returned_ns + OLDER_STAY_NS;
	for (size_t i = 0; i < targets->target_nr; i++)
		budget_open_again(collector, targets->target[i]);
}

static void remove_own_links(struct collector *collector)
{
	begin_next_phase(collector);
	for (size_t i = 0; i < collector->targets.target_nr; i++)
		if (!collector->targets.target[i]->life.has_ended)
			probes_end(&collector->targets.target[i]->probes.own, &collector->shared.detacher);
}

/* ---- when the links change ---- */

static bool is_any_spent(const struct collector *collector)
{
	bool is_any = collector->limits->budgets.together.is_spent;

	for (size_t i = 0; i < collector->targets.target_nr && !is_any; i++) {
		const struct target *target = collector->targets.target[i];

		is_any = !target->life.has_ended && (target->budget.limit.is_spent || target->probes.own.is_paused);
	}
	return is_any;
}

static bool shall_go_back(struct collector *collector, uint64_t now_ns)
{
	struct own_links *own = &collector->limits->own_links;
	bool is_calm = calm_look(&own->calm, now_ns, is_any_spent(collector));

	if (now_ns < own->retry_ns)
		return false;
	if (own->change_every_ns)
		return now_ns - own->alone_ns >= own->change_every_ns;
	return is_calm || !may_be_own(collector, LINKS_MOST + LINKS_MOST / 4);
}

/* For tests, which change links all the time: two links of one kind would both count each hit. */
static bool are_links_going(const struct collector *collector)
{
	return collector->limits->own_links.change_every_ns && collector->helpers.link_holder &&
	       link_holder__detaching_nr(collector->helpers.link_holder);
}

void own_links_step(struct collector *collector)
{
	struct own_links *own = &collector->limits->own_links;
	uint64_t now_ns = monotonic_now_ns();

	if (collector->helpers.has_lost_helper || are_links_going(collector))
		return;
	switch (links_phase(collector)) {
	case LINKS_SHARED:
		if (own->change_every_ns && now_ns - own->returned_ns >= own->change_every_ns)
			links_become_own(collector);
		break;
	case LINKS_TO_OWN:
		if (now_ns >= own->due_ns)
			remove_shared_links(collector);
		break;
	case LINKS_OWN:
		if (shall_go_back(collector, now_ns))
			go_back(collector);
		break;
	default:
		if (now_ns >= own->due_ns)
			remove_own_links(collector);
	}
}

uint64_t own_links_wait_ns(const struct collector *collector)
{
	enum links_phase phase = links_phase(collector);

	if (collector->limits->own_links.change_every_ns)
		return collector->limits->own_links.change_every_ns / 4;
	return phase == LINKS_TO_OWN || phase == LINKS_TO_SHARED ? OLDER_STAY_NS : UINT64_MAX;
}

/* ---- time without a spent budget ---- */

#define LASTING_NS (5 * SECOND_NS)
#define OF_LOOK_NS SECOND_NS

void calm_end(struct calm *calm, uint64_t now_ns)
{
	*calm = (struct calm){ .looked_ns = now_ns };
}

bool calm_look(struct calm *calm, uint64_t now_ns, bool is_any_spent)
{
	uint64_t since_ns = now_ns - calm->looked_ns;

	if (is_any_spent)
		calm->ns = 0;
	else
		calm->ns += since_ns < OF_LOOK_NS ? since_ns : OF_LOOK_NS;
	calm->looked_ns = now_ns;
	return calm->ns >= LASTING_NS;
}
