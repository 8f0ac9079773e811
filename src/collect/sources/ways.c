// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/ways.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collect/probe/attach_methods.h"
#include "collect/sources/block_sources.h"
#include "collect/sources/go_source.h"
#include "collect/sources/python_hooks_plan.h"
#include "exact/books_reader.h"
#include "process/proc.h"

/* ---- the choice ---- */

static const struct {
	const char *option, *gives;
} rows[WAY_NR] = {
	[WAY_EXACT] = { "--inject=exact", "every block, by hooks in the process" },
	[WAY_POOLS] = { "--sample pools", "objects of up to 512 bytes, by the pools they lie in" },
	[WAY_INJECT] = { "--inject", "samples of the heap, by a sampler in the process" },
	[WAY_FAST] = { "'run --fast'", "samples of the heap, from its next start on" },
	[WAY_BUDGET] = { "--max-overhead 10", "traps up to 10 % of its own CPU time, then samples and gaps" },
};

/* Samples of the heap have other blocks than Python's objects: they are named only where nothing has these for less. */
static bool answers_same(const struct ways *ways, enum way way)
{
	bool is_of_objects = (ways->works[WAY_EXACT] && ways->exact_is_python) || ways->works[WAY_POOLS];

	if (way == WAY_EXACT)
		return ways->is_python == ways->exact_is_python;
	if (way == WAY_POOLS)
		return ways->is_python;
	return way == WAY_BUDGET || !ways->is_python || !is_of_objects;
}

size_t ways_cheaper(const struct ways *ways, enum way ret[WAY_NR])
{
	size_t nr = 0;

	for (enum way way = WAY_EXACT; way <= WAY_BUDGET; way++)
		if (ways->works[way] && answers_same(ways, way))
			ret[nr++] = way;
	return nr;
}

const char *ways_text(char ret[WAYS_TEXT_MAX], const struct ways *ways)
{
	enum way cheaper[WAY_NR];
	size_t nr = ways_cheaper(ways, cheaper), len = 0;

	*ret = '\0';
	for (size_t i = 0; i < nr && len < WAYS_TEXT_MAX; i++)
		len += snprintf(ret + len, WAYS_TEXT_MAX - len, "%s%s (%s)", i ? ", " : "", rows[cheaper[i]].option,
				rows[cheaper[i]].gives);
	return ret;
}

enum way ways_for_leaks(const struct ways *ways, double core_percent)
{
	if (ways->works[WAY_OWN])
		return WAY_OWN;
	return ways->is_python && ways->works[WAY_POOLS] && core_percent > LEAKS_BUSY_PERCENT ? WAY_POOLS : WAY_TRAPS;
}

enum way ways_next_step(const struct ways *ways)
{
	if (ways->works[WAY_OWN])
		return WAY_NR;
	if (ways->works[WAY_EXACT] && answers_same(ways, WAY_EXACT))
		return WAY_EXACT;
	return ways->works[WAY_INJECT] && answers_same(ways, WAY_INJECT) ? WAY_INJECT : WAY_NR;
}

static void format_leaks_by_traps(struct reason *ret, pid_t pid, const struct ways *ways, double core_percent, const char *step)
{
	if (!ways->is_python)
		reason_set(ret, 0, "process %d is recorded by traps, every block: no other way has all of them without changing it%s", pid,
			   step);
	else if (core_percent > LEAKS_BUSY_PERCENT)
		reason_set(ret, 0, "process %d is recorded by traps, each object, which slows a busy Python (%.0f %% of a core) many times: "
			   "its pools cannot be recorded%s", pid, core_percent, step);
	else
		reason_set(ret, 0, "process %d is recorded by traps, each object, as it uses little of a core (%.1f %%)%s", pid,
			   core_percent, step);
}

void ways_leaks_line(struct reason *ret, pid_t pid, const struct ways *ways, enum way way, double core_percent)
{
	enum way next = ways_next_step(ways);
	char step[80] = "";

	if (next != WAY_NR)
		snprintf(step, sizeof(step), "; %s: 'allocsnap leaks %d %s'", way == WAY_POOLS ? "each object" : "for less", pid,
			 rows[next].option);
	ret->text[0] = '\0';
	if (way == WAY_POOLS)
		reason_set(ret, 0, "process %d is a busy Python (%.0f %% of a core): its pools, and each object above 512 bytes, are recorded "
			   "(--sample pools,large), as traps for each object would slow it many times more%s", pid, core_percent,
			   next == WAY_EXACT ? step : "; each object: --domain python");
	else if (way == WAY_TRAPS)
		format_leaks_by_traps(ret, pid, ways, core_percent, step);
}

/* ---- which ones work ---- */

bool can_preload(pid_t pid)
{
	return proc_auxv(pid, AT_BASE) && !proc_auxv(pid, AT_SECURE);
}

/* Whether it takes samples of its heap itself. */
static bool takes_own_samples(const struct target *target)
{
	const struct mappings *mappings = &target->mappings;

	for (size_t i = 0; i < mappings->used_nr; i++) {
		const struct probe_info *info = mappings_used(mappings, i)->probe_info;

		if (info && info->has_sampler && info->sampler->nr && mappings_have(mappings, mappings->used[i]))
			return true;
	}
	return false;
}

