// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/build/build_metadata.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#include "base/array.h"
#include "base/cgroup_path.h"
#include "base/host_name.h"
#include "base/moment.h"
#include "base/units.h"
#include "collect/bpf.h"
#include "collect/build/sample_weight.h"
#include "process/proc.h"
#include "elf/allocators.h"
#include "elf/user_allocators.h"
#include "snapshot.h"
#include "collect.h"
#include "collect/target/target.h"
#include "elf/probe_info.h"
#include "elf/runtime_detect.h"

/* "2026-11-21T03:15:00.123Z": UTC, in text[32]. */
static const char *format_time_rfc3339(char text[32], uint64_t wall_ns)
{
	time_t seconds = wall_ns / 1000000000;
	struct tm utc;
	size_t len;

	gmtime_r(&seconds, &utc);
	len = strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + len, 32 - len, ".%03uZ", (unsigned int)(wall_ns / 1000000 % 1000));
	return text;
}

/* Describes how the process ended, from the code that waitpid() gives. */
static void format_end(char text[64], const struct process *account)
{
	int status = account->exit_code;

	if (!account->exit_ns)
		snprintf(text, 64, "running");
	else if (account->loss[LOSS_ends_missed])
		snprintf(text, 64, "ended, and how was missed");
	else if (account->has_left)
		snprintf(text, 64, "called exec of a program that is not recorded");
	else if (WIFSIGNALED(status) && account->is_oom_victim)
		snprintf(text, 64, "killed by the OOM killer");
	else if (WIFSIGNALED(status))
		snprintf(text, 64, "killed by signal %d", WTERMSIG(status));
	else
		snprintf(text, 64, "exited %d", WEXITSTATUS(status));
}

static char *read_boot_id(void)
{
	return proc_text(0, "sys/kernel/random/boot_id");
}

uint32_t own_boot(void)
{
	char *boot_id = read_boot_id();
	uint32_t boot = boot_parse(boot_id);

	free(boot_id);
	return boot;
}

static int describe_machine(struct snapshot_builder *builder)
{
	char *boot_id = read_boot_id();
	char host[HOST_NAME_BYTES];
	struct utsname machine;
	int err = boot_id ? 0 : -ENOMEM;

	uname(&machine);
	err = err ?: snapshot_builder__metadata(builder, "host", own_host_name(host)) ?:
	      snapshot_builder__metadata(builder, "kernel", machine.release) ?:
	      snapshot_builder__metadata(builder, "machine", machine.machine) ?:
	      snapshot_builder__metadata(builder, "boot_id", boot_id);
	free(boot_id);
	return err;
}

int describe_numbers(struct snapshot_builder *builder, const struct number *number, size_t nr)
{
	char text[24];
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++) {
		snprintf(text, sizeof(text), "%" PRIu64, number[i].value);
		err = snapshot_builder__metadata(builder, number[i].key, text);
	}
	return err;
}

static const char *unwinder_name(const struct allocsnap_bpf *bpf)
{
	static const char *const name[] = {
		[UNWINDER_AUTO] = "auto",
		[UNWINDER_DWARF] = "dwarf",
		[UNWINDER_FP] = "fp",
	};

	return name[bpf->rodata->settings.unwinder];
}

/* The labels have the names of OpenTelemetry's conventions. A label of the user's with such a name replaces it. */
static int describe_container(struct snapshot_builder *builder, const char *cgroup, const struct pod *pod)
{
	char id[CONTAINER_ID_LEN + 1], runtime[CONTAINER_RUNTIME_MAX];
	const struct {
		const char *key, *value;
	} text[] = {
		{ "container_id", container_id(cgroup, id) },
		{ "label.container.runtime", container_runtime(cgroup, runtime) },
		{ "label.k8s.pod.uid", pod->uid },
		{ "label.k8s.pod.name", pod->name },
		{ "label.k8s.namespace.name", pod->namespace },
		{ "label.k8s.container.name", pod->container },
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(text) && !err; i++)
		if (*text[i].value)
			err = snapshot_builder__metadata(builder, text[i].key, text[i].value);
	return err;
}

