// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "top/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/terminal.h"
#include "base/units.h"
#include "render.h"
#include "render/clean.h"
#include "render/leak_answer.h"

#define FOOT_LINES 1

void top_screen_release(struct top_screen *screen)
{
	for (size_t i = 0; i < screen->line_nr; i++)
		free(screen->line[i].text);
	free(screen->line);
	*screen = (struct top_screen){};
}

static void add_screen_line(struct top_screen *screen, enum top_style style, char *text)
{
	struct top_screen_line line = { text, style };

	if (text && !array_push(screen, line, line))
		return;
	free(text);
	screen->err = -ENOMEM;
}

/* Adds a line. Text that is too long is cut at its end. */
__attribute__((format(printf, 3, 4))) static void screen_put(struct top_screen *screen, enum top_style style,
							     const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	add_screen_line(screen, style, fit_row(screen->width, "", text, text ? strlen(text) : 0, ROW_FUNCTION));
}

/* Where a line of at most `columns` ends: behind a word, or anywhere if no word ends there. */
static size_t find_line_end(const char *text, size_t columns)
{
	const char *most = text_after_columns(text, columns ?: 1), *end = most;

	if (!*most)
		return most - text;
	while (end > text && *end != ' ')
		end--;
	return (end > text ? end : most) - text;
}

/* Adds a text in as many lines as it needs; all but the first are indented. */
static void screen_put_words(struct top_screen *screen, enum top_style style, unsigned int indent, const char *text)
{
	char *clean = clean_copy(text);
	const char *rest = clean;
	unsigned int margin = 0;

	if (!clean)
		screen->err = -ENOMEM;
	while (clean && *rest && !screen->err) {
		size_t len = screen->width > margin + 8 ? find_line_end(rest, screen->width - margin) : strlen(rest);

		screen_put(screen, style, "%*s%.*s", margin, "", (int)len, rest);
		rest += len;
		rest += *rest == ' ';
		margin = indent;
	}
	free(clean);
}

/* How many lines are left above the foot. */
static size_t room_above_foot(const struct top_screen *screen)
{
	size_t used = screen->line_nr + FOOT_LINES;

	if (!screen->height)
		return SIZE_MAX;
	return screen->height > used ? screen->height - used : 0;
}

#define GROWTH_TEXT_MAX 64

/* "+1.2 MiB": growth in a minute; "-": not known. Returns text. */
static const char *growth_text(char text[GROWTH_TEXT_MAX], double bytes, uint64_t window_ns)
{
	char size[SIZE_TEXT_MAX];

	snprintf(text, GROWTH_TEXT_MAX, "%s",
		 window_ns ? size_text(size, bytes * 60 * SECOND_NS / window_ns, true) : "-");
	return text;
}

/* ---- the lines above the rows: facts that keep a reader honest ---- */

#define STATE_MAX 128
#define AGE_SHOWN_NS (5 * SECOND_NS) /* rows of a younger snapshot are as good as of now */

/* The state of the view: "PAUSED", "ENDED…" */
static const char *state_text(char text[STATE_MAX], const struct top_model *model)
{
	uint64_t asked_ns = model->now_ns > model->asked_ns ? model->now_ns - model->asked_ns : 0;

	*text = '\0';
	if (!model->is_live)
		snprintf(text, STATE_MAX, "%s", model->answer && model->answer->time ? model->answer->time : "");
	else if (model->answer && model->answer->process.has_ended)
		snprintf(text, STATE_MAX, "ENDED: these are its last figures");
	else if (model->is_over)
		snprintf(text, STATE_MAX, "NOT RECORDED any more");
	else if (model->is_paused)
		snprintf(text, STATE_MAX, "PAUSED");
	else if (model->is_asked && asked_ns > AGE_SHOWN_NS)
		snprintf(text, STATE_MAX, "next snapshot under way, %.0f s", asked_ns / 1e9);
	return text;
}

