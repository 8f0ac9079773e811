// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/recording_show.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/reason.h"
#include "base/terminal.h"
#include "base/units.h"
#include "collect.h"
#include "engine.h"
#include "render.h"
#include "render/caveats.h"
#include "render/facts.h"
#include "snapshot.h"

#define TOP_AT_END 10

/* Adds up all processes; *view is the last one of them. *ret_share: the part of their time that was not recorded. */
static size_t add_up_views(const struct collector *collector, struct process_view *view,
			   struct process_view *sum, double *ret_share)
{
	uint64_t recorded_ns = 0;
	size_t nr = 0;

	for (size_t i = 0; i < collector__process_nr(collector); i++) {
		collector__view(collector, i, view);
		if (view->is_vforked)
			continue;
		sum->memory.current_bytes += view->memory.current_bytes;
		sum->memory.current_blocks += view->memory.current_blocks;
		sum->allocations += view->allocations;
		sum->lost += view->lost;
		sum->cpu_ns += view->cpu_ns;
		sum->cost_ns += view->cost_ns;
		sum->cost_is_known = view->cost_is_known;
		if (sum->recorded_ns < view->recorded_ns)
			sum->recorded_ns = view->recorded_ns;
		sum->gaps_ns += view->gaps_ns;
		recorded_ns += view->recorded_ns;
		sum->is_thinned |= view->is_thinned;
		sum->is_paused |= view->is_paused;
		sum->is_estimated |= view->is_estimated;
		nr++;
	}
	*ret_share = recorded_ns ? (double)sum->gaps_ns / recorded_ns : 0;
	return nr;
}

#define COST_TEXT_MAX 64

/* ", costs 5.2 % of one core"; "" if that is not known. */
static const char *format_cost(char text[COST_TEXT_MAX], const struct process_view *sum)
{
	char share[UNIT_TEXT_MAX];

	*text = '\0';
	if (sum->cost_is_known)
		snprintf(text, COST_TEXT_MAX, ", costs %s",
			 format_core_share(share, sum->cost_ns, sum->recorded_ns));
	return text;
}

void log_recording_cost(const struct process_view *sum, size_t nr)
{
	uint64_t own_ns = sum->cpu_ns > sum->cost_ns ? sum->cpu_ns - sum->cost_ns : 0;
	char share[UNIT_TEXT_MAX], cost[UNIT_TEXT_MAX], wall[UNIT_TEXT_MAX], own[UNIT_TEXT_MAX];

	if (!isatty(STDERR_FILENO) || !sum->cost_is_known)
		return;
	log_info("recording used %s (about %s in %s); the program%s own work: %s",
		 format_core_share(share, sum->cost_ns, sum->recorded_ns), format_seconds(cost, sum->cost_ns),
		 format_seconds(wall, sum->recorded_ns), nr == 1 ? "'s" : "s'", format_seconds(own, own_ns));
}

/* A line of parts; the first ones are the most important ones. */
struct status_parts {
	char *text;
	size_t bytes; /* room, with the NUL */
	size_t len;
};

/* Adds a part, whole or not at all. */
__attribute__((format(printf, 2, 3))) static void add_status_part(struct status_parts *parts, const char *fmt, ...)
{
	size_t room = parts->bytes - parts->len;
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(parts->text + parts->len, room, fmt, args);
	va_end(args);
	if (len >= 0 && (size_t)len < room)
		parts->len += len;
	else
		parts->text[parts->len] = '\0';
}

void recording_status_show(const struct recording_status *status, status_format_fn format)
{
	size_t columns = status_line_columns();
	char text[256];

	if (!status_line_is_due())
		return;
	format(text, columns < sizeof(text) ? columns + 1 : sizeof(text), status);
	status_line_show(text);
}

static const char *recording_verb(const struct process_view *sum)
{
	return sum->is_paused ? "pausing" : sum->is_thinned ? "sampling" : "recording";
}

#define GAPS_STATUS_MAX 96

/* ", 3.25 s (26 %) not recorded"; of several processes only the share says something. "": there are no gaps. */
static const char *format_gaps(char text[GAPS_STATUS_MAX], const struct process_view *sum, double share, bool is_one)
{
	char seconds[UNIT_TEXT_MAX];
	int digits = share < 0.0995;

	*text = '\0';
	if (sum->gaps_ns && is_one)
		snprintf(text, GAPS_STATUS_MAX, ", %s (%.*f %%) not recorded", format_seconds(seconds, sum->gaps_ns),
			 digits, 100 * share);
	else if (sum->gaps_ns)
		snprintf(text, GAPS_STATUS_MAX, ", %.*f %% of the time not recorded", digits, 100 * share);
	return text;
}

