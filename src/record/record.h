/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_RECORD_H
#define ALLOCSNAP_RECORD_RECORD_H

/*
 * The recording of `record` (recorder.h). Each interval has a pass over all processes that exist by then; many have
 * come and gone in between. It keeps the folder within its bounds, prints a line for each pass, and reports to the
 * service manager and the metrics file.
 */

#include <stdbool.h>

#include "archive/archive.h"
#include "record/recording.h"

struct collector;

struct record_options {
	struct recording_options recording;
	struct archive_bounds bounds;
	const char *metrics; /* a file for Prometheus, or NULL */
};

/* Returns an exit status. It logs failures, and goes on after a failure if it can. */
int record_system_wide(const struct record_options *options, struct collector *collector,
		    int signal_fd);

#endif