static int describe_texts(struct snapshot_builder *builder, const struct process_identity *identity,
			  const struct probes *probes, const struct process *account, const struct snapshot_context *snapshot_context)
{
	char wall[32], end[64];
	const struct {
		const char *key, *value;
	} text[] = {
		{ "comm", identity->comm },
		{ "exe", identity->exe },
		{ "cmdline", identity->cmdline },
		{ "cgroup", identity->cgroup },
		{ "allocsnap_version", ALLOCSNAP_VERSION },
		{ "unwinder", unwinder_name(snapshot_context->bpf) },
		{ "probe_kind", probes_kind(probes, snapshot_context->bpf) },
		{ "wall_time", format_time_rfc3339(wall, snapshot_context->wall_ns) },
		{ "end", end },
	};
	int err = 0;

	format_end(end, account);
	for (size_t i = 0; i < ARRAY_SIZE(text) && !err; i++)
		err = snapshot_builder__metadata(builder, text[i].key, text[i].value);
	err = err ?: describe_container(builder, identity->cgroup, &identity->pod);
	return err || !snapshot_context->trigger ? err :
		       snapshot_builder__metadata(builder, "trigger", snapshot_context->trigger);
}

/* Writes only the classes that could be told apart, also where they are 0. */
static int describe_rss(struct snapshot_builder *builder, const struct rss *rss)
{
	static const char *const key[] = {
#define X(NAME, name) "rss_" #name "_bytes",
		RSS_CLASSES(X)
#undef X
	};
	const struct number number[] = {
		{ "rss_huge_bytes", rss->huge_bytes },
		{ "rss_swap_bytes", rss->swap_bytes },
		{ "rss_monotonic_ns", rss->time_ns },
	};
	int err = 0;

	if (!rss->time_ns)
		return 0;
	for (int i = 0; i < RSS_CLASS_NR && !err; i++)
		if (i == RSS_FILES || i == RSS_SHARED || (i != RSS_ANONYMOUS) == rss->is_close)
			err = describe_numbers(builder, &(struct number){ key[i], rss->bytes[i] }, 1);
	return err ?: describe_numbers(builder, number + !rss->is_close,
				       ARRAY_SIZE(number) - !rss->is_close);
}

/* Between two looks at the budget, and after the last one of a process that has ended, the time goes on. */
static uint64_t target_thinned_ns(const struct target *target, uint64_t now_ns)
{
	uint64_t exit_ns = target->now.account.exit_ns;

	return thinned_time_until(&target->budget.thinned, exit_ns && exit_ns < now_ns ? exit_ns : now_ns);
}

/* Writes no cost when the costs of traps are not known, nor of page faults: 0 would be wrong. */
static int describe_cost(struct snapshot_builder *builder, const struct target *target,
			 const struct snapshot_context *snapshot_context)
{
	const struct trap_costs *costs = snapshot_context->costs;
	const struct gaps_sum gaps = target__gaps(target, snapshot_context->monotonic_ns);
	const struct cost_sum *sum = &target->drained.cost;
	const struct number number[] = {
		{ "cpu_ns", sum->cpu_ns },
		{ "cost_ns", sum->cost_ns },
		{ "cost_entry_ns", costs->entry_ns },
		{ "cost_stepped_ns", costs->stepped_ns },
		{ "cost_return_ns", costs->return_ns },
		{ "cost_is_estimated", 1 },
	};

	const struct number budget[] = {
		{ "max_overhead_core_percent", snapshot_context->max_overhead },
		{ "max_overhead_percent", snapshot_context->max_overhead },
		{ "max_overhead_core_ns", target->budget.limit.terms.core_ns },
		{ "gap_count", gaps.nr },
		{ "gaps_ns", gaps.length_ns },
		{ "thinned_ns", target_thinned_ns(target, snapshot_context->monotonic_ns) },
	};
	int err = costs->entry_ns && !target->pages.state ? describe_numbers(builder, number, ARRAY_SIZE(number)) : 0;

	return err || !snapshot_context->max_overhead ? err : describe_numbers(builder, budget, ARRAY_SIZE(budget));
}

/* Whether a source says how its samples were taken. */
static bool names_rate(const struct target *target, const struct block_source *const *source)
{
	for (; *source; source++)
		if ((*source)->names_rate && (*source)->names_rate(target))
			return true;
	return false;
}

