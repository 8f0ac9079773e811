// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/session/python_shared.h"

#include <errno.h>

#include "base/clock.h"
#include "collect/session/session.h"

bool python_is_beside(const struct target *target)
{
	return target->probes.own.is_beside;
}

static struct process *view_books(const struct collector *collector, const struct target *target)
{
	return &collector->targets.books.process[target->slot % PROCESSES_MAX];
}

unsigned int count_pythons(const struct collector *collector)
{
	unsigned int nr = 0;

	for (size_t i = 0; i < collector->targets.target_nr; i++)
		nr += collector->targets.target[i]->probes.python.link_nr && !collector->targets.target[i]->life.has_ended;
	return nr;
}

/* ---- the heap below ---- */

static bool is_heap_hidden(const struct collector *collector, const struct target *target)
{
	const struct process *books = view_books(collector, target);

	return __atomic_load_n(&books->python_memory, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&books->memory, __ATOMIC_ACQUIRE);
}

bool python_view_may_begin(const struct collector *collector, const struct target *target)
{
	const struct target_snapshots *snapshots = &target->snapshots;
	bool is_shown = snapshots->any_saved && snapshots->shown.exec_cnt == target->now.books.exec_cnt;

	return collector->python_choice.beside_heap || !is_shown || !probes_see_heap(target->probes.used) ||
	       is_heap_hidden(collector, target);
}

/* The clearing begins a new image: the loader goes on with that. */
static int forget_heap(struct collector *collector, struct target *target)
{
	int err = collector__clear_traces(collector, target->identity.pid);

	if (err)
		return err;
	gone_add(&collector->totals.gone, &target->now.books);
	target->now.books = *view_books(collector, target);
	return 0;
}

int python_view_begin(struct collector *collector, struct target *target)
{
	struct process *books = view_books(collector, target);
	bool was_hidden = is_heap_hidden(collector, target);

	if (!python_is_beside(target) || collector->python_choice.beside_heap)
		return 0;
	__atomic_store_n(&books->python_memory, books->memory, __ATOMIC_SEQ_CST);
	return was_hidden || !books->is_open || !probes_see_heap(target->probes.used) ? 0 : forget_heap(collector, target);
}

/* ---- the time before ---- */

static uint64_t time_of_program(const struct target_life *life)
{
	return life->execed_ns > life->started_ns ? life->execed_ns : life->started_ns;
}

/* Its recording has begun already. In a pause the gap is longer anyway. */
static void note_late_view(struct target *target)
{
	struct pausing *pausing = &target->budget.own;
	uint64_t begin_ns = time_of_program(&target->life), now_ns = monotonic_now_ns();

	if (!target->life.started_ns || pausing->open_ns || begin_ns >= now_ns || pausing_make_room(pausing))
		return;
	pausing->open_ns = begin_ns;
	pausing_close_gap(pausing, now_ns);
}

int python_view_placed(struct target *target, uint32_t object)
{
	struct probes *probes = &target->probes.python;

	if (!python_is_beside(target) || !probes_have_site(probes, object))
		return 0;
	if (!probes->looked_nr && !target->python.has_heap) /* older pools are counted, and no block is missing */
		note_late_view(target);
	return probes_note_looked(probes, object);
}

void python_view_refuse(struct collector *collector, struct target *target)
{
	if (!python_is_beside(target) || !is_heap_hidden(collector, target))
		return;
	__atomic_store_n(&view_books(collector, target)->python_memory, 0, __ATOMIC_SEQ_CST);
	note_late_view(target);
}

int python_probes_resume(struct collector *collector, struct target *target)
{
	struct probes *probes = &target->probes.python;
	int err;

	if (!probes->is_paused)
		return 0;
	check_probed_files(collector, probes);
	err = probes_resume(probes, collector->bpf, &collector->objects, &collector->shared.detacher);
	if (!err)
		put_off_unplaced_objects(collector, probes);
	return err == -ESRCH ? 0 : err;
}

void leave_python(struct collector *collector, struct target *target)
{
	if (!python_is_beside(target))
		return;
	if (target->life.has_ended)
		probes_detach(&target->probes.python, &collector->shared.detacher); /* the last snapshot names them */
	else
		probes_end(&target->probes.python, &collector->shared.detacher);
	targets_forget_python(&collector->targets, target);
}
