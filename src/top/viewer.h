/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TOP_VIEWER_H
#define ALLOCSNAP_TOP_VIEWER_H

/*
 * Joins the model, the questions and the recording: asks for snapshots and answers, and carries out what keys ask for.
 * top_view.h has two ways to show it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "top/analyst.h"
#include "top/live.h"
#include "top/model.h"

struct viewer_options {
	const struct engine_options *engine;
	uint64_t interval_ns; /* the least time between snapshots */
	uint64_t count;	      /* of texts; 0: no limit */
	int signal_fd;	      /* while something is recorded, the recorder reads it */
	struct live *live;    /* NULL: files */

	/* With files: makes the series of a process of the list. Returns an exit status, and reports failures. */
	int (*open_series)(void *what, const struct top_process *process, struct leak_recording *ret);
	/* With a recording: keeps a file. Writes the path to ret_text, or why it failed. Returns an exit status. */
	int (*save)(void *what, const char *path, struct reason *ret_text);
	void *what;
};

struct viewer {
	const struct viewer_options *options;
	struct top_model model;
	struct analyst analyst;
	char *added;		/* a snapshot that the analyst does not have yet */
	bool is_question_new;
	bool stop;
	bool has_failed; /* something could not be shown; it was logged */
	uint64_t next_ask_ns;	/* when the next snapshot is due */
	uint64_t passes_before; /* pass_nr when it was asked for */
	uint64_t answer_nr;	/* answers so far */
	uint64_t own_cpu_ns, own_at_ns; /* for model.own_share */
	pid_t opened; /* the process that is shown; 0: none */
};

/* model: its list of processes, order and grouping, which the viewer takes over. 0 or a negative errno. */
int viewer_init(struct viewer *viewer, const struct viewer_options *options, const struct top_model *model);
void viewer_release(struct viewer *viewer);

/*
 * Waits until something happens, a key comes from key_fd (-1: there are no keys) or messages from note_fd (-1: none),
 * for a second at most, and does what is due. Returns whether key_fd is readable.
 */
bool viewer_step(struct viewer *viewer, int key_fd, int note_fd);

/* Carries out what top_model_press() returned. */
void viewer_act(struct viewer *viewer, enum top_action action);

#endif