static int describe_sources(struct snapshot_builder *builder, const struct target *target,
			    const struct snapshot_context *snapshot_context)
{
	int err = 0;

	for (const struct block_source *const *source = snapshot_context->sources; *source && !err; source++)
		if ((*source)->describe)
			err = (*source)->describe(builder, target, &snapshot_context->bpf->rodata->settings);
	return err;
}

int describe_target(struct snapshot_builder *builder, const struct target *target,
		    const struct process *account, const struct snapshot_context *snapshot_context)
{
	const struct number number[] = {
		{ "pid", target->identity.pid },
		{ "start_time_ticks", target->identity.start_ticks },
		{ "exec_count", account->exec_cnt },
		{ "wall_ns", snapshot_context->wall_ns },
		{ "monotonic_ns", snapshot_context->monotonic_ns },
		{ "recording_start_monotonic_ns", target->life.started_ns },
		{ "traceback_limit", snapshot_context->traceback_limit },
		{ "max_blocks", blocks_capacity(snapshot_context->bpf) },
		{ "rss_bytes", target->resident.bytes },
		{ "rss_at_start_bytes", target->resident.at_start_bytes },
	};
	const struct settings *settings = &snapshot_context->bpf->rodata->settings;
	bool has_own_rate = names_rate(target, snapshot_context->sources);
	uint32_t coarsest = coarsest_rate_of(target->now.account.sample_rates_used); /* of a budget */
	const struct number chosen[] = {
		{ "clear_count", account->clear_cnt },
		{ "interval_ns", snapshot_context->interval_ns },
		{ "sample_bytes", has_own_rate ? 0 : settings->sample_bytes[0] },
		{ "sample_bytes_most", coarsest && !has_own_rate ? settings->sample_bytes[coarsest] : 0 },
		{ "min_size", settings->min_size },
		{ "max_size", settings->max_size },
	};
	const struct number parent = { "parent_pid", target->now.account.parent };
	const struct number resolution = { "birth_resolution_ns", 1000000000 };
	int err = describe_machine(builder);

	err = err ?: describe_texts(builder, &target->identity, target->probes.used, account, snapshot_context);
	err = err ?: describe_numbers(builder, number, ARRAY_SIZE(number));
	for (size_t i = 0; i < ARRAY_SIZE(chosen) && !err; i++)
		if (chosen[i].value)
			err = describe_numbers(builder, &chosen[i], 1);
	err = err ?: describe_rss(builder, &target->resident.by_kind);
	err = err ?: describe_cost(builder, target, snapshot_context);
	err = err ?: describe_domains(builder, target, snapshot_context->sources) ?:
		     describe_sources(builder, target, snapshot_context);
	if (!err && snapshot_context->is_compact)
		err = describe_numbers(builder, &resolution, 1);
	return err || !parent.value ? err : describe_numbers(builder, &parent, 1);
}

int describe_counters(struct snapshot_builder *builder, const uint64_t *counter,
		      const uint64_t *loss)
{
	static const char *const counter_name[] = {
#define X(name, meaning) #name,
		ALLOCSNAP_COUNTERS(X)
#undef X
	};
	static const char *const loss_name[] = {
#define X(name, meaning) #name,
		ALLOCSNAP_LOSSES(X)
#undef X
	};
	int err = 0;

	for (size_t i = 0; i < COUNTER_NR && !err; i++)
		err = snapshot_builder__counter(builder, SNAP_COUNTED, counter_name[i],
						counter[i]);
	for (size_t i = 0; i < LOSS_NR && !err; i++)
		err = snapshot_builder__counter(builder, SNAP_LOST, loss_name[i], loss[i]);
	return err;
}

/* The domains of --probe have the names that the user gave. */
static const char *name_of_domain(const struct user_allocators *user_allocators, const struct probe_site *site)
{
	return site->is_user_allocator ? user_allocators->allocator[site->domain - DOMAIN_USER].name :
				 domain_name(site->domain);
}

/*
 * The blocks of a user allocator that wraps the heap are like the heap's: they do not lie inside the heap's
 * blocks.
 */
