// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The tables: rows of a process, and processes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/terminal.h"
#include "base/units.h"
#include "render.h"
#include "render/clean.h"
#include "render/leak_answer.h"
#include "top/layout.h"

#define LINE_MAX_BYTES 256

/* In narrower terminals columns are left out. */
#define WIDTH_OF_BLOCKS 76
#define WIDTH_OF_ERRORS 100
#define WIDTH_OF_BLOCK_RATE 110

static bool has_room_for(const struct top_screen *screen, unsigned int width)
{
	return !screen->width || screen->width >= width;
}

static bool has_errors(const struct top_screen *screen, const struct top_answer *answer)
{
	return answer->has_errors && has_room_for(screen, WIDTH_OF_ERRORS);
}

/* A line of text that is not cut, and a name behind it that fills the rest. */
static void put_named_row(struct top_screen *screen, enum top_style style, const char *columns, const char *name,
			  size_t tail_at)
{
	size_t used = text_columns(columns);
	unsigned int rest = screen->width > used + 8 ? screen->width - used : 8;
	char *text = strdup(name), *fitted;

	fitted = fit_row(screen->width ? rest : 0, "", text, tail_at, ROW_FUNCTION);
	top_screen_put(screen, style, "%s%s", columns, fitted ?: "");
	if (!fitted)
		screen->err = -ENOMEM;
	free(fitted);
}

/* ---- rows of a process ---------------------------------------------------------------------- */

static const char *verdict_of(const struct top_row *row)
{
	return row->kind < LEAK_KIND_NR ? leak_kind_word(row->kind) : "";
}

static const char *block_rate_text(char text[TOP_RATE_MAX], int64_t blocks, uint64_t window_ns)
{
	if (window_ns)
		snprintf(text, TOP_RATE_MAX, "%+.0f", blocks * 60.0 * SECOND_NS / window_ns);
	else
		snprintf(text, TOP_RATE_MAX, "-");
	return text;
}

static void format_row(char text[LINE_MAX_BYTES], const struct top_model *model, const struct top_screen *screen,
		       const struct top_row *row)
{
	uint64_t window_ns = model->answer->window_ns;
	char size[SIZE_TEXT_MAX], error[SIZE_TEXT_MAX], rate[TOP_RATE_MAX], blocks[TOP_RATE_MAX];
	size_t len;

	len = snprintf(text, LINE_MAX_BYTES, "%10s ", size_text(size, row->cost.size, false));
	if (has_errors(screen, model->answer))
		len += snprintf(text + len, LINE_MAX_BYTES - len, "±%-10s ",
				row->error_bytes ? size_text(error, row->error_bytes, false) : "0 B");
	if (has_room_for(screen, WIDTH_OF_BLOCKS))
		len += snprintf(text + len, LINE_MAX_BYTES - len, "%9" PRId64 " ", row->cost.count);
	len += snprintf(text + len, LINE_MAX_BYTES - len, "%11s ", top_rate_text(rate, row->diff.size, window_ns));
	if (has_room_for(screen, WIDTH_OF_BLOCK_RATE))
		len += snprintf(text + len, LINE_MAX_BYTES - len, "%10s ",
				block_rate_text(blocks, row->diff.count, window_ns));
	snprintf(text + len, LINE_MAX_BYTES - len, " %-8s  ", verdict_of(row));
}

static void put_row_titles(const struct top_model *model, struct top_screen *screen)
{
	char text[LINE_MAX_BYTES], title[32];
	size_t len = snprintf(text, sizeof(text), "%10s ", "SIZE");

	if (has_errors(screen, model->answer))
		len += snprintf(text + len, sizeof(text) - len, "%-12s ", "±ERROR");
	if (has_room_for(screen, WIDTH_OF_BLOCKS))
		len += snprintf(text + len, sizeof(text) - len, "%9s ", "BLOCKS");
	len += snprintf(text + len, sizeof(text) - len, "%11s ", "GROWTH/MIN");
	if (has_room_for(screen, WIDTH_OF_BLOCK_RATE))
		len += snprintf(text + len, sizeof(text) - len, "%10s ", "BLOCKS/MIN");
	snprintf(title, sizeof(title), "%s", top_key_type_title(model->answer->key_type));
	for (char *c = title; *c; c++)
		*c = *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c;
	top_screen_put(screen, TOP_STYLE_HEAD, "%s %-8s  %s", text, "VERDICT", title);
}

