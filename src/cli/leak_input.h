/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_LEAK_INPUT_H
#define ALLOCSNAP_CLI_LEAK_INPUT_H

/* The snapshots of one recording, from files and folders. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/progress.h"
#include "engine/leak_report.h"

struct leak_file;
struct reason;

struct leak_input {
	struct leak_file *file; /* the chosen ones, oldest first */
	size_t file_nr, file_alloc;
	char *folder; /* that they are in; NULL: all were named themselves */
	uint64_t *now_ns;
	struct leak_recording recording;
	struct progress progress; /* of opening them */
	size_t left_out_nr; /* snapshots that are filtered, or of earlier recordings of the process */
	bool has_several; /* processes, or folders with snapshots: nothing is chosen */
};

struct leak_choice {
	uint64_t last_ns; /* only the end of the recording; 0: all of it */
	struct reason *unjudged; /* gets the line that says why snapshots cannot be judged; NULL: it is logged */
};

/*
 * Chooses a recording in files and in folders, at any depth, and evenly LEAK_SNAPSHOTS of its snapshots: the newest
 * recording of one folder.
 * Returns an exit status; logs failures, and what was left out. With choice->unjudged, EXIT_UNJUDGED is no failure, and
 * what was left out is not logged. leak_input_release() frees *ret, also after a failure.
 */
int leak_input_choose(const char *const *path, size_t path_nr, const struct leak_choice *choice,
		      struct leak_input *ret);
void leak_input_release(struct leak_input *input);

/* The value of --fail-above RATE. */
struct leak_limit {
	bool is_set;
	double bytes_per_s;
};

/* parse() of the option: "1M/h", "64K/min", "100/s", "0". */
int leak_limit_parse(const char *text, void *field, struct reason *why);

bool leak_limit_is_exceeded(const struct leak_limit *limit, double bytes_per_s);

#endif
