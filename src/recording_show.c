// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "recording_show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/units.h"
#include "cmd.h"
#include "collect.h"
#include "engine.h"
#include "render.h"
#include "snapshot.h"

#define TOP_AT_END 10

void say_notes(struct collector *collector)
{
	char *note;

	while ((note = collector__next_note(collector))) {
		say("%s", note);
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

/* What all have together; *view is of the last one. */
static size_t add_up(const struct collector *collector, struct process_view *view,
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
		nr++;
	}
	return nr;
}

void status_line_show(struct status_line *line, const struct collector *collector, uint64_t seconds)
{
	char size[UNIT_TEXT_MAX], comm[64], text[256];
	struct process_view view = {}, sum = {};
	size_t nr;

	if (!isatty(STDERR_FILENO))
		return;
	nr = add_up(collector, &view, &sum);
	status_line_clear(line);
	if (nr == 1)
		clean_text(comm, sizeof(comm), view.comm ?: "");
	else
		snprintf(comm, sizeof(comm), "%zu processes", nr);
	snprintf(text, sizeof(text),
		 "recording %s: %s in %llu blocks, %llu allocations, %llu lost, %llu s [Ctrl-C ends]",
		 comm, format_size(size, sum.memory.current_bytes, false),
		 (unsigned long long)sum.memory.current_blocks,
		 (unsigned long long)sum.allocations, (unsigned long long)sum.lost,
		 (unsigned long long)seconds);
	fprintf(stderr, "%.*s", terminal_width() - 1, text); /* a wrapped line can't be cleared */
	line->is_there = true;
}

int show_top(const char *path)
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

	if (!err)
		err = text->report(stdout, &report);
	if (!err)
		err = render_traced(stdout, snapshot);
	if (!err)
		err = render_rss(stdout, snapshot, "");
	if (losses)
		say("%s: %s", path, losses);
	free(losses);
	statistics_free(statistics);
	snapshot__close(snapshot);
	return err;
}

void say_dropped(const char *path)
{
	struct snapshot *snapshot = snapshot__open(path, NULL);
	bool is_whole = !snapshot || !snapshot__counter(snapshot, "blocks_dropped");
	char *losses = is_whole ? NULL : losses_line(snapshot);

	if (losses)
		say("%s: %s", path, losses);
	free(losses);
	snapshot__close(snapshot);
}
