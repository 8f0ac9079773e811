// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* `show`: what the recording cost the program. */
#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"
#include "render/facts.h"
#include "render/show.h"
#include "snapshot.h"

struct own_cost {
	bool is_known, is_estimated;
	uint64_t cost_ns, cpu_ns; /* cost_ns is part of cpu_ns */
	uint64_t wall_ns;	  /* 0: not known */
	uint64_t core_percent;	  /* 0: no budget of one core */
	uint64_t own_percent;	  /* the same of the program's own CPU time */
	uint64_t core_ns;	  /* what counts as one core: less than a second of it with a quota */
	uint64_t thinned_ns;	  /* how long only samples were recorded to stay within the budget */
};

static struct own_cost read_own_cost(const struct snapshot *snapshot)
{
	const char *is_estimated = snapshot__metadata(snapshot, "cost_is_estimated");
	struct own_cost cost = {
		.cost_ns = snapshot__metadata_u64(snapshot, "cost_ns", UINT64_MAX),
		.cpu_ns = snapshot__metadata_u64(snapshot, "cpu_ns", UINT64_MAX),
		.wall_ns = snapshot_recorded_ns(snapshot),
		.core_percent = snapshot__metadata_u64(snapshot, "max_overhead_core_percent", 0),
		.own_percent = snapshot__metadata_u64(snapshot, "max_overhead_percent", 0),
		.core_ns = snapshot__metadata_u64(snapshot, "max_overhead_core_ns", SECOND_NS),
		.thinned_ns = snapshot__metadata_u64(snapshot, "thinned_ns", 0),
		.is_estimated = is_estimated && !strcmp(is_estimated, "1"),
	};

	cost.is_known = cost.cost_ns != UINT64_MAX && cost.cpu_ns != UINT64_MAX;
	return cost;
}

/* Returns the factor by which the recording lengthened the program's own time; 0: not known. */
static double slowdown_of(const struct own_cost *cost)
{
	if (cost->cost_ns >= cost->cpu_ns)
		return 0;
	return (double)cost->cpu_ns / (cost->cpu_ns - cost->cost_ns);
}

/* Each kind of trap: its counter, and the metadata with the time of one trap. */
static const struct {
	const char *counter, *price, *json_price;
} traps[] = {
	{ "entry_traps", "cost_entry_ns", "entry_trap_ns" },
	{ "stepped_traps", "cost_stepped_ns", "stepped_trap_ns" },
	{ "return_traps", "cost_return_ns", "return_trap_ns" },
};

/* The recording's cost as a share of one core in the time that it took; that time may be unknown. */
static void put_core_share(struct emitter *out, const struct own_cost *cost)
{
	char used[UNIT_TEXT_MAX], wall[UNIT_TEXT_MAX], own[UNIT_TEXT_MAX], share[UNIT_TEXT_MAX], times[64] = "";
	uint64_t own_ns = cost->cpu_ns > cost->cost_ns ? cost->cpu_ns - cost->cost_ns : 0;
	const char *about = cost->is_estimated ? "about " : "";

	format_seconds(used, cost->cost_ns);
	format_seconds(own, own_ns);
	if (slowdown_of(cost) > 0)
		snprintf(times, sizeof(times), " of CPU time, ×%.*f while recorded", slowdown_of(cost) < 9.95 ? 1 : 0,
			 slowdown_of(cost));
	if (!cost->cpu_ns)
		emit_line(out, "  the program has not run since");
	else if (!cost->wall_ns)
		emit_line(out, "  recording used %s%s; the program's own work: %s%s", about, used, own, times);
	else
		emit_line(out, "  recording used %s (%s%s in %s); the program's own work: %s%s",
			  format_core_share(share, cost->cost_ns, cost->wall_ns), about, used,
			  format_seconds(wall, cost->wall_ns), own, times);
}

