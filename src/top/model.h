/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TOP_MODEL_H
#define ALLOCSNAP_TOP_MODEL_H

/*
 * The state of the view: which page, which rows in which order, what is selected. It knows no terminal and asks no
 * question itself: keys come in, actions that its owner carries out come back, answers are handed in.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "top/answer.h"

enum top_page {
	TOP_PAGE_PROCESSES,
	TOP_PAGE_ROWS,
	TOP_PAGE_OPENED, /* the tracebacks of a row */
	TOP_PAGE_HELP,
};

/* Append only: names in model.c. */
enum top_order {
	TOP_ORDER_LEAK, /* lines that leak first, then by growth */
	TOP_ORDER_GROWTH,
	TOP_ORDER_SIZE,
	TOP_ORDER_BLOCKS,
	TOP_ORDER_NAME,
	TOP_ORDER_NR,
};

/* Keys that are no characters; other keys are code points. */
enum top_key {
	TOP_KEY_UP = 0x200000,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ENTER,
	TOP_KEY_BACK, /* Escape, Left */
	TOP_KEY_ERASE,
};

/* Actions for the owner of the model. */
enum top_action {
	TOP_ACTION_NONE,
	TOP_ACTION_QUIT,
	TOP_ACTION_ASK, /* the question has changed */
	TOP_ACTION_OPEN_PROCESS,
	TOP_ACTION_CLOSE_PROCESS, /* back to the list of processes */
	TOP_ACTION_RESET,
	TOP_ACTION_SAVE,
};

struct top_cursor {
	size_t selected, first; /* first: the one at the top of the page */
};

#define TOP_FILTER_MAX 128
#define TOP_MESSAGE_MAX 512

struct top_model {
	bool is_live;	/* a recording; otherwise files */
	bool has_list;	/* there are several processes, or all */
	bool is_system; /* all processes of the machine */
	enum top_page page, below_help;

	struct top_process *process; /* sorted */
	size_t process_nr, process_alloc;
	struct top_cursor process_cursor;

	struct top_answer *answer; /* NULL: none yet */
	size_t *shown;		   /* numbers of the answer's rows, filtered and sorted */
	size_t shown_nr;
	struct top_cursor row_cursor;
	struct top_cursor line_cursor; /* only `first` */

	enum key_type key_type;
	enum top_order order;
	char filter[TOP_FILTER_MAX]; /* rows with this in their names; "": all */
	char filter_before[TOP_FILTER_MAX];
	bool is_editing; /* of the filter */
	bool is_paused, is_reset_asked;
	bool is_over;	 /* nothing is recorded any more */
	bool is_asked;	 /* a snapshot is being taken or read */
	uint64_t now_ns, asked_ns; /* CLOCK_MONOTONIC */
	double own_share; /* CPU time of this program, of one core; negative: not known */
	size_t page_rows; /* rows that the last drawing had room for */
	size_t top;	  /* rows in a text without end; 0: all */
	char message[TOP_MESSAGE_MAX]; /* at the bottom, until the next key; "": none */
};

void top_model_release(struct top_model *model);

/* Handles a key, and returns what is to be done. */
enum top_action top_model_press(struct top_model *model, int key);

/*
 * Takes the answer over, and keeps the selected row selected. NULL, which does not fail: the model has no answer
 * any more. Returns 0 or -ENOMEM: the model keeps the answer that it has.
 */
int top_model_set_answer(struct top_model *model, struct top_answer *answer);

/* Sorts the processes, by live bytes, and keeps the selected one selected. */
void top_model_sort_processes(struct top_model *model);

/* The selected row, or process; NULL: nothing is selected. */
const struct top_row *top_model_row(const struct top_model *model);
struct top_process *top_model_process(const struct top_model *model);

__attribute__((format(printf, 2, 3))) void top_model_say(struct top_model *model, const char *fmt, ...);

const char *top_order_name(enum top_order order);
const char *top_key_type_title(enum key_type key_type);

/* Moves `first` so that the selected one of nr is within a page of `rows`. */
void top_cursor_fit(struct top_cursor *cursor, size_t nr, size_t rows);

/* Keys and what they do, for the help page. NULL: there are no more. */
struct top_key_help {
	const char *keys, *label, *help; /* label: for the last line of the screen; NULL: not there */
	bool is_live;	/* only of recordings */
};
const struct top_key_help *top_key_help(size_t at);

#endif
