// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The public view of the recorded processes. */
#include "base/clock.h"
#include "collect/session/session.h"

void collector__set_between(struct collector *collector, bool (*fn)(void *what), void *what)
{
	collector->looks.between = fn;
	collector->looks.between_what = what;
}

int collector__event_fd(const struct collector *collector)
{
	return collector->events.fd;
}

bool collector__is_blind(const struct collector *collector)
{
	return collector->helpers.has_lost_helper;
}

size_t collector__process_nr(const struct collector *collector)
{
	return collector->targets.target_nr;
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
static bool has_nothing_to_report(const struct collector_options *options, const struct process_view *view,
				  const struct target *target)
{
	const struct process *books = &target->drained.books;
	uint64_t peak_bytes = books->counter[COUNTER_peak_bytes];

	if (options->everyone && sources_show_nothing(options, target))
		return true;
	return options->everyone && books->is_forked && !books->counter[COUNTER_current_blocks] &&
	       (peak_bytes < options->min_bytes || !peak_bytes) && !view->lost && !target->late.nr &&
	       !target->snapshots.any_saved;
}

static void set_view_times(struct process_view *view, const struct target *target)
{
	uint64_t end_ns = target->now.books.exit_ns ?: monotonic_now_ns(), start_ns = target->life.started_ns;

	view->recorded_ns = end_ns > start_ns ? end_ns - start_ns : 0;
	view->gaps_ns = target__gaps(target, end_ns).length_ns;
}

void collector__view(const struct collector *collector, size_t i, struct process_view *ret)
{
	const struct target *target = collector->targets.target[i];

	*ret = (struct process_view){
		.pid = target->identity.pid,
		.parent = target->now.books.parent,
		.comm = target->identity.comm,
		.user = target->mappings.user,
		.has_ended = target->life.has_ended,
		.is_drained = target->drained.books.image != 0,
		.is_final = target->snapshots.is_final,
		.is_oom_victim = target->now.books.is_oom_victim,
		.is_vforked = target->now.books.memory_of != 0,
		.is_near_oom = target->snapshots.is_near_oom,
		.cpu_ns = target->now.cost.cpu_ns,
		.cost_ns = target->now.cost.cost_ns,
		.cost_is_known = collector->limits->budgets.costs.entry_ns != 0,
		.is_paused = target->probes.used->is_paused,
		.is_thinned = target->now.books.sample_rate || collector->bpf->bss->shared_sample_rate,
		.is_estimated = collector->bpf->rodata->settings.sample_bytes[0] ||
				target->now.books.sample_rates_used ||
				sources_are_estimated(target, &collector->bpf->rodata->settings),
		.is_unsaved = target->snapshots.is_unsaved,
		.was_saved = target->snapshots.any_saved,
	};
	set_view_times(ret, target);
	if (is_of_now(&target->snapshots.shown, &target->now.books)) {
		ret->last_bytes = target->snapshots.shown.last_bytes;
		ret->most_bytes = target->snapshots.shown.most_bytes;
	}
	read_traced_memory(&collector->targets.books, target, &ret->memory);
	ret->allocations = target->now.books.counter[COUNTER_allocations];
	for (int loss = 0; loss < LOSS_NR; loss++)
		ret->lost += target->now.books.loss[loss];
	ret->is_empty = has_nothing_to_report(&collector->options, ret, target);
	ret->lost -= target->now.books.loss[LOSS_blocks_gone_in_gap]; /* no event was lost: the pause is a gap */
}
