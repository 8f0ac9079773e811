/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_OPEN_INPUT_H
#define ALLOCSNAP_CLI_OPEN_INPUT_H

/* Opens input files. Failures, and losses of a snapshot, are reported on stderr. */

#include <stddef.h>

#include "render.h"

struct snapshot;

/* Opens a snapshot file. NULL: it failed and reported why. */
struct snapshot *open_snapshot(const char *path);

/* A snapshot and, if it came from a stream, the memory that it points into. */
struct input {
	struct snapshot *snapshot;
	char *bytes;
	size_t len;
};

/*
 * Reads a snapshot file, CPython's tuple form in JSON or a heap profile of another tool, whichever the content shows. "-" is standard
 * input; other streams are accepted, too. Returns an exit status. input_release() frees *input, also after
 * a failure.
 */
int input_read(struct input *input, const char *path);
void input_release(struct input *input);

/*
 * Logs what was lost while recording, for commands about snapshots that `show` cannot show: many, or temporary ones.
 * Each loss has a line with its meaning, as in `show`; losses that this version does not know share one. 0 or -ENOMEM.
 */
int log_losses(const struct report_loss *loss, size_t nr);

/* The losses of a snapshot. */
int log_snapshot_losses(const struct snapshot *snapshot);

/* Whether --source names a folder that can be opened. EXIT_DONE; or EXIT_FAILED, reported. */
int check_source_folder(const char *folder);

#endif