static int describe_domain(struct snapshot_builder *builder, const struct user_allocators *user_allocators,
			   const struct probe_site *site)
{
	char key[32];
	int err = snapshot_builder__probe_domain(builder, site->domain) ?:
			  snapshot_builder__domain_name(builder, site->domain, name_of_domain(user_allocators, site));
	if (err || !site->is_user_allocator)
		return err;
	snprintf(key, sizeof(key), "layer.%u", site->domain);
	return snapshot_builder__metadata(builder, key, site->layer == LAYER_POOL ? "pool" : "heap");
}

static int describe_probe(struct snapshot_builder *builder, const struct objects *objects,
			  const struct probe_site *site, uint32_t object_id)
{
	char name[FUNCTION_NAME_MAX];
	struct snap_probe row = {
		.object = object_id,
		.offset = site->offset,
		.placement = site->placement.offset,
	};
	int err = snapshot_builder__string(builder, probe_site_name(site, objects->object[site->object], name),
					   &row.function);

	err = err ?: snapshot_builder__string(builder, site->placement.instruction,
					      &row.instruction);
	return err ?: snapshot_builder__probe(builder, &row) ?: describe_domain(builder, objects->user_allocators, site);
}

/* Shared probes of the heap do nothing for a process that is recorded by another domain. */
static int describe_probe_set(struct snapshot_builder *builder, const struct target *target,
			      const struct probes *probes, bool has_other_domain, const uint32_t *object_id,
			      uint64_t *stepped)
{
	int err = 0;

	for (size_t i = 0; i < probes->site_nr && !err; i++) {
		const struct probe_site *site = &probes->site[i];

		if (!site->is_attached || !object_id[site->object] ||
		    (has_other_domain && site->layer == LAYER_HEAP))
			continue;
		err = describe_probe(builder, target->mappings.objects, site, object_id[site->object]);
		*stepped += site->placement.why != PLACEMENT_EMULATED;
	}
	return err;
}

/* Whether a source with a domain of its own is used in place of the heap, or may be. */
static bool domain_besides_heap(const struct target *target, const struct block_source *const *source)
{
	for (; *source; source++)
		if ((*source)->domain && (*source)->hides_heap && (*source)->is_used(target))
			return true;
	return false;
}

int describe_probes(struct snapshot_builder *builder, const struct target *target,
		    const struct block_source *const *sources, const uint32_t *object_id)
{
	bool has_other = domain_besides_heap(target, sources);
	struct number stepped = { "probes_stepped", 0 };
	int err = describe_probe_set(builder, target, target->probes.used, has_other, object_id, &stepped.value) ?:
		  describe_probe_set(builder, target, &target->probes.beside, has_other, object_id, &stepped.value);

	return err ?: describe_numbers(builder, &stepped, 1);
}

/* since_ns: the end of what is described already, or the start of the recording. */
static int describe_gap(struct snapshot_builder *builder, const struct gap *gap, uint64_t *since_ns, uint64_t now_ns)
{
	uint64_t start_ns = gap->start_ns > *since_ns ? gap->start_ns : *since_ns;
	uint64_t end_ns = gap->end_ns < now_ns ? gap->end_ns : now_ns;

	if (start_ns >= end_ns)
		return 0;
	*since_ns = end_ns;
	return snapshot_builder__gap(builder, start_ns, end_ns);
}

/* The gaps of one set of probes in order, an open one included; NULL: no more. */
static const struct gap *gap_at(const struct pausing *pausing, size_t i, const struct gap *open)
{
	if (!pausing || i > pausing->gap_nr)
		return NULL;
	if (i < pausing->gap_nr)
		return &pausing->gap[i];
	return open->start_ns ? open : NULL;
}

/* Gaps of the shared probes and of the process's own ones may overlap where the links change. */
int describe_gaps(struct snapshot_builder *builder, const struct target *target, uint64_t now_ns)
{
	const struct pausing *own = &target->budget.own, *shared = target->budget.shared;
	const struct gap own_open = { .start_ns = own->open_ns, .end_ns = now_ns };
	const struct gap shared_open = { .start_ns = shared ? shared->open_ns : 0, .end_ns = now_ns };
	uint64_t since_ns = target->life.started_ns;
	size_t own_nr = 0, shared_nr = 0;
	int err = 0;

	while (!err) {
		const struct gap *a = gap_at(own, own_nr, &own_open), *b = gap_at(shared, shared_nr, &shared_open);

		if (!a && !b)
			break;
		if (a && (!b || a->start_ns < b->start_ns)) {
			err = describe_gap(builder, a, &since_ns, now_ns);
			own_nr++;
		} else {
			err = describe_gap(builder, b, &since_ns, now_ns);
			shared_nr++;
		}
	}
	return err;
}

