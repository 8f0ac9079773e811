// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/python_source.h"

#include <errno.h>

#include "base/clock.h"
#include "collect/recording/clear_traces.h"
#include "collect/sources/block_sources.h"

static struct process *view_books(const struct collector *collector, const struct target *target)
{
	return &collector->targets.books.process[target->slot % PROCESSES_MAX];
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

	return collector->sources->python_choice.beside_heap || !is_shown || !probes_see_heap(target->probes.used) ||
	       is_heap_hidden(collector, target);
}

/* The clearing begins a new image: the loader goes on with that. */
static int forget_heap(struct collector *collector, struct target *target)
{
	int err = clear_target_traces(collector, target);

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

	if (!target__is_beside(target) || collector->sources->python_choice.beside_heap)
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
	struct probes *probes = &target->probes.beside;

	if (!target__is_beside(target) || !probes_have_site(probes, object))
		return 0;
	if (!probes->looked_nr && !target->python.has_heap) /* older pools are counted, and no block is missing */
		note_late_view(target);
	return probes_note_looked(probes, object);
}

void python_view_refuse(struct collector *collector, struct target *target)
{
	if (!target__is_beside(target) || !is_heap_hidden(collector, target))
		return;
	__atomic_store_n(&view_books(collector, target)->python_memory, 0, __ATOMIC_SEQ_CST);
	note_late_view(target);
}

void leave_python(struct collector *collector, struct target *target)
{
	if (!target__is_beside(target))
		return;
	if (target->life.has_ended)
		probes_detach(&target->probes.beside, &collector->shared.detacher); /* the last snapshot names them */
	else
		probes_end(&target->probes.beside, &collector->shared.detacher);
	forget_python(collector, target);
}
