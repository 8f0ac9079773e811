// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* How much room the data of ended images takes, which only a drain frees; and the numbers of the whole recording. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/array.h"
#include "collect/bpf.h"
#include "process/open_file.h"
#include "collect/recording/collector.h"
#include "collect/recording/map_shares.h"
#include "collect/session/session.h"
#include "helper/helper.h"
#include "sandbox/client.h"

/* ---- helper processes that have ended ---- */

/* True: this helper has ended, and it is the first one that has. */
static bool has_lost(struct collector *collector, const struct helper *helper, const char *why)
{
	if (collector->helpers.has_lost_helper || !helper__has_ended(helper))
		return false;
	collector->helpers.has_lost_helper = true;
	epoll_ctl(collector->events.fd, EPOLL_CTL_DEL, helper->end_fd, NULL);
	notes_add(&collector->notes, "%s", why);
	return true;
}

/* Without the other helpers existing probes go on. But new files would get neither probes nor names. */
void notice_blindness(struct collector *collector)
{
	const struct helpers *helpers = &collector->helpers;

	if (helpers->link_holder &&
	    has_lost(collector, link_holder__helper(helpers->link_holder),
		     "the process that keeps the probes (allocsnap-links) has ended: nothing is recorded any more")) {
		epoll_ctl(collector->events.fd, EPOLL_CTL_DEL, link_holder__news_fd(helpers->link_holder), NULL);
		budget_lose_probes(collector);
	}
	has_lost(collector, sandbox__helper(helpers->sandbox),
		 "the process that starts the readers of ELF files (allocsnap-spawn) has ended: no other file can be probed or named");
	has_lost(collector, file_opener__helper(helpers->opener),
		 "the process that opens files of file systems that may hang (allocsnap-files) has ended");
}

/* ---- health ---- */

/* Counts the targets that have ended since the last drain. */
static size_t count_undrained(const struct targets *targets)
{
	return array_count(targets->target_nr, i,
			   targets->target[i]->life.has_ended && !targets->target[i]->snapshots.is_final);
}

static size_t count_ended_targets(const struct targets *targets)
{
	return array_count(targets->target_nr, i, targets->target[i]->life.has_ended);
}

/*
 * Tracebacks that a drain would free, at once or when the last snapshots of their processes are written. Tracebacks of
 * processes that have ended and are drained do not count: they wait for their snapshots only.
 */
static uint64_t count_stale_tracebacks(const struct collector *collector)
{
	const struct targets *targets = &collector->targets;
	uint64_t all = __atomic_load_n(&collector->bpf->bss->tracebacks_held, __ATOMIC_RELAXED), kept = 0;

	for (uint32_t slot = 0; slot < PROCESSES_MAX; slot++) {
		const struct process *account = account_of(targets, slot);
		const struct target *target = targets->by_slot[slot];

		if (accounts_image(&targets->accounts, slot) && (!account->exit_ns || (target && target->snapshots.is_final)))
			kept += account->tracebacks;
	}
	return all > kept ? all - kept : 0;
}

/* In system-wide mode the rest of the room must last for running processes until the drain is over. */
bool collector__is_drain_due(const struct collector *collector)
{
	const struct allocsnap_bpf *bpf = collector->bpf;

	if (!collector->options.system_wide)
		return count_ended_targets(&collector->targets);
	return count_undrained(&collector->targets) > PROCESSES_MAX / 4 ||
	       health_stale_blocks(bpf) > bpf_map__max_entries(bpf->maps.blocks) / 4 ||
	       count_stale_tracebacks(collector) > bpf_map__max_entries(bpf->maps.tracebacks) / 4;
}

/* Reads the traps of each kind, summed over all CPUs; 0 if they cannot be read. */
static void read_traps(const struct allocsnap_bpf *bpf, uint64_t traps[3])
{
	int nr = libbpf_num_possible_cpus();
	uint64_t *values = nr > 0 ? calloc(nr, sizeof(*values)) : NULL;

	for (uint32_t trap = 0; trap < 3; trap++) {
		traps[trap] = 0;
		if (!values || bpf_map_lookup_elem(bpf_map__fd(bpf->maps.bystander_traps), &trap, values))
			continue;
		for (int i = 0; i < nr; i++)
			traps[trap] += values[i];
	}
	free(values);
}

static uint64_t ended_small(const struct allocsnap_bpf *bpf)
{
	return __atomic_load_n(&bpf->bss->ended_small, __ATOMIC_RELAXED);
}

/* Sums the traced processes, the processes that are gone, and those that ended before the loader had seen them. */
static struct gone sum_all_processes(const struct collector *collector)
{
	const struct process small = collector->bpf->bss->ended_small_sum;
	struct gone all = collector->totals.gone;

	all.processes += collector->targets.target_nr + ended_small(collector->bpf);
	gone_add(&all, &small);
	all.cpu_ns += small.cpu_ns;
	all.cost_ns += cost_of_account(&collector->limits->budgets.costs, &small);
	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		const struct target *target = collector->targets.target[i];

		gone_add_target(&all, target);
		all.cpu_ns += target->now.cost.cpu_ns;
		all.cost_ns += target->now.cost.cost_ns;
	}
	return all;
}

static void report_sums(const struct collector *collector, struct collector_health *ret)
{
	const struct gone all = sum_all_processes(collector);

	ret->processes_all = all.processes;
	ret->allocations = all.allocations;
	ret->frees = all.frees;
	ret->cpu_ns = all.cpu_ns;
	ret->cost_ns = all.cost_ns;
}

void collector__get_health(const struct collector *collector, struct collector_health *ret)
{
	const struct trap_costs *costs = &collector->limits->budgets.costs;
	uint64_t dropped = __atomic_load_n(&collector->bpf->bss->admissions_dropped, __ATOMIC_RELAXED);
	uint64_t traps[3];

	read_traps(collector->bpf, traps);
	*ret = (struct collector_health){
		.processes = collector->targets.target_nr,
		.processes_waiting = count_ended_targets(&collector->targets),
		.processes_small = collector->totals.small_nr + ended_small(collector->bpf),
		.processes_unprobed = collector->totals.unprobed_nr,
		.processes_dropped = collector->totals.not_admitted_nr + dropped,
		.processes_ever_dropped = collector->totals.ever_refused_nr + dropped,
		.cost_is_known = costs->entry_ns != 0,
		.bystander_traps = traps[0] + traps[1] + traps[2],
		.bystander_entry_traps = traps[0],
		.bystander_stepped_traps = traps[1],
		.bystander_return_traps = traps[2],
		.bystander_cost_ns =
			traps[0] * costs->entry_ns + traps[1] * costs->stepped_ns + traps[2] * costs->return_ns,
	};
	report_sums(collector, ret);
}

static const char *const loss_names[LOSS_NR] = {
#define X(name, meaning) #name,
	ALLOCSNAP_LOSSES(X)
#undef X
};

size_t collector__get_losses(const struct collector *collector, struct collector_loss *ret, size_t max)
{
	struct gone all = sum_all_processes(collector);
	size_t nr = 0;

	/* These belong to no process: each snapshot has all of them. */
	all.loss[LOSS_mappings_missed] = mapping_events__missed(collector->events.mappings);
	all.loss[LOSS_process_events_missed] = collector->pass.snapshot_context.process_events_missed;
	for (int i = 0; i < LOSS_NR && nr < max; i++)
		if (all.loss[i])
			ret[nr++] = (struct collector_loss){ loss_names[i], all.loss[i] };
	return nr;
}
