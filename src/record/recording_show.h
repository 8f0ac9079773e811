/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_RECORDING_SHOW_H
#define ALLOCSNAP_RECORD_RECORDING_SHOW_H

/* The output of a recording at a terminal. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct collector;
struct process_view;

/* The figures of the status line. */
struct recording_status {
	const struct collector *collector;
	uint64_t snapshot_nr; /* written so far */
	uint64_t seconds;     /* since the recording began */
};

/*
 * Formats the status within so many bytes: the most important parts come first, and parts that do not fit are left out.
 */
typedef void (*status_format_fn)(char *text, size_t bytes, const struct recording_status *status);

/* For a few processes that were named, and for `record`. */
void format_named_status(char *text, size_t bytes, const struct recording_status *status);
void format_record_status(char *text, size_t bytes, const struct recording_status *status);

/* Shows it on the status line (base/terminal.h), unless a line is there that is recent enough. */
void recording_status_show(const struct recording_status *status, status_format_fn format);

/*
 * If stderr is a terminal, logs what the recording of nr processes took of a core. It reads only those
 * members of the view.
 */
void log_recording_cost(const struct process_view *sum, size_t nr);

/*
 * Prints the top rows of a snapshot to stdout: they show where the memory is, without another command. Returns 0 or a
 * negative errno.
 */
int print_top_rows(const char *path);

/* Logs the snapshot's losses if it lost blocks for lack of room. */
void log_dropped_blocks(const char *path);

#endif