/* "server 4712 on shop-1 · every block · recorded 1:00 · PAUSED", as far as it is known. */
static void put_title(const struct top_model *model, struct top_screen *screen)
{
	const struct top_answer *answer = model->answer;
	const struct top_process *process = &answer->process;
	bool has_host = answer->host && !model->is_live;
	char state[STATE_MAX], pid[32] = "", recorded[64] = "";
	uint64_t seconds = process->recorded_ns / SECOND_NS;

	state_text(state, model);
	if (process->pid)
		snprintf(pid, sizeof(pid), " %" PRId64, process->pid);
	if (process->recorded_ns)
		snprintf(recorded, sizeof(recorded), " · recorded %" PRIu64 ":%02" PRIu64, seconds / 60, seconds % 60);
	screen_put(screen, *state && model->is_live ? TOP_STYLE_WARNING : TOP_STYLE_TITLE, "%s%s%s%s · %s%s%s%s%s%s",
		       process->comm, pid, has_host ? " on " : "", has_host ? answer->host : "",
		       process->is_estimated ? "samples" : "every block", answer->rate ? ", " : "", answer->rate ?: "", recorded,
		       *state ? " · " : "", state);
}

static void put_process_memory(const struct top_answer *answer, struct top_screen *screen)
{
	const struct top_process *process = &answer->process;
	char bytes[SIZE_TEXT_MAX], peak[SIZE_TEXT_MAX], rss[SIZE_TEXT_MAX], rate[GROWTH_TEXT_MAX], growth[GROWTH_TEXT_MAX + 8] = "";
	char rss_text[SIZE_TEXT_MAX + 8] = "", peak_text[SIZE_TEXT_MAX + 8] = "";

	if (answer->window_ns)
		snprintf(growth, sizeof(growth), " (%s/min)", growth_text(rate, answer->total_diff.size, answer->window_ns));
	if (process->peak_bytes)
		snprintf(peak_text, sizeof(peak_text), ", peak %s", size_text(peak, process->peak_bytes, false));
	if (process->rss_bytes)
		snprintf(rss_text, sizeof(rss_text), ", RSS %s", size_text(rss, process->rss_bytes, false));
	screen_put(screen, TOP_STYLE_PLAIN, "traced %s%s in %" PRIu64 " blocks%s%s%s",
		       process->is_estimated ? "about " : "", size_text(bytes, process->bytes, false), process->blocks,
		       growth, rss_text, peak_text);
}

static void put_recording_cost(const struct top_model *model, struct top_screen *screen)
{
	const struct top_process *process = &model->answer->process;
	char share[UNIT_TEXT_MAX], cost[UNIT_TEXT_MAX + 64] = "cost of the recording: not known", own[64] = "";

	if (process->cost_is_known)
		snprintf(cost, sizeof(cost), "recording costs the process %s",
			 format_core_share(share, process->cost_ns, process->recorded_ns));
	if (model->own_share >= 0)
		snprintf(own, sizeof(own), "; allocsnap itself: %.1f %%", 100 * model->own_share);
	screen_put(screen, process->is_paused ? TOP_STYLE_WARNING : TOP_STYLE_PLAIN, "%s%s%s",
		       cost, process->is_paused ? ", pausing" : process->is_thinned ? ", sampling to stay in the budget" : "",
		       own);
}

static void put_losses(const struct top_answer *answer, struct top_screen *screen)
{
	bool is_whole = !answer->losses && !answer->gaps;

	screen_put(screen, is_whole ? TOP_STYLE_PLAIN : TOP_STYLE_WARNING, "%s; %s", answer->losses ?: "lost nothing",
		       answer->gaps ?: "no gaps");
	if (answer->unjudged_growth)
		screen_put(screen, TOP_STYLE_WARNING, "growth cannot be judged: %s", answer->unjudged_growth);
}