static void emit_times(struct emitter *out, const struct own_cost *cost)
{
	emit_uint(out, "cpu_ns", cost->cpu_ns);
	emit_uint(out, "cost_ns", cost->cost_ns);
	if (cost->wall_ns) {
		emit_uint(out, "wall_ns", cost->wall_ns);
		emit_real(out, "core_share", (double)cost->cost_ns / cost->wall_ns);
	}
	if (cost->cpu_ns)
		emit_real(out, "share", (double)cost->cost_ns / cost->cpu_ns);
	if (slowdown_of(cost) > 0)
		emit_real(out, "slowdown", slowdown_of(cost));
	emit_bool(out, "is_estimated", cost->is_estimated);
	put_core_share(out, cost);
}

static void emit_traps(struct emitter *out, const struct snapshot *snapshot, size_t kind)
{
	uint64_t nr = snapshot__counter(snapshot, traps[kind].counter);
	uint64_t price_ns = snapshot__metadata_u64(snapshot, traps[kind].price, 0);
	char price[48] = "";

	if (price_ns)
		snprintf(price, sizeof(price), ", %" PRIu64 " ns each", price_ns);
	if (snapshot_has_counter(snapshot, traps[kind].counter)) {
		emit_uint(out, traps[kind].counter, nr);
		emit_line(out, SHOW_NAME "%" PRIu64 "%s", traps[kind].counter, nr, price);
	}
	if (price_ns)
		emit_uint(out, traps[kind].json_price, price_ns);
}

static const char *format_core(char text[64], const struct own_cost *cost)
{
	if (cost->core_ns >= SECOND_NS)
		return "one core";
	snprintf(text, 64, "its quota (%.2f of a core)", (double)cost->core_ns / SECOND_NS);
	return text;
}

static void emit_budget(struct emitter *out, const struct own_cost *cost)
{
	char thinned[UNIT_TEXT_MAX], core[64], own[96] = "";

	if (cost->own_percent) {
		emit_uint(out, "max_overhead_percent", cost->own_percent);
		snprintf(own, sizeof(own), ", and of the program's own CPU time, or %.4g %% of a core, if that is more",
			 (double)cost->own_percent / BUDGET_IDLE_PART * cost->core_ns / SECOND_NS);
	}
	if (cost->core_percent) {
		emit_uint(out, "max_overhead_core_percent", cost->core_percent);
		emit_line(out, SHOW_NAME "%" PRIu64 " %% of %s%s", "budget", cost->core_percent, format_core(core, cost), own);
	} else if (cost->own_percent) {
		emit_line(out, SHOW_NAME "%" PRIu64 " %% of the program's own CPU time", "budget", cost->own_percent);
	}
	if (cost->core_percent && cost->own_percent)
		emit_uint(out, "max_overhead_core_ns", cost->core_ns);
	if (!cost->thinned_ns)
		return;
	emit_uint(out, "thinned_ns", cost->thinned_ns);
	emit_line(out, SHOW_NAME "%s, to stay within the budget", "only samples for",
		  format_seconds(thinned, cost->thinned_ns));
}

void emit_cost(struct emitter *out, const struct snapshot *snapshot)
{
	uint64_t stepped = snapshot__metadata_u64(snapshot, "probes_stepped", UINT64_MAX);
	uint64_t program_ns = snapshot__counter(snapshot, "program_ns");
	struct own_cost cost = read_own_cost(snapshot);

	if (!cost.is_known)
		return;
	emit_line(out, "cost");
	emit_object(out, "cost");
	emit_times(out, &cost);
	for (size_t i = 0; i < ARRAY_SIZE(traps); i++)
		emit_traps(out, snapshot, i);
	if (snapshot_has_counter(snapshot, "program_ns")) {
		emit_uint(out, "program_ns", program_ns);
		emit_line(out, SHOW_NAME "%.3f s", "program time", program_ns / 1e9);
	}
	if (stepped != UINT64_MAX)
		emit_uint(out, "probes_stepped", stepped);
	emit_budget(out, &cost);
	emit_end(out);
}
