// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "top/model.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

const char *top_order_name(enum top_order order)
{
	static const char *const name[TOP_ORDER_NR] = {
		[TOP_ORDER_LEAK] = "leaks first, then growth",
		[TOP_ORDER_GROWTH] = "growth",
		[TOP_ORDER_SIZE] = "size",
		[TOP_ORDER_BLOCKS] = "blocks",
		[TOP_ORDER_NAME] = "name",
	};

	return name[order];
}

const char *top_key_type_title(enum key_type key_type)
{
	static const char *const title[KEY_TYPE_NR] = {
		[KEY_LINENO] = "line",	     [KEY_FILENAME] = "file",	  [KEY_TRACEBACK] = "traceback",
		[KEY_FUNCTION] = "function", [KEY_OBJECT] = "object",	  [KEY_DOMAIN] = "domain",
		[KEY_PROCESS] = "process",   [KEY_SIZE_CLASS] = "size class", [KEY_AGE] = "age",
		[KEY_THREAD] = "thread",
	};

	return title[key_type];
}

void top_model_say(struct top_model *model, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(model->message, sizeof(model->message), fmt, args);
	va_end(args);
}

void top_model_release(struct top_model *model)
{
	for (size_t i = 0; i < model->process_nr; i++)
		free(model->process[i].place);
	free(model->process);
	free(model->shown);
	top_answer_free(model->answer);
	*model = (struct top_model){};
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int compare_numbers(double a, double b)
{
	return (a < b) - (a > b); /* descending */
}

static int compare_row_growth(const struct top_row *a, const struct top_row *b)
{
	return compare_numbers(a->diff.size, b->diff.size) ?: compare_numbers(a->cost.size, b->cost.size);
}

/* Lines that leak and lines that may are one group, as in `leaks`. */
static int compare_leaks(const struct top_row *a, const struct top_row *b)
{
	return (b->kind <= LEAK_LIKELY) - (a->kind <= LEAK_LIKELY) ?:
	       compare_numbers(a->leak_bytes_per_s, b->leak_bytes_per_s) ?: compare_row_growth(a, b);
}

static int compare_rows(const struct top_row *a, const struct top_row *b, enum top_order order)
{
	switch (order) {
	case TOP_ORDER_LEAK:
		return compare_leaks(a, b);
	case TOP_ORDER_GROWTH:
		return compare_row_growth(a, b);
	case TOP_ORDER_BLOCKS:
		return compare_numbers(a->cost.count, b->cost.count);
	case TOP_ORDER_NAME:
		return strcmp(a->name, b->name);
	default:
		return compare_numbers(a->cost.size, b->cost.size);
	}
}

/* Equal rows stay in the engine's order. */
static int by_order(const void *left, const void *right, void *model_)
{
	const struct top_model *model = model_;
	size_t a = *(const size_t *)left, b = *(const size_t *)right;

	return compare_rows(&model->answer->row[a], &model->answer->row[b], model->order) ?: (a > b) - (a < b);
}

const struct top_row *top_model_row(const struct top_model *model)
{
	size_t at = model->row_cursor.selected;

	return at < model->shown_nr ? &model->answer->row[model->shown[at]] : NULL;
}

/* The first row stays selected whatever it is; another one is followed. */
static void select_row_again(struct top_model *model, const char *identity)
{
	if (!identity || !model->row_cursor.selected)
		return;
	for (size_t i = 0; i < model->shown_nr; i++)
		if (!strcmp(model->answer->row[model->shown[i]].identity, identity))
			model->row_cursor.selected = i;
}

static void choose_rows(struct top_model *model)
{
	model->shown_nr = 0;
	for (size_t i = 0; i < model->answer->row_nr; i++)
		if (!*model->filter || strcasestr(model->answer->row[i].name, model->filter))
			model->shown[model->shown_nr++] = i;
	qsort_r(model->shown, model->shown_nr, sizeof(*model->shown), by_order, model);
}

static void update_rows(struct top_model *model, const char *identity)
{
	model->shown_nr = 0;
	if (!model->answer)
		return;
	choose_rows(model);
	select_row_again(model, identity);
	if (model->row_cursor.selected >= model->shown_nr)
		model->row_cursor.selected = model->shown_nr ? model->shown_nr - 1 : 0;
}

/* Sorts and filters the rows anew. */
static void top_model_update(struct top_model *model)
{
	const struct top_row *row = top_model_row(model);

	update_rows(model, row ? row->identity : NULL);
}

int top_model_set_answer(struct top_model *model, struct top_answer *answer)
{
	const struct top_row *row = top_model_row(model);
	char *identity = row ? strdup(row->identity) : NULL;
	size_t *shown = answer ? reallocarray(model->shown, answer->row_nr + 1, sizeof(*shown)) : model->shown;
	int err = answer && !shown ? -ENOMEM : 0;

	if (err) {
		top_answer_free(answer);
	} else {
		model->shown = shown;
		top_answer_free(model->answer);
		model->answer = answer;
		update_rows(model, identity);
	}
	free(identity);
	return err;
}

/* ---- processes ------------------------------------------------------------------------------ */

struct top_process *top_model_process(const struct top_model *model)
{
	size_t at = model->process_cursor.selected;

	return at < model->process_nr ? &model->process[at] : NULL;
}

/* Processes that have ended go last. */
static int by_live_bytes(const void *left, const void *right)
{
	const struct top_process *a = left, *b = right;

	return (a->has_ended - b->has_ended) ?: compare_numbers(a->bytes, b->bytes) ?: (a->pid > b->pid) - (a->pid < b->pid);
}

void top_model_sort_processes(struct top_model *model)
{
	const struct top_process *selected = top_model_process(model);
	int64_t pid = selected && model->process_cursor.selected ? selected->pid : -1;

	/* Files stay in the order of the list, newest first. */
	if (!model->is_live || !model->process_nr)
		return;
	qsort(model->process, model->process_nr, sizeof(*model->process), by_live_bytes);
	for (size_t i = 0; i < model->process_nr && pid >= 0; i++)
		if (model->process[i].pid == pid)
			model->process_cursor.selected = i;
}

/* ---- cursors -------------------------------------------------------------------------------- */

void top_cursor_fit(struct top_cursor *cursor, size_t nr, size_t rows)
{
	if (cursor->selected >= nr)
		cursor->selected = nr ? nr - 1 : 0;
	if (cursor->first > cursor->selected)
		cursor->first = cursor->selected;
	if (rows && cursor->selected >= cursor->first + rows)
		cursor->first = cursor->selected - rows + 1;
	if (cursor->first && cursor->first + rows > nr)
		cursor->first = nr > rows ? nr - rows : 0;
}

/* Whether the key moves the cursor. */
static bool move_cursor(struct top_cursor *cursor, int key, size_t nr, size_t page)
{
	size_t last = nr ? nr - 1 : 0, at = cursor->selected;

	if (key == TOP_KEY_UP || key == 'k')
		cursor->selected = at ? at - 1 : 0;
	else if (key == TOP_KEY_DOWN || key == 'j')
		cursor->selected = at < last ? at + 1 : last;
	else if (key == TOP_KEY_PAGE_UP)
		cursor->selected = at > page ? at - page : 0;
	else if (key == TOP_KEY_PAGE_DOWN || key == ' ')
		cursor->selected = at + page < last ? at + page : last;
	else if (key == TOP_KEY_HOME)
		cursor->selected = 0;
	else if (key == TOP_KEY_END)
		cursor->selected = last;
	else
		return false;
	return true;
}

/* Text has no selected line: the first one moves. */
static bool scroll_lines(struct top_model *model, int key)
{
	size_t nr = model->answer ? model->answer->line_nr : 0, page = model->page_rows;
	struct top_cursor cursor = { .selected = model->line_cursor.first };

	if (!move_cursor(&cursor, key, nr > page ? nr - page + 1 : 1, page))
		return false;
	model->line_cursor.first = cursor.selected;
	return true;
}

static bool press_move(struct top_model *model, int key)
{
	if (model->page == TOP_PAGE_PROCESSES)
		return move_cursor(&model->process_cursor, key, model->process_nr, model->page_rows);
	if (model->page == TOP_PAGE_ROWS)
		return move_cursor(&model->row_cursor, key, model->shown_nr, model->page_rows);
	return scroll_lines(model, key);
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* A narrow screen has room for the first ones only: there must always be a way out. */
static const struct top_key_help keys[] = {
	{ "?", "help", "this page; any key leaves it" },
	{ "q", "quit", "end, and detach from the process" },
	{ "arrows", NULL, "select a row; also j, k, PgUp, PgDn, Home, End" },
	{ "Enter", "open", "a process: its lines; a line: the tracebacks that allocate there, and why it is a leak" },
	{ "Esc Left", NULL, "back; with a filter: show all rows again" },
	{ "s", "sort", "order: leaks first, growth, size, blocks, name" },
	{ "g G", "group", "rows are lines, files, tracebacks, functions, objects, domains, …; G goes backwards" },
	{ "/", "filter", "show only rows with a text in their names; Enter keeps it, Esc drops it" },
	{ "p", "pause", "take no more snapshots, the rows stay; the process is still recorded", true },
	{ "r", "reset", "twice: forget all recorded blocks, and record new ones only", true },
	{ "w", "write", "keep the snapshot that is shown as a file", true },
};

const struct top_key_help *top_key_help(size_t at)
{
	return at < ARRAY_SIZE(keys) ? &keys[at] : NULL;
}

static void erase_character(char *text)
{
	size_t len = strlen(text);

	while (len && ((unsigned char)text[--len] & 0xc0) == 0x80)
		;
	text[len] = '\0';
}

/* UTF-8 of a code point. */
static void append_character(char *text, size_t room, int key)
{
	size_t len = strlen(text);
	char bytes[5] = "";

	if (key < 0x20 || key == 0x7f || key >= TOP_KEY_UP)
		return;
	if (key < 0x80)
		snprintf(bytes, sizeof(bytes), "%c", key);
	else if (key < 0x800)
		snprintf(bytes, sizeof(bytes), "%c%c", 0xc0 | key >> 6, 0x80 | (key & 0x3f));
	else if (key < 0x10000)
		snprintf(bytes, sizeof(bytes), "%c%c%c", 0xe0 | key >> 12, 0x80 | (key >> 6 & 0x3f), 0x80 | (key & 0x3f));
	else
		snprintf(bytes, sizeof(bytes), "%c%c%c%c", 0xf0 | key >> 18, 0x80 | (key >> 12 & 0x3f),
			 0x80 | (key >> 6 & 0x3f), 0x80 | (key & 0x3f));
	if (len + strlen(bytes) < room)
		strcpy(text + len, bytes);
}

static void press_in_filter(struct top_model *model, int key)
{
	if (key == TOP_KEY_ENTER)
		model->is_editing = false;
	else if (key == TOP_KEY_ERASE)
		erase_character(model->filter);
	else
		append_character(model->filter, sizeof(model->filter), key);
	if (key == TOP_KEY_BACK) {
		strcpy(model->filter, model->filter_before);
		model->is_editing = false;
	}
	top_model_update(model);
}

static enum top_action press_enter(struct top_model *model)
{
	if (model->page == TOP_PAGE_PROCESSES && top_model_process(model)) {
		model->page = TOP_PAGE_ROWS;
		model->row_cursor = (struct top_cursor){};
		return TOP_ACTION_OPEN_PROCESS;
	}
	if (model->page == TOP_PAGE_ROWS && top_model_row(model)) {
		model->page = TOP_PAGE_OPENED;
		model->line_cursor = (struct top_cursor){};
		return TOP_ACTION_ASK;
	}
	return TOP_ACTION_NONE;
}

static enum top_action press_back(struct top_model *model)
{
	if (model->page == TOP_PAGE_OPENED) {
		model->page = TOP_PAGE_ROWS;
		return TOP_ACTION_NONE;
	}
	if (model->page == TOP_PAGE_ROWS && *model->filter) {
		*model->filter = '\0';
		top_model_update(model);
		return TOP_ACTION_NONE;
	}
	if (model->page != TOP_PAGE_ROWS || !model->has_list)
		return TOP_ACTION_NONE;
	model->page = TOP_PAGE_PROCESSES;
	return TOP_ACTION_CLOSE_PROCESS;
}

/* Another grouping has other rows: the cursor begins at the first one. */
static enum top_action press_group(struct top_model *model, int step)
{
	if (model->page != TOP_PAGE_ROWS)
		return TOP_ACTION_NONE;
	model->key_type = (model->key_type + KEY_TYPE_NR + step) % KEY_TYPE_NR;
	if (model->key_type == KEY_PROCESS) /* a view has one */
		model->key_type = (model->key_type + KEY_TYPE_NR + step) % KEY_TYPE_NR;
	model->row_cursor = (struct top_cursor){};
	return TOP_ACTION_ASK;
}

static enum top_action press_sort(struct top_model *model)
{
	if (model->page != TOP_PAGE_ROWS)
		return TOP_ACTION_NONE;
	model->order = (model->order + 1) % TOP_ORDER_NR;
	top_model_update(model);
	return TOP_ACTION_NONE;
}

/* A key pressed by mistake must not cost an hour's recording. */
static enum top_action press_reset(struct top_model *model, bool is_second)
{
	if (is_second)
		return TOP_ACTION_RESET;
	model->is_reset_asked = true;
	top_model_say(model, "r again: forget all recorded blocks, and begin anew; any other key: no");
	return TOP_ACTION_NONE;
}

/* Keys that only a recording has. */
static enum top_action press_live(struct top_model *model, int key, bool is_reset_asked)
{
	if (!model->is_live) {
		top_model_say(model, "these are files: nothing is recorded");
		return TOP_ACTION_NONE;
	}
	if (model->is_over && key != 'w') {
		top_model_say(model, "nothing is recorded any more");
		return TOP_ACTION_NONE;
	}
	if (key == 'p')
		model->is_paused = !model->is_paused;
	if (key == 'r')
		return press_reset(model, is_reset_asked);
	return key == 'w' ? TOP_ACTION_SAVE : TOP_ACTION_NONE;
}

static enum top_action press_help(struct top_model *model)
{
	model->below_help = model->page;
	model->page = TOP_PAGE_HELP;
	return TOP_ACTION_NONE;
}

static enum top_action press_filter(struct top_model *model)
{
	if (model->page != TOP_PAGE_ROWS)
		return TOP_ACTION_NONE;
	strcpy(model->filter_before, model->filter);
	model->is_editing = true;
	return TOP_ACTION_NONE;
}

static enum top_action press_letter(struct top_model *model, int key, bool is_reset_asked)
{
	switch (key) {
	case 'q':
		return TOP_ACTION_QUIT;
	case '?':
	case 'h':
		return press_help(model);
	case 's':
		return press_sort(model);
	case 'g':
	case 'G':
		return press_group(model, key == 'g' ? 1 : -1);
	case '/':
		return press_filter(model);
	case 'p':
	case 'r':
	case 'w':
		return press_live(model, key, is_reset_asked);
	default:
		return TOP_ACTION_NONE;
	}
}

enum top_action top_model_press(struct top_model *model, int key)
{
	bool is_reset_asked = model->is_reset_asked;

	*model->message = '\0';
	model->is_reset_asked = false;
	if (model->is_editing) {
		press_in_filter(model, key);
		return TOP_ACTION_NONE;
	}
	if (model->page == TOP_PAGE_HELP) {
		model->page = model->below_help;
		return key == 'q' ? TOP_ACTION_QUIT : TOP_ACTION_NONE;
	}
	if (press_move(model, key))
		return TOP_ACTION_NONE;
	if (key == TOP_KEY_ENTER)
		return press_enter(model);
	if (key == TOP_KEY_BACK)
		return press_back(model);
	return press_letter(model, key, is_reset_asked);
}
