// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "top/layout.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/terminal.h"
#include "render.h"
#include "render/clean.h"

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

void top_screen_put(struct top_screen *screen, enum top_style style, const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	add_screen_line(screen, style, fit_row(screen->width, "", text, text ? strlen(text) : 0, ROW_FUNCTION));
}

/* Where a line of at most `columns` ends: behind a word, or anywhere if there is none. */
static size_t find_line_end(const char *text, size_t columns)
{
	const char *most = text_after_columns(text, columns ?: 1), *end = most;

	if (!*most)
		return most - text;
	while (end > text && *end != ' ')
		end--;
	return (end > text ? end : most) - text;
}

void top_screen_put_words(struct top_screen *screen, enum top_style style, unsigned int indent, const char *text)
{
	char *clean = clean_copy(text);
	const char *rest = clean;
	unsigned int margin = 0;

	if (!clean)
		screen->err = -ENOMEM;
	while (clean && *rest && !screen->err) {
		size_t len = screen->width > margin + 8 ? find_line_end(rest, screen->width - margin) : strlen(rest);

		top_screen_put(screen, style, "%*s%.*s", margin, "", (int)len, rest);
		rest += len;
		rest += *rest == ' ';
		margin = indent;
	}
	free(clean);
}

size_t top_screen_room(const struct top_screen *screen)
{
	size_t used = screen->line_nr + FOOT_LINES;

	if (!screen->height)
		return SIZE_MAX;
	return screen->height > used ? screen->height - used : 0;
}

const char *top_rate_text(char text[TOP_RATE_MAX], double bytes, uint64_t window_ns)
{
	char size[SIZE_TEXT_MAX];

	snprintf(text, TOP_RATE_MAX, "%s",
		 window_ns ? size_text(size, bytes * 60 * SECOND_NS / window_ns, true) : "-");
	return text;
}

/* ---- other pages ---------------------------------------------------------------------------- */

static void draw_help(const struct top_model *model, struct top_screen *screen)
{
	const struct top_key_help *key;
	char text[256];

	top_screen_put(screen, TOP_STYLE_TITLE, "allocsnap top: keys");
	for (size_t i = 0; (key = top_key_help(i)); i++) {
		snprintf(text, sizeof(text), "  %-9s %s", key->keys, key->help);
		if (!key->is_live || model->is_live)
			top_screen_put_words(screen, TOP_STYLE_PLAIN, 12, text);
	}
	top_screen_put(screen, TOP_STYLE_PLAIN, "%s", "");
	top_screen_put_words(screen, TOP_STYLE_PLAIN, 2, "GROWTH/MIN is how live bytes change in a minute, over the time "
			     "above the rows.");
	top_screen_put_words(screen, TOP_STYLE_PLAIN, 2, "LEAKS: blocks were born all along, and hardly any was freed. MAY "
			     "LEAK: there are doubts, which Enter names.");
}

void top_layout_opened(struct top_model *model, struct top_screen *screen)
{
	const struct top_answer *answer = model->answer;
	const struct top_row *row = top_model_row(model);
	size_t room, last;

	if (row)
		top_screen_put(screen, TOP_STYLE_HEAD, "%s", row->name);
	if (row && row->reason)
		top_screen_put_words(screen, row->kind == LEAK_SURE ? TOP_STYLE_SURE : TOP_STYLE_LIKELY, 2, row->reason);
	if (!row || !answer->opened || strcmp(answer->opened, row->identity)) {
		top_screen_put(screen, TOP_STYLE_PLAIN, "%s", row ? "reading …" : "the row is gone: no block of it lives");
		return;
	}
	room = model->page_rows = top_screen_room(screen);
	if (model->line_cursor.first + room > answer->line_nr)
		model->line_cursor.first = answer->line_nr > room ? answer->line_nr - room : 0;
	last = model->line_cursor.first + room;
	for (size_t i = model->line_cursor.first; i < answer->line_nr && i < last; i++)
		top_screen_put(screen, TOP_STYLE_PLAIN, "%s", answer->line[i]);
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
	top_screen_put(screen, TOP_STYLE_FOOT, "%s", text);
}

static void put_foot(const struct top_model *model, struct top_screen *screen)
{
	while (screen->line_nr + FOOT_LINES < screen->height && !screen->err)
		top_screen_put(screen, TOP_STYLE_PLAIN, "%s", "");
	if (model->is_editing)
		top_screen_put(screen, TOP_STYLE_FOOT, "filter: %s_", model->filter);
	else if (*model->message)
		top_screen_put(screen, TOP_STYLE_WARNING, "%s", model->message);
	else if (model->page == TOP_PAGE_HELP)
		top_screen_put(screen, TOP_STYLE_FOOT, "any key: back  q quit");
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
		top_layout_processes(model, ret);
	} else {
		top_layout_facts(model, ret, model->page == TOP_PAGE_ROWS);
		if (model->page == TOP_PAGE_OPENED)
			top_layout_opened(model, ret);
		else
			top_layout_rows(model, ret);
	}
	cut_screen(ret);
	if (height)
		put_foot(model, ret);
	return ret->err;
}
