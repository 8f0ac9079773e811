// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The public view of the recorded processes. */
#include "collect/session/recorded.h"

void collector__set_between(struct collector *collector, bool (*fn)(void *what), void *what)
{
	collector->between = fn;
	collector->between_what = what;
}

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

/* Whether the numbers are of the current image, and of traces that were not cleared since. */
static bool is_of_now(const struct shown *shown, const struct process *books)
{
	return shown->exec_cnt == books->exec_cnt && shown->clear_cnt == books->clear_cnt;
}

/*
 * In system-wide mode: whether there is nothing to report. The process was recorded from its fork on, holds
 * nothing, and never held enough to be reported at its end. This is not known of a process that ran before its
 * recording began.
 */
static bool has_nothing_to_report(const struct collector *collector, const struct process_view *view,
				  const struct target *target)
{
	const struct process *books = &target->drained;
	uint64_t peak_bytes = books->counter[COUNTER_peak_bytes];

	return collector->everyone && books->is_forked && !books->counter[COUNTER_current_blocks] &&
	       (peak_bytes < collector->min_bytes || !peak_bytes) && !view->lost && !target->late_nr &&
	       !target->was_saved;
}

void collector__view(const struct collector *collector, size_t i, struct process_view *ret)
{
	const struct target *target = collector->target[i];

	*ret = (struct process_view){
		.pid = target->pid,
		.parent = target->books.parent,
		.comm = target->comm,
		.user = target->mappings.user,
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
		.is_unsaved = target->is_unsaved,
		.was_saved = target->was_saved,
	};
	if (is_of_now(&target->shown, &target->books)) {
		ret->last_bytes = target->shown.last_bytes;
		ret->most_bytes = target->shown.most_bytes;
	}
	read_traced_memory(collector, target, &ret->memory);
	ret->allocations = target->books.counter[COUNTER_allocations];
	for (int loss = 0; loss < LOSS_NR; loss++)
		ret->lost += target->books.loss[loss];
	ret->is_empty = has_nothing_to_report(collector, ret, target);
}