/* "recording redis-server, 0 lost: 5.2 MiB in 1234 blocks": what was lost is on the narrowest terminal, too. */
static struct status_parts begin_status(char *text, size_t bytes, const struct process_view *sum, const char *what,
					const char *gaps)
{
	struct status_parts parts = { text, bytes };
	char size[UNIT_TEXT_MAX];

	*text = '\0';
	add_status_part(&parts, "%s %s, %llu lost", recording_verb(sum), what,
		 (unsigned long long)sum->lost);
	if (!parts.len)
		add_status_part(&parts, "%llu lost", (unsigned long long)sum->lost);
	add_status_part(&parts, "%s", gaps);
	add_status_part(&parts, ": %s%s", sum->is_estimated ? "about " : "",
		 format_size(size, sum->memory.current_bytes, false));
	add_status_part(&parts, " in %llu blocks", (unsigned long long)sum->memory.current_blocks);
	return parts;
}

/* "12 s, 3 snapshots, costs 5.2 % of one core" */
static void add_course(struct status_parts *parts, const struct recording_status *status,
		       const struct process_view *sum)
{
	char cost[COST_TEXT_MAX];

	add_status_part(parts, ", %llu s, %llu snapshot%s", (unsigned long long)status->seconds,
			(unsigned long long)status->snapshot_nr, status->snapshot_nr == 1 ? "" : "s");
	add_status_part(parts, "%s", format_cost(cost, sum));
	add_status_part(parts, " [Ctrl-C ends]");
}

void format_named_status(char *text, size_t bytes, const struct recording_status *status)
{
	struct process_view view = {}, sum = {};
	double gap_share;
	size_t nr = add_up_views(status->collector, &view, &sum, &gap_share);
	struct status_parts parts;
	char comm[64], gaps[GAPS_STATUS_MAX];

	if (nr == 1)
		clean_text(comm, sizeof(comm), view.comm ?: "");
	else
		snprintf(comm, sizeof(comm), "%zu processes", nr);
	parts = begin_status(text, bytes, &sum, comm, format_gaps(gaps, &sum, gap_share, nr == 1));
	add_course(&parts, status, &sum);
	add_status_part(&parts, ", %llu allocations", (unsigned long long)sum.allocations);
}

void format_record_status(char *text, size_t bytes, const struct recording_status *status)
{
	struct process_view view = {}, sum = {};
	struct collector_health health;
	struct status_parts parts;
	double gap_share;
	char what[64], gaps[GAPS_STATUS_MAX];
	uint64_t nr;

	add_up_views(status->collector, &view, &sum, &gap_share);
	collector__get_health(status->collector, &health);
	nr = health.processes - health.processes_waiting;
	snprintf(what, sizeof(what), "%llu process%s", (unsigned long long)nr, nr == 1 ? "" : "es");
	parts = begin_status(text, bytes, &sum, what, format_gaps(gaps, &sum, gap_share, nr == 1));
	add_course(&parts, status, &sum);
	if (health.bystander_traps)
		add_status_part(&parts, ", other processes paid %.2f s", health.bystander_cost_ns / 1e9);
}

int print_top_rows(const char *path)
{
	struct engine_options options = {};
	struct snapshot *snapshot = snapshot__open(path, NULL);
	const struct renderer *text = renderer_find("text", NULL);
	struct statistics *statistics = NULL;
	int err = snapshot ? snapshot_statistics(snapshot, &options, &statistics, NULL) : -errno;
	const struct snapshot *snapshots[] = { snapshot };
	struct report report = {
		.statistics = statistics,
		.snapshot = snapshots,
		.snapshot_nr = 1,
		.top = TOP_AT_END,
	};
	struct cost gap_blocks;
	struct reason gaps;

	err = err ?: text->report(stdout, &report) ?: render_traced(stdout, snapshot, "");
	err = err ?: render_rss(stdout, snapshot, "");
	if (!err)
		log_losses_line(snapshot, path_name(path));
	if (!err && gap_warning(snapshot, &options, "", &gap_blocks, &gaps))
		log_cut("warning: %s", gaps.text);
	statistics_free(statistics);
	snapshot__close(snapshot);
	return err;
}

void log_dropped_blocks(const char *path)
{
	struct snapshot *snapshot = snapshot__open(path, NULL);

	if (snapshot && snapshot__counter(snapshot, "blocks_dropped"))
		log_losses_line(snapshot, path_name(path));
	snapshot__close(snapshot);
}
