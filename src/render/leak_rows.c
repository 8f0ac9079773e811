// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/leak_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/text_columns.h"
#include "render/fit_row.h"
#include "render/leak_answer.h"
#include "render/statistic_text.h"

#define CALLERS_SHOWN 2 /* of the program's own, behind a line */

int leak_place_add_names(struct readable_names *names, const struct leak_place *place)
{
	int err = 0;

	for (size_t i = 0; i < place->caller_nr && !err; i++) {
		const struct statistic site = { .frame = place->caller[i].frame, .nframe = place->caller[i].nframe };

		err = readable_names_add(names, &site, 1, KEY_TRACEBACK);
	}
	return err;
}

/* ---- places --------------------------------------------------------------------------------- */

/* Frees both parts. */
static char *append_part(char *text, char *part)
{
	char *longer = NULL;

	if (text && part && asprintf(&longer, "%s ← %s", text, part) < 0)
		longer = NULL;
	free(text);
	free(part);
	return longer;
}

static char *frame_in_row(const struct leak_row_style *style, const struct frame_view *frame)
{
	size_t tail_at;
	char *text = frame_text(style->names, frame, &tail_at);

	return style->has_no_folders ? frame_without_folder(text, tail_at) : text;
}

/* Makes a text for a row with so many columns before it: without folders of files if it would be too wide. */
static char *make_fitting(const struct leak_row_style *style, size_t before,
			  char *(*make)(const struct leak_row_style *style, const void *what), const void *what)
{
	struct leak_row_style narrow = *style;
	char *text = make(style, what);

	if (!text || !style->width || before + text_columns(text) <= style->width)
		return text;
	free(text);
	narrow.has_no_folders = true;
	return make(&narrow, what);
}

static char *folded_text(uint32_t nr)
{
	char *text;

	return asprintf(&text, "+ %u library frame%s", nr, nr == 1 ? "" : "s") < 0 ? NULL : text;
}

static bool has_own_frame(const struct leak_place_caller *caller, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		if (!caller->frame[i].is_library)
			return true;
	return false;
}

/*
 * Appends " ← CALLER" for the callers of the line: the first ones that are the program's own, and how many of libraries
 * lie between, as in the page. If none is its own, the first ones. Takes over the text.
 */
static char *append_callers(const struct leak_row_style *style, char *text, const struct leak_place_caller *caller,
			    uint32_t nr)
{
	uint32_t callers = caller->nframe ? caller->nframe - 1 : 0, folded = 0, shown = 0;
	bool has_own = has_own_frame(caller, callers);

	for (uint32_t i = callers; i-- > 0 && shown < nr && text;) {
		if (has_own && caller->frame[i].is_library) {
			folded++;
			continue;
		}
		if (folded)
			text = append_part(text, folded_text(folded));
		text = append_part(text, frame_in_row(style, &caller->frame[i]));
		folded = 0;
		shown++;
	}
	return text;
}

/* "copy_name at src/name.c:31" */
static char *own_text(const struct leak_row_style *style, const struct leak_row_line *line)
{
	const struct leak_place_caller *caller = line->place && line->place->caller_nr ? line->place->caller : NULL;

	if (line->own)
		return frame_in_row(style, line->own);
	if (!caller || !caller->nframe)
		return strdup("<unknown>");
	return frame_in_row(style, &caller->frame[caller->nframe - 1]);
}

/* "cart_new at src/cart.c:31 ← serve at src/serve.c:210" */
static char *line_text(const struct leak_row_style *style, const struct leak_row_line *line, uint32_t callers)
{
	char *text = own_text(style, line);

	if (!line->place || !line->place->caller_nr)
		return text;
	return append_callers(style, text, line->place->caller, callers);
}

static char *together_text(const struct leak_row_style *style, const struct leak_row *row)
{
	char *name, *text = NULL;

	if (!row->common)
		return strdup("lines that leak together");
	name = row->common->function ? frame_function(style->names, row->common) : frame_name(NULL, row->common);
	if (!name || asprintf(&text, "lines that leak together, below %s", name) < 0)
		text = NULL;
	free(name);
	return text;
}

/* Whether the line's callers are listed below it. */
static bool lists_callers(const struct leak_row_line *line)
{
	return line->place && line->place->all_nr > 1;
}

