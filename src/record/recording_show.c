// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/recording_show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reason.h"
#include "base/units.h"
#include "base/log.h"
#include "collect.h"
#include "render/caveats.h"
#include "engine.h"
#include "render.h"
#include "snapshot.h"

#define TOP_AT_END 10

void log_collector_notes(struct collector *collector)
{
	char *note;

	while ((note = collector__next_note(collector))) {
		log_info("%s", note);
		free(note);
	}
}

void status_line_clear(struct status_line *line)
{
	if (line->is_there)
		fputs("\r\033[K", stderr);
	line->is_there = false;
}

static int terminal_width(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

/* Adds up all processes; *view is the last one of them. */
static size_t add_up_views(const struct collector *collector, struct process_view *view,
			   struct process_view *sum)
{
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
		sum->is_paused |= view->is_paused;
		sum->is_estimated |= view->is_estimated;
		nr++;
	}
	return nr;
}

#define COST_TEXT_MAX 64

/* ", costs 34 % of its CPU time"; "" if that is not known. */
static const char *format_cost(char text[COST_TEXT_MAX], const struct process_view *sum, size_t nr)
{
	unsigned int share = sum->cpu_ns ? sum->cost_ns * 100 / sum->cpu_ns : 0;

	*text = '\0';
	if (sum->cost_is_known)
		snprintf(text, COST_TEXT_MAX, ", costs %u %% of %s CPU time",
			 share < 100 ? share : 100, nr == 1 ? "its" : "their");
	return text;
}

void log_recording_cost(const struct process_view *sum, size_t nr)
{
	char text[COST_TEXT_MAX];

	if (!isatty(STDERR_FILENO) || !sum->cost_is_known)
		return;
	log_info("recording%s: about %.2f s of %.2f s", format_cost(text, sum, nr) + 1,
	    sum->cost_ns / 1e9, sum->cpu_ns / 1e9);
}

#define SHOW_EVERY_NS (SECOND_NS / 10)

/* Whether a line is shown that is recent enough. */
static bool is_recent(struct status_line *line)
{
	uint64_t now_ns = monotonic_now_ns();

	if (line->is_there && now_ns - line->shown_ns < SHOW_EVERY_NS)
		return true;
	line->shown_ns = now_ns;
	return false;
}

void status_line_show(struct status_line *line, status_format_fn format, const struct collector *collector,
		      uint64_t seconds)
{
	char text[256];

	if (!isatty(STDERR_FILENO) || is_recent(line))
		return;
	format(text, sizeof(text), collector, seconds);
	status_line_clear(line);
	fprintf(stderr, "%.*s", terminal_width() - 1, text); /* a wrapped line can't be cleared */
	line->is_there = true;
}

void format_named_status(char *text, size_t bytes, const struct collector *collector, uint64_t seconds)
{
	char size[UNIT_TEXT_MAX], comm[64], cost[COST_TEXT_MAX];
	struct process_view view = {}, sum = {};
	size_t nr = add_up_views(collector, &view, &sum);

	if (nr == 1)
		clean_text(comm, sizeof(comm), view.comm ?: "");
	else
		snprintf(comm, sizeof(comm), "%zu processes", nr);
	snprintf(text, bytes,
		 "%s %s: %s%s in %llu blocks%s [Ctrl-C ends], %llu allocations, %llu lost, %llu s",
		 sum.is_paused ? "pausing" : "recording", comm, sum.is_estimated ? "about " : "",
		 format_size(size, sum.memory.current_bytes, false),
		 (unsigned long long)sum.memory.current_blocks, format_cost(cost, &sum, nr),
		 (unsigned long long)sum.allocations, (unsigned long long)sum.lost,
		 (unsigned long long)seconds);
}

void format_record_status(char *text, size_t bytes, const struct collector *collector, uint64_t seconds)
{
	struct process_view view = {}, sum = {};
	struct collector_health health;
	char size[UNIT_TEXT_MAX];
	uint64_t nr;

	add_up_views(collector, &view, &sum);
	collector__get_health(collector, &health);
	nr = health.processes - health.processes_waiting;
	snprintf(text, bytes,
		 "%s %llu process%s: %s%s in %llu blocks [Ctrl-C ends], %llu lost, bystanders %llu traps (%.2f s), %llu s",
		 sum.is_paused ? "pausing" : "recording",
		 (unsigned long long)nr, nr == 1 ? "" : "es",
		 sum.is_estimated ? "about " : "", format_size(size, sum.memory.current_bytes, false),
		 (unsigned long long)sum.memory.current_blocks, (unsigned long long)sum.lost,
		 (unsigned long long)health.bystander_traps, health.bystander_cost_ns / 1e9,
		 (unsigned long long)seconds);
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
	char *losses = err ? NULL : losses_line(snapshot);
	struct cost gap_blocks;
	struct reason gaps;

	if (!err)
		err = text->report(stdout, &report);
	if (!err)
		err = render_traced(stdout, snapshot);
	if (!err)
		err = render_rss(stdout, snapshot, "");
	if (losses)
		log_info("%s: %s", path, losses);
	if (!err && gap_warning(snapshot, &options, "", &gap_blocks, &gaps))
		log_info("warning: %s", gaps.text);
	free(losses);
	statistics_free(statistics);
	snapshot__close(snapshot);
	return err;
}

void log_dropped_blocks(const char *path)
{
	struct snapshot *snapshot = snapshot__open(path, NULL);
	bool is_whole = !snapshot || !snapshot__counter(snapshot, "blocks_dropped");
	char *losses = is_whole ? NULL : losses_line(snapshot);

	if (losses)
		log_info("%s: %s", path, losses);
	free(losses);
	snapshot__close(snapshot);
}