static enum top_style style_of_row(const struct top_model *model, const struct top_screen *screen, size_t at)
{
	const struct top_row *row = &model->answer->row[model->shown[at]];

	if (screen->height && at == model->row_cursor.selected)
		return TOP_STYLE_SELECTED;
	return row->kind == LEAK_SURE ? TOP_STYLE_SURE : row->kind == LEAK_LIKELY ? TOP_STYLE_LIKELY : TOP_STYLE_PLAIN;
}

static void put_rows_below(const struct top_model *model, struct top_screen *screen, size_t shown)
{
	size_t more = model->shown_nr - shown;

	if (!screen->height && more)
		top_screen_put(screen, TOP_STYLE_PLAIN, "%zu more row%s", more, more == 1 ? "" : "s");
}

void top_layout_rows(struct top_model *model, struct top_screen *screen)
{
	size_t room, last;

	if (!model->answer)
		return;
	put_row_titles(model, screen);
	room = screen->height ? top_screen_room(screen) : model->top ?: SIZE_MAX;
	if (screen->height) {
		model->page_rows = room;
		top_cursor_fit(&model->row_cursor, model->shown_nr, room);
	}
	last = model->shown_nr - model->row_cursor.first < room ? model->shown_nr : model->row_cursor.first + room;
	for (size_t i = model->row_cursor.first; i < last; i++) {
		const struct top_row *row = &model->answer->row[model->shown[i]];
		char columns[LINE_MAX_BYTES];

		format_row(columns, model, screen, row);
		put_named_row(screen, style_of_row(model, screen, i), columns, row->name, row->tail_at);
	}
	put_rows_below(model, screen, last);
}

/* ---- processes ------------------------------------------------------------------------------ */

static const char *process_state(const struct top_process *process)
{
	return process->has_ended ? "ended" : process->is_paused ? "pausing" : process->is_thinned ? "sampling" : "";
}

static void format_process_row(char text[LINE_MAX_BYTES], const struct top_screen *screen,
			       const struct top_process *process, const char *pid)
{
	char size[SIZE_TEXT_MAX], rss[SIZE_TEXT_MAX] = "-", rate[TOP_RATE_MAX], share[UNIT_TEXT_MAX] = "-";
	char blocks[24] = "-", lost[24] = "-";
	size_t len;

	if (!process->is_brief) {
		snprintf(blocks, sizeof(blocks), "%" PRIu64, process->blocks);
		snprintf(lost, sizeof(lost), "%" PRIu64, process->lost);
	}

	if (process->rss_bytes)
		size_text(rss, process->rss_bytes, false);
	if (process->cost_is_known && process->recorded_ns)
		snprintf(share, sizeof(share), "%.1f %%", 100.0 * process->cost_ns / process->recorded_ns);
	top_rate_text(rate, process->bytes_per_s * 60, process->has_rate ? 60 * SECOND_NS : 0);
	len = snprintf(text, LINE_MAX_BYTES, "%7s %10s ", pid, size_text(size, process->bytes, false));
	if (has_room_for(screen, WIDTH_OF_BLOCKS))
		len += snprintf(text + len, LINE_MAX_BYTES - len, "%9s ", blocks);
	len += snprintf(text + len, LINE_MAX_BYTES - len, "%11s %10s ", rate, rss);
	if (has_room_for(screen, WIDTH_OF_BLOCKS))
		len += snprintf(text + len, LINE_MAX_BYTES - len, "%8s %6s ", share, lost);
	snprintf(text + len, LINE_MAX_BYTES - len, "%-8s  ", process_state(process));
}

