/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORDING_SHOW_H
#define ALLOCSNAP_RECORDING_SHOW_H

/* What somebody at a terminal sees of a recording. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct collector;
struct process_view;

/* The last line of stderr. Zeroed: there is none. */
struct status_line {
	bool is_there;
	uint64_t shown_ns;
};

/* Writes it anew, where stderr is a terminal; several times a second at most. */
void status_line_show(struct status_line *line, const struct collector *collector, uint64_t seconds);

/* The same of a recording of everybody. */
void status_line_everyone(struct status_line *line, const struct collector *collector,
			  uint64_t seconds);

/* Before anything else is written there. */
void status_line_clear(struct status_line *line);

/* Says on stderr what the collector has noted. */
void say_notes(struct collector *collector);

/*
 * Where stderr is a terminal: what recording took of the CPU time of nr processes. Of the view those
 * members are read.
 */
void say_cost(const struct process_view *sum, size_t nr);

/*
 * The top rows of a snapshot, on stdout: where the memory is, without another command. 0 or a
 * negative errno.
 */
int show_top(const char *path);

/* Says the snapshot's losses where blocks are among them: there was no room for all. */
void say_dropped(const char *path);

#endif
