// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What happens to the processes that are recorded: children, execs, ends, new code. */
#include "collect/recorded.h"

#include "collect/custom.h"
#include "collect/oom.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define SECOND_NS 1000000000ULL

/* ---- the books, as they are now ---- */

static pid_t pid_of(const struct collector *collector, size_t i)
{
	return ((const uint32_t *)collector->processes.key)[i];
}

static const struct process *books_of(const struct collector *collector, size_t i)
{
	return (const struct process *)collector->processes.value + i;
}

/* A child with the same pid as one that was traced before is another process: the map says which. */
static struct target *target_of(const struct collector *collector, size_t i)
{
	return find_target(collector, pid_of(collector, i));
}

static int take_event(void *what, const struct mapping_event *event)
{
	struct collector *collector = what;
	struct target *target = find_target(collector, event->pid);

	if (!target)
		return 0;
	if (!event->is_exec)
		unwind_tables_forget(&collector->unwind_tables, event->start, event->end,
				     target->books.image);
	__atomic_fetch_add(&collector->bpf->bss->code_generation, 1, __ATOMIC_RELAXED);
	return target__take_event(target, event);
}

static void forget_child(struct collector *collector, pid_t pid)
{
	books_remove(&collector->books, pid);
}

/* One that could not be taken in has no snapshot: its parent's says so. */
static void adopt(struct collector *collector, size_t i)
{
	const struct process *books = books_of(collector, i);
	struct target *parent = find_target(collector, books->parent);
	struct target *target = target__adopt(pid_of(collector, i), books, parent,
					      &collector->objects);

	if (target) {
		target->probes = &collector->everybody;
		target->pausing = &collector->everybody_pausing;
	}
	if (target && !add_target(collector, target))
		return;
	target__free(target);
	forget_child(collector, pid_of(collector, i));
	if (parent)
		parent->children_dropped_nr++;
}

static bool is_new_child(const struct collector *collector, size_t i)
{
	const struct process *books = books_of(collector, i);

	return books->image && books->parent && !target_of(collector, i);
}

struct new_child {
	uint64_t forked_ns;
	size_t at; /* in processes */
};

static int by_fork(const void *a, const void *b)
{
	const struct new_child *x = a, *y = b;

	return (x->forked_ns > y->forked_ns) - (x->forked_ns < y->forked_ns);
}

/* Oldest first; none where there is no memory: the next look is soon. */
static struct new_child *find_children(const struct collector *collector, size_t *ret_nr)
{
	struct new_child *child = calloc(collector->processes.nr + 1, sizeof(*child));
	size_t nr = 0;

	for (size_t i = 0; i < collector->processes.nr && child; i++)
		if (is_new_child(collector, i))
			child[nr++] = (struct new_child){ books_of(collector, i)->forked_ns, i };
	if (nr)
		qsort(child, nr, sizeof(*child), by_fork);
	*ret_nr = nr;
	return child;
}

/* What a child maps at first is what its parent did at that time. */
static void take_in_children(struct collector *collector)
{
	size_t nr;
	struct new_child *child = find_children(collector, &nr);

	for (size_t i = 0; i < nr; i++) {
		mapping_events__hand_out(collector->events, child[i].forked_ns, take_event,
					 collector);
		adopt(collector, child[i].at);
	}
	free(child);
}

/* Of one that has ended as the kernel side has it, or if that is more what was read last. */
void read_cost(const struct collector *collector, struct target *target)
{
	uint64_t cpu_ns = target->books.cpu_ns;

	target->cost.cost_ns = cost_of(&collector->costs, &target->books);
	if (!cpu_ns && (target->has_ended || cpu_time_read(target->pid, &cpu_ns)))
		return;
	cpu_ns -= target->cpu_before_ns;
	if ((int64_t)(cpu_ns - target->cost.cpu_ns) > 0)
		target->cost.cpu_ns = cpu_ns;
}

static void read_books(struct collector *collector)
{
	if (books_read_all(&collector->books, &collector->processes))
		return; /* as they were: the next look is soon */
	for (size_t i = 0; i < collector->processes.nr; i++) {
		struct target *target = target_of(collector, i);

		if (!target || !books_of(collector, i)->image)
			continue;
		target->books = *books_of(collector, i);
		read_cost(collector, target);
	}
	take_in_children(collector);
}

/* ---- what they map ---- */

/* An exec by another thread than the main one ends probes that are tied to that one's task. */
static void take_exec(struct target *target)
{
	target__forget_image(target);
	if (target->books.thread_exec_cnt == target->thread_exec_cnt)
		return;
	target->thread_exec_cnt = target->books.thread_exec_cnt;
	probes_close(&target->own_probes);
}

/*
 * What was probed after the process had mapped it, for its own sake or another's, or what could not
 * be before it was over.
 */
static void count_late(const struct collector *collector, struct target *target)
{
	for (; target->judged_nr < target->seen_nr; target->judged_nr++) {
		const struct seen_object *seen = &target->seen[target->judged_nr];

		if (!target->has_ended && !probes_have_looked(target->probes, seen->object))
			return; /* it will be, next time */
		if (probes_since_ns(target->probes, seen->object) > seen->since_ns)
			target->late_nr += probes_count_functions(&collector->objects,
								  seen->object);
	}
}