/* "2 lines leak, 1 may leak (observed for 1:30)" */
static void put_verdicts(const struct top_model *model, struct top_screen *screen)
{
	const struct top_answer *answer = model->answer;
	uint64_t seconds = answer->judged_ns / SECOND_NS;
	const char *unsure = answer->unjudged ? "; not sure: " : "";

	if (!answer->is_judged)
		screen_put(screen, TOP_STYLE_PLAIN, "leaks: %s",
			       answer->unjudged ?: model->is_live ? "not judged yet, observe longer" : "not judged");
	else if (!answer->sure_nr && !answer->likely_nr)
		screen_put(screen, TOP_STYLE_PLAIN, "nothing leaks so far (observed for %" PRIu64 ":%02" PRIu64 ")%s%s",
			       seconds / 60, seconds % 60, unsure, answer->unjudged ?: "");
	else
		screen_put(screen, answer->sure_nr ? TOP_STYLE_SURE : TOP_STYLE_LIKELY,
			       "%" PRIu32 " line%s leak%s, %" PRIu32 " may leak (observed for %" PRIu64 ":%02" PRIu64 ")%s%s",
			       answer->sure_nr, answer->sure_nr == 1 ? "" : "s", answer->sure_nr == 1 ? "s" : "",
			       answer->likely_nr, seconds / 60, seconds % 60, unsure, answer->unjudged ?: "");
}

static void put_view(const struct top_model *model, struct top_screen *screen)
{
	const struct top_answer *answer = model->answer;
	uint64_t seconds = (answer->window_ns + SECOND_NS / 2) / SECOND_NS;
	uint64_t age_ns = model->now_ns > answer->now_ns ? model->now_ns - answer->now_ns : 0;
	char growth[64] = "", filter[TOP_FILTER_MAX + 64] = "", age[64] = "";

	if (answer->window_ns)
		snprintf(growth, sizeof(growth), " · growth over %" PRIu64 ":%02" PRIu64, seconds / 60, seconds % 60);
	if (*model->filter)
		snprintf(filter, sizeof(filter), " · with '%s': %zu of", model->filter, model->shown_nr);
	if (model->is_live && age_ns >= AGE_SHOWN_NS)
		snprintf(age, sizeof(age), ", as of %.0f s ago", age_ns / 1e9);
	screen_put(screen, TOP_STYLE_PLAIN, "by %s · %s%s%s%s%zu row%s%s", top_key_type_title(model->answer->key_type),
		       top_order_name(model->order), growth, filter, *filter ? " " : " · ", answer->row_nr,
		       answer->row_nr == 1 ? "" : "s", age);
}

/* The facts about the process; with_view: also how its rows are chosen and sorted. */
static void put_facts(const struct top_model *model, struct top_screen *screen, bool with_view)
{
	if (!model->answer) {
		screen_put(screen, TOP_STYLE_TITLE, "allocsnap top");
		screen_put(screen, TOP_STYLE_PLAIN, "%s", model->is_over ? "nothing was recorded" :
			       model->is_live ? "waiting for the first snapshot …" : "reading …");
		return;
	}
	put_title(model, screen);
	put_process_memory(model->answer, screen);
	put_recording_cost(model, screen);
	put_losses(model->answer, screen);
	put_verdicts(model, screen);
	if (with_view)
		put_view(model, screen);
}

/* The tables: rows of a process, and processes. */

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
	screen_put(screen, style, "%s%s", columns, fitted ?: "");
	if (!fitted)
		screen->err = -ENOMEM;
	free(fitted);
}

/* ---- rows of a process ---------------------------------------------------------------------- */

static const char *verdict_of(const struct top_row *row)
{
	return row->kind < LEAK_KIND_NR ? leak_kind_word(row->kind) : "";
}

static const char *block_rate_text(char text[GROWTH_TEXT_MAX], int64_t blocks, uint64_t window_ns)
{
	if (window_ns)
		snprintf(text, GROWTH_TEXT_MAX, "%+.0f", blocks * 60.0 * SECOND_NS / window_ns);
	else
		snprintf(text, GROWTH_TEXT_MAX, "-");
	return text;
}