static void put_process_titles(struct top_screen *screen)
{
	bool is_wide = has_room_for(screen, WIDTH_OF_BLOCKS);

	if (is_wide)
		top_screen_put(screen, TOP_STYLE_HEAD, "%7s %10s %9s %11s %10s %8s %6s %-8s  %s", "PID", "TRACED", "BLOCKS",
			       "GROWTH/MIN", "RSS", "COST", "LOST", "STATE", "PROCESS");
	else
		top_screen_put(screen, TOP_STYLE_HEAD, "%7s %10s %11s %10s %-8s  %s", "PID", "TRACED", "GROWTH/MIN", "RSS",
			       "STATE", "PROCESS");
}

static struct top_process sum_processes(const struct top_model *model)
{
	struct top_process sum = { .cost_is_known = true, .is_brief = !model->is_live };

	for (size_t i = 0; i < model->process_nr; i++) {
		const struct top_process *process = &model->process[i];

		if (process->has_ended && model->is_live)
			continue;
		sum.bytes += process->bytes;
		sum.blocks += process->blocks;
		sum.rss_bytes += process->rss_bytes;
		sum.lost += process->lost;
		sum.cost_ns += process->cost_ns;
		sum.cost_is_known &= process->cost_is_known;
		if (sum.recorded_ns < process->recorded_ns)
			sum.recorded_ns = process->recorded_ns;
		sum.has_rate |= process->has_rate;
		sum.bytes_per_s += process->bytes_per_s;
	}
	return sum;
}

static void put_process_head(const struct top_model *model, struct top_screen *screen)
{
	char own[64] = "";

	if (model->own_share >= 0 && model->is_live)
		snprintf(own, sizeof(own), " · allocsnap itself: %.1f %% of one core", 100 * model->own_share);
	top_screen_put(screen, model->is_over ? TOP_STYLE_WARNING : TOP_STYLE_TITLE, "allocsnap top · %zu process%s%s%s%s",
		       model->process_nr, model->process_nr == 1 ? "" : "es", model->is_system ? " of this host" : "", own,
		       model->is_over && model->is_live ? " · NOT RECORDED any more" : "");
}

void top_layout_processes(struct top_model *model, struct top_screen *screen)
{
	struct top_process sum = sum_processes(model);
	char columns[LINE_MAX_BYTES], name[LINE_MAX_BYTES], pid[24];
	size_t room, last;

	put_process_head(model, screen);
	put_process_titles(screen);
	format_process_row(columns, screen, &sum, "all");
	put_named_row(screen, TOP_STYLE_PLAIN, columns, "sum", 3);
	room = screen->height ? top_screen_room(screen) : model->top ?: SIZE_MAX;
	if (screen->height) {
		model->page_rows = room;
		top_cursor_fit(&model->process_cursor, model->process_nr, room);
	}
	last = model->process_nr - model->process_cursor.first < room ? model->process_nr : model->process_cursor.first + room;
	for (size_t i = model->process_cursor.first; i < last; i++) {
		const struct top_process *process = &model->process[i];
		bool is_selected = screen->height && i == model->process_cursor.selected;

		snprintf(pid, sizeof(pid), "%" PRId64, process->pid);
		format_process_row(columns, screen, process, pid);
		snprintf(name, sizeof(name), "%s%s%s", process->comm, process->place ? "  " : "", process->place ?: "");
		put_named_row(screen, is_selected ? TOP_STYLE_SELECTED : TOP_STYLE_PLAIN, columns, name, strlen(name));
	}
	if (!screen->height && last < model->process_nr)
		top_screen_put(screen, TOP_STYLE_PLAIN, "%zu more", model->process_nr - last);
}