static void probe_what_came(struct collector *collector, struct target *target)
{
	size_t looked_nr = target->probes->looked_nr;

	if (probe_new_objects(collector, target, NULL))
		return;
	for (size_t i = looked_nr; i < target->probes->looked_nr; i++)
		custom_tell(collector, target, target->probes->looked[i].object);
}

/* Probes of everybody are in time for who comes next. */
static void see_to_end(struct collector *collector, struct target *target)
{
	target__read_identity(target);
	if (target->probes == &collector->everybody)
		probe_new_objects(collector, target, NULL);
	count_late(collector, target);
}

static void refresh(struct collector *collector, struct target *target, bool whole)
{
	if (target->books.exec_cnt != target->exec_cnt)
		take_exec(target);
	if (target->has_ended)
		see_to_end(collector, target);
	if (target->has_ended || !(whole || target->is_touched))
		return;
	target->is_touched = false;
	if (target__refresh(target, NULL))
		return;
	if (target->mappings.replaced_nr != target->replaced_nr) {
		target->replaced_nr = target->mappings.replaced_nr;
		__atomic_fetch_add(&collector->bpf->bss->mapping_generation, 1, __ATOMIC_RELAXED);
	}
	probe_what_came(collector, target);
	count_late(collector, target);
}

/* It has never become a program of its own: nothing is to be told of it. */
static bool is_stillborn(const struct target *target)
{
	return target->books.memory_of && target->has_ended;
}

static const struct mappings *mappings_of(void *what, pid_t pid)
{
	struct target *target = find_target(what, pid);

	return target ? &target->mappings : NULL;
}

void take_news(struct collector *collector)
{
	uint64_t expired_nr;

	if (collector->budget_fd >= 0)
		(void)!read(collector->budget_fd, &expired_nr, sizeof(expired_nr));
	ring_buffer__consume(collector->doorbell);
	mapping_events__collect(collector->events);
	read_books(collector);
	mapping_events__hand_out(collector->events, UINT64_MAX, take_event, collector);
	take_oom_kills(collector);
}

/*
 * Ends first, then events, then the books: so the books of who has ended are final, and whose
 * events have come is known.
 */
static void look(struct collector *collector, bool whole)
{
	for (size_t i = 0; i < collector->target_nr; i++)
		collector->target[i]->has_ended = target__is_over(collector->target[i]);
	notice_blindness(collector);
	take_news(collector);
	for (size_t i = 0; i < collector->target_nr; i++)
		refresh(collector, collector->target[i], whole);
	unwind_tables_answer(&collector->unwind_tables, mappings_of, collector);
	for (size_t i = collector->target_nr; i-- > 0;)
		if (is_stillborn(collector->target[i]))
			remove_target(collector, i);
	keep_budgets(collector);
	if (whole)
		collector->refreshed_ns = collector_now_ns(CLOCK_MONOTONIC);
}

void refresh_all(struct collector *collector)
{
	look(collector, true);
}

void collector__refresh(struct collector *collector)
{
	look(collector, collector_now_ns(CLOCK_MONOTONIC) - collector->refreshed_ns >= SECOND_NS);
}

/* ---- for others ---- */

int collector__event_fd(const struct collector *collector)
{
	return collector->event_fd;
}

bool collector__is_blind(const struct collector *collector)
{
	return collector->is_blind;
}

size_t collector__process_nr(const struct collector *collector)
{
	return collector->target_nr;
}

/* Of what is live now: not of another image, nor of traces that were cleared. */
static bool is_of_now(const struct shown *shown, const struct process *books)
{
	return shown->exec_cnt == books->exec_cnt && shown->clear_cnt == books->clear_cnt;
}

void collector__view(const struct collector *collector, size_t i, struct process_view *ret)
{
	const struct target *target = collector->target[i];

	*ret = (struct process_view){
		.pid = target->pid,
		.parent = target->books.parent,
		.comm = target->comm,
		.has_ended = target->has_ended,
		.is_drained = target->drained.image != 0,
		.is_final = target->is_final,
		.is_oom_victim = target->books.is_oom_victim,
		.is_vforked = target->books.memory_of != 0,
		.is_near_oom = target->is_near_oom,
		.cpu_ns = target->cost.cpu_ns,
		.cost_ns = target->cost.cost_ns,
		.cost_is_known = collector->costs.entry_ns != 0,
		.is_paused = target->probes->is_paused,
		.is_estimated = collector->bpf->rodata->settings.sample_bytes != 0,
	};
	if (is_of_now(&target->shown, &target->books)) {
		ret->last_bytes = target->shown.last_bytes;
		ret->most_bytes = target->shown.most_bytes;
	}
	read_traced_memory(collector, target, &ret->memory);
	ret->allocations = target->books.counter[COUNTER_allocations];
	for (int loss = 0; loss < LOSS_NR; loss++)
		ret->lost += target->books.loss[loss];
}