static void format_row(char text[LINE_MAX_BYTES], const struct top_model *model, const struct top_screen *screen,
		       const struct top_row *row)
{
	uint64_t window_ns = model->answer->window_ns;
	char size[SIZE_TEXT_MAX], error[SIZE_TEXT_MAX], rate[GROWTH_TEXT_MAX], blocks[GROWTH_TEXT_MAX];
	size_t len;

	len = snprintf(text, LINE_MAX_BYTES, "%10s ", size_text(size, row->cost.size, false));
	if (has_errors(screen, model->answer))
		len += snprintf(text + len, LINE_MAX_BYTES - len, "±%-10s ",
				row->error_bytes ? size_text(error, row->error_bytes, false) : "0 B");
	if (has_room_for(screen, WIDTH_OF_BLOCKS))
		len += snprintf(text + len, LINE_MAX_BYTES - len, "%9" PRId64 " ", row->cost.count);
	len += snprintf(text + len, LINE_MAX_BYTES - len, "%11s ", growth_text(rate, row->diff.size, window_ns));
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
	screen_put(screen, TOP_STYLE_HEAD, "%s %-8s  %s", text, "VERDICT", title);
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
		screen_put(screen, TOP_STYLE_PLAIN, "%zu more row%s", more, more == 1 ? "" : "s");
}