/* ---- domains ---- */

static void find_heaps(const struct mappings *mappings, uint64_t *ret_heaps, uint32_t *ret_nameless)
{
	for (size_t i = 0; i < mappings->used_nr; i++) {
		const struct probe_info *probe_info = mappings_used(mappings, i)->probe_info;

		if (!probe_info || !mappings_have(mappings, mappings->used[i]))
			continue;
		*ret_heaps |= probe_info->heaps;
		*ret_nameless |= probe_info->nameless_heap ? 1u << probe_info->nameless_heap : 0;
	}
}

struct heap_row {
	uint64_t bit;
	const char *text;
};

static size_t add_heap_row(char text[1024], size_t len, const char *what, const char *more)
{
	return len + snprintf(text + len, 1024 - len, "%s%s%s", len ? "; " : "", what, more);
}

/* Writes the heaps in the process that no probe sees, and what shows them. */
static int describe_unrecorded(struct snapshot_builder *builder, const struct target *target,
			       const struct block_source *const *source)
{
	static const struct heap_row rows[] = {
#define X(NAME, word, what, tool) { TRAIT_BIT(NAME), what " (" tool ")" },
		RUNTIME_HEAPS(X)
#undef X
	};
	uint64_t heaps = 0, known = 0; /* known: a source says what is missing */
	uint32_t nameless = 0; /* domains */
	char text[1024];
	size_t len = 0;

	find_heaps(&target->mappings, &heaps, &nameless);
	for (const struct block_source *const *at = source; *at; at++) {
		known |= (*at)->unrecorded ? (*at)->trait : 0;
		heaps &= (*at)->trait && (*at)->is_used(target) ? ~(*at)->trait : UINT64_MAX;
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (heaps & ~known & rows[i].bit)
			len = add_heap_row(text, len, rows[i].text, "");
	for (; *source; source++)
		if (heaps & (*source)->trait && (*source)->unrecorded)
			len = add_heap_row(text, len, (*source)->unrecorded, "");
	for (uint32_t domain = 0; nameless >> domain; domain++)
		if (nameless >> domain & 1)
			len = add_heap_row(text, len, domain_name(domain), " without function names (allocsnap doctor)");
	return len ? snapshot_builder__metadata(builder, "unrecorded", text) : 0;
}

int describe_domains(struct snapshot_builder *builder, const struct target *target,
		     const struct block_source *const *sources)
{
	static const struct {
		uint32_t domain;
		const char *name;
		bool is_heap;
	} rows[] = {
		{ COLLECTOR_MALLOC, "malloc", true },	  { COLLECTOR_GLIBC, "glibc", true },
		{ COLLECTOR_MUSL, "musl", true },	  { COLLECTOR_JEMALLOC, "jemalloc", true },
		{ COLLECTOR_TCMALLOC, "tcmalloc", true }, { COLLECTOR_MIMALLOC, "mimalloc", true },
		{ COLLECTOR_MMAP, "mmap" },
	};
	char text[96];
	size_t len = 0;
	bool is_instead = false; /* of the heap */
	int err = 0;

	for (const struct block_source *const *at = sources; *at; at++) {
		if (!(*at)->domain || !(*at)->is_used(target))
			continue;
		len += snprintf(text + len, sizeof(text) - len, "%s%s", len ? "," : "", (*at)->domain);
		is_instead |= (*at)->hides_heap && (*at)->hides_heap(target);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (target->mappings.objects->domains & rows[i].domain && !(rows[i].is_heap && is_instead))
			len += snprintf(text + len, sizeof(text) - len, "%s%s", len ? "," : "", rows[i].name);
	if (len)
		err = snapshot_builder__metadata(builder, "domains", text);
	if (target->pages.state)
		return err; /* pages are of every runtime */
	return err ?: describe_unrecorded(builder, target, sources);
}