/* The method of probes that its programs were loaded for, or would be. */
static const struct probe_way *probe_way_of_collector(const struct collector *collector)
{
	return collector->bpf ? probe_way_of(collector->bpf) : probe_way_choose();
}

static int check_not_hooked(pid_t pid, struct reason *why)
{
	struct inject_found there;

	if (inject_find(pid, &there, why) || !there.is_active)
		return 0;
	return reason_set(why, -EEXIST, "it has %s already", inject_kind_text(there.kind));
}

static int plan_exact_python(struct target *target, const struct found_python *place, struct exact_plan *ret, struct reason *why)
{
	int err = python_hooks_plan(target, place, &ret->python, why);

	ret->is_python = true;
	if (python_hooks_arenas(target, place, &ret->small_bytes_most))
		ret->small_bytes_most = 0;
	ret->small_bytes_most /= 16 / sizeof(uint64_t);
	return err ?: inject_python_check(target->identity.pid, target->identity.start_ticks, &ret->python, why);
}

static int plan_exact_heap(struct collector *collector, pid_t pid, struct reason *why)
{
	struct inject_plan *plan = NULL;
	int err = inject_plan_make(collector->helpers.sandbox, pid, &plan, why) ?: inject_check_books(pid, why);

	inject_plan_free(plan);
	return err;
}

int exact_plan_make(struct collector *collector, struct target *target, struct exact_plan *ret, struct reason *why)
{
	uint32_t domains = collector->options.domains ?: COLLECTOR_PYTHON | COLLECTOR_MALLOC;
	pid_t pid = target->identity.pid;
	struct found_python place;
	int err = check_not_hooked(pid, why);

	if (!err && !books_can_cut())
		err = reason_set(why, -ENOTSUP, "this kernel makes no barrier for all threads (membarrier, nohz_full)");
	*ret = (struct exact_plan){
		.large_block_bytes = sizeof(struct books_large), .node_bytes = sizeof(struct books_node),
		.traceback_bytes = sizeof(struct books_totals),
		.thread_bytes_most = BOOKS_THREAD_BYTES,
	};
	if (err)
		return err;
	err = domains & COLLECTOR_PYTHON ? python_hooks_find(collector, target, &place, why) : -ENOENT;
	if (!err)
		return plan_exact_python(target, &place, ret, why);
	if (err != -ENOENT)
		return err;
	return domains & COLLECTOR_MALLOC ? plan_exact_heap(collector, pid, why) : -ENOTSUP; /* with the line of python_hooks_find() */
}

static bool may_exact(struct collector *collector, struct target *target, bool *ret_is_python)
{
	struct exact_plan plan;
	struct reason ignored;
	int err = exact_plan_make(collector, target, &plan, &ignored);

	*ret_is_python = plan.is_python;
	return !err;
}

/* Each look is at another target: one that has been looked at is not asked again. */
static bool may_objects(struct collector *collector, pid_t pid, bool by_pools)
{
	struct reason ignored;
	struct target *target = target__open(pid, &collector->objects, &ignored);
	bool may = target && !python_objects_plan(collector, target, by_pools, &ignored);

	if (target)
		target__free(target);
	return may;
}

static bool may_inject(struct collector *collector, pid_t pid)
{
	struct inject_plan *plan = NULL;
	struct reason ignored;
	bool may = !inject_plan_make(collector->helpers.sandbox, pid, &plan, &ignored);

	inject_plan_free(plan);
	return may;
}

static bool records_pools_only(const struct collector_options *options)
{
	return options->python_pools && options->max_size && options->max_size <= COLLECTOR_PYTHON_SMALL_MAX;
}

/* These are for processes that are named. */
static void find_ways_of_one(struct collector *collector, struct target *target, struct ways *ret)
{
	const struct probe_way *way = probe_way_of_collector(collector);
	pid_t pid = target->identity.pid;

	ret->works[WAY_EXACT] = !way->is_alone && may_exact(collector, target, &ret->exact_is_python);
	ret->works[WAY_POOLS] = way->has_sessions && !records_pools_only(&collector->options) && may_objects(collector, pid, true);
	ret->works[WAY_INJECT] = !way->is_alone && !ret->works[WAY_OWN] && may_inject(collector, pid);
}

void ways_find(struct collector *collector, pid_t pid, const struct target *recorded, struct ways *ret)
{
	struct reason ignored;
	struct target *target = target__open(pid, &collector->objects, &ignored);

	*ret = (struct ways){ .works[WAY_BUDGET] = !collector->options.max_overhead };
	if (!target)
		return;
	ret->works[WAY_OWN] = takes_own_samples(target) || has_go_profile(collector, target);
	ret->works[WAY_FAST] = !ret->works[WAY_OWN] && can_preload(pid);
	if (recorded)
		ret->is_python = recorded->python.is_used;
	else
		ret->is_python = !ret->works[WAY_OWN] && probe_way_of_collector(collector)->has_sessions &&
				 may_objects(collector, pid, false);
	if (!collector->options.follow_forks)
		find_ways_of_one(collector, target, ret);
	target__free(target);
}