static void put_answer_rows(struct top_model *model, struct top_screen *screen)
{
	size_t room, last;

	if (!model->answer)
		return;
	put_row_titles(model, screen);
	room = screen->height ? room_above_foot(screen) : model->top ?: SIZE_MAX;
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
	char size[SIZE_TEXT_MAX], rss[SIZE_TEXT_MAX] = "-", rate[GROWTH_TEXT_MAX], share[UNIT_TEXT_MAX] = "-";
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
	growth_text(rate, process->bytes_per_s * 60, process->has_rate ? 60 * SECOND_NS : 0);
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
		screen_put(screen, TOP_STYLE_HEAD, "%7s %10s %9s %11s %10s %8s %6s %-8s  %s", "PID", "TRACED", "BLOCKS",
			       "GROWTH/MIN", "RSS", "COST", "LOST", "STATE", "PROCESS");
	else
		screen_put(screen, TOP_STYLE_HEAD, "%7s %10s %11s %10s %-8s  %s", "PID", "TRACED", "GROWTH/MIN", "RSS",
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
	screen_put(screen, model->is_over ? TOP_STYLE_WARNING : TOP_STYLE_TITLE, "allocsnap top · %zu process%s%s%s%s",
		       model->process_nr, model->process_nr == 1 ? "" : "es", model->is_system ? " of this host" : "", own,
		       model->is_over && model->is_live ? " · NOT RECORDED any more" : "");
}

static void put_process_rows(struct top_model *model, struct top_screen *screen)
{
	struct top_process sum = sum_processes(model);
	char columns[LINE_MAX_BYTES], name[LINE_MAX_BYTES], pid[24];
	size_t room, last;

	put_process_head(model, screen);
	put_process_titles(screen);
	format_process_row(columns, screen, &sum, "all");
	put_named_row(screen, TOP_STYLE_PLAIN, columns, "sum", 3);
	room = screen->height ? room_above_foot(screen) : model->top ?: SIZE_MAX;
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
		screen_put(screen, TOP_STYLE_PLAIN, "%zu more", model->process_nr - last);
}

/* ---- other pages ---------------------------------------------------------------------------- */

static void draw_help(const struct top_model *model, struct top_screen *screen)
{
	const struct top_key_help *key;
	char text[256];

	screen_put(screen, TOP_STYLE_TITLE, "allocsnap top: keys");
	for (size_t i = 0; (key = top_key_help(i)); i++) {
		snprintf(text, sizeof(text), "  %-9s %s", key->keys, key->help);
		if (!key->is_live || model->is_live)
			screen_put_words(screen, TOP_STYLE_PLAIN, 12, text);
	}
	screen_put(screen, TOP_STYLE_PLAIN, "%s", "");
	screen_put_words(screen, TOP_STYLE_PLAIN, 2, "GROWTH/MIN is how live bytes change in a minute, over the time "
			     "above the rows.");
	screen_put_words(screen, TOP_STYLE_PLAIN, 2, "LEAKS: blocks were born all along, and hardly any was freed. MAY "
			     "LEAK: there are doubts, which Enter names.");
}

static void put_opened(struct top_model *model, struct top_screen *screen)
{
	const struct top_answer *answer = model->answer;
	const struct top_row *row = top_model_row(model);
	size_t room, last;

	if (row)
		screen_put(screen, TOP_STYLE_HEAD, "%s", row->name);
	if (row && row->reason)
		screen_put_words(screen, row->kind == LEAK_SURE ? TOP_STYLE_SURE : TOP_STYLE_LIKELY, 2, row->reason);
	if (!row || !answer->opened || strcmp(answer->opened, row->identity)) {
		screen_put(screen, TOP_STYLE_PLAIN, "%s", row ? "reading …" : "the row is gone: no block of it lives");
		return;
	}
	room = model->page_rows = room_above_foot(screen);
	if (model->line_cursor.first + room > answer->line_nr)
		model->line_cursor.first = answer->line_nr > room ? answer->line_nr - room : 0;
	last = model->line_cursor.first + room;
	for (size_t i = model->line_cursor.first; i < answer->line_nr && i < last; i++)
		screen_put(screen, TOP_STYLE_PLAIN, "%s", answer->line[i]);
}

/* ---- the last line -------------------------------------------------------------------------- */

/* "? help  q quit  s sort …": labels of the keys, as many as fit; leaving comes first. */
static void put_foot_keys(const struct top_model *model, struct top_screen *screen)
{
	char text[512] = "";
	size_t len = 0;
	const struct top_key_help *key;

	for (size_t i = 0; (key = top_key_help(i)); i++) {
		char part[64];

		if (!key->label || (key->is_live && !model->is_live))
			continue;
		snprintf(part, sizeof(part), "%s%.*s %s", len ? "  " : "", (int)strcspn(key->keys, " "), key->keys, key->label);
		if (len + strlen(part) > screen->width || len + strlen(part) >= sizeof(text))
			continue;
		len += snprintf(text + len, sizeof(text) - len, "%s", part);
	}
	screen_put(screen, TOP_STYLE_FOOT, "%s", text);
}

static void put_foot(const struct top_model *model, struct top_screen *screen)
{
	while (screen->line_nr + FOOT_LINES < screen->height && !screen->err)
		screen_put(screen, TOP_STYLE_PLAIN, "%s", "");
	if (model->is_editing)
		screen_put(screen, TOP_STYLE_FOOT, "filter: %s_", model->filter);
	else if (*model->message)
		screen_put(screen, TOP_STYLE_WARNING, "%s", model->message);
	else if (model->page == TOP_PAGE_HELP)
		screen_put(screen, TOP_STYLE_FOOT, "any key: back  q quit");
	else
		put_foot_keys(model, screen);
}

/* A terminal may have fewer lines than the facts: the last line stays. */
static void cut_screen(struct top_screen *screen)
{
	while (screen->height && screen->line_nr + FOOT_LINES > screen->height)
		free(screen->line[--screen->line_nr].text);
}

int top_layout_draw(struct top_model *model, unsigned int width, unsigned int height, struct top_screen *ret)
{
	*ret = (struct top_screen){ .width = width, .height = height };
	if (model->page == TOP_PAGE_HELP) {
		draw_help(model, ret);
	} else if (model->page == TOP_PAGE_PROCESSES) {
		put_process_rows(model, ret);
	} else {
		put_facts(model, ret, model->page == TOP_PAGE_ROWS);
		if (model->page == TOP_PAGE_OPENED)
			put_opened(model, ret);
		else
			put_answer_rows(model, ret);
	}
	cut_screen(ret);
	if (height)
		put_foot(model, ret);
	return ret->err;
}