static char *row_place(const struct leak_row_style *style, const void *row_)
{
	const struct leak_row *row = row_;

	if (row->line_nr > 1)
		return together_text(style, row);
	return line_text(style, row->line, lists_callers(row->line) ? 0 : CALLERS_SHOWN);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static enum tone verdict_tone(enum leak_kind kind)
{
	return kind == LEAK_SURE ? TONE_ALARM : kind == LEAK_LIKELY ? TONE_GROWTH : TONE_PLAIN;
}

static void emit_row_head(struct emitter *out, const struct leak_row_style *style, const struct leak_row *row)
{
	bool has_rate = row->kind <= LEAK_GROWS;
	char rates[LEAK_RATES_MAX], columns[LEAK_RATES_MAX + 192];

	leak_rates_text(rates, row->bytes_per_s, row->least_bytes_per_s);
	snprintf(columns, sizeof(columns), "%-8s%s%s%s%s  ", leak_kind_word(row->kind), has_rate ? "  " : "",
		 has_rate ? rates : "", row->extent ? "  " : "", row->extent ?: "");
	emit_place(out, style->width, verdict_tone(row->kind), columns,
		   make_fitting(style, strlen(columns), row_place, row));
}

/* ---- below them ----------------------------------------------------------------------------- */

static void emit_row_frames(struct emitter *out, const struct leak_row_style *style,
			    const struct leak_place_caller *caller)
{
	for (uint32_t i = caller->nframe; i-- > 0 && emits_text(out);) {
		size_t tail_at;
		char *text = frame_text(style->names, &caller->frame[i], &tail_at);

		emit_err(out, put_row(out->file, style->width, "            ", text, tail_at, ROW_FUNCTION));
	}
}

/* The whole traceback of the first caller, if whole tracebacks are shown. */
static void emit_first_traceback(struct emitter *out, const struct leak_row_style *style,
				 const struct leak_row_line *line)
{
	if (style->is_verbose && line->place && line->place->caller_nr)
		emit_row_frames(out, style, line->place->caller);
}

static char *shown_callers(const struct leak_row_style *style, const void *caller)
{
	return append_callers(style, strdup(""), caller, CALLERS_SHOWN);
}

/* A caller, of several. */
static void emit_caller(struct emitter *out, const struct leak_row_style *style, const struct leak_window *window,
			const struct leak_place_caller *caller)
{
	const struct leak_verdict *verdict = &caller->verdict;
	char rates[LEAK_RATES_MAX], since_text[LEAK_SINCE_MAX], columns[LEAK_RATES_MAX + LEAK_SINCE_MAX + 8], *callers;

	leak_rates_text(rates, verdict->bytes_per_s, verdict->least_bytes_per_s);
	snprintf(columns, sizeof(columns), "    %s  %s ", rates, leak_since_text(since_text, window, verdict->since_ns));
	callers = make_fitting(style, strlen(columns), shown_callers, caller);
	if (callers && !*callers) {
		free(callers);
		callers = strdup(" ← <unknown>");
	}
	emit_row_of(out, style->width, TONE_PLAIN, columns, callers);
	emit_judgement(out, window, verdict, 0);
	if (style->is_verbose)
		emit_row_frames(out, style, caller);
}

static void emit_callers(struct emitter *out, const struct leak_row_style *style, const struct leak_row *row)
{
	const struct leak_place *place = row->line->place;
	size_t shown = place->caller_nr;

	if (!style->shows_callers && shown > LEAK_CALLER_ROWS)
		shown = LEAK_CALLER_ROWS;
	for (size_t i = 0; i < shown; i++)
		emit_caller(out, style, row->window, &place->caller[i]);
	if (shown < place->all_nr)
		emit_line(out, "    … and %zu more callers%s", place->all_nr - shown, style->more_callers ?: "");
}

static char *member_text(const struct leak_row_style *style, const void *line)
{
	return line_text(style, line, CALLERS_SHOWN);
}

/* Lines that leak together, and the reason for the first one. */
static void emit_members(struct emitter *out, const struct leak_row_style *style, const struct leak_row *row)
{
	for (size_t i = 0; i < row->line_nr; i++) {
		const struct leak_row_line *line = &row->line[i];
		char rate[LEAK_RATE_MAX], columns[LEAK_RATE_MAX + 8];

		snprintf(columns, sizeof(columns), "    %s  ", leak_rate_text(rate, line->bytes_per_s));
		emit_row_of(out, style->width, TONE_PLAIN, columns, make_fitting(style, strlen(columns), member_text, line));
		emit_first_traceback(out, style, line);
	}
	emit_judgement(out, row->window, row->line->verdict, 0);
}

void emit_leak_row(struct emitter *out, const struct leak_row_style *style, const struct leak_row *row)
{
	emit_row_head(out, style, row);
	if (row->where)
		emit_line(out, "    %s", row->where);
	if (row->line_nr > 1) {
		emit_members(out, style, row);
	} else if (lists_callers(row->line) && row->kind <= LEAK_GROWS) {
		emit_callers(out, style, row);
	} else {
		emit_judgement(out, row->window, row->line->verdict, row->line->summed);
		emit_first_traceback(out, style, row->line);
	}
}
