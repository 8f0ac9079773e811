/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_H
#define ALLOCSNAP_RECORD_H

/*
 * The loop of `record`: a pass each interval over all processes that are there by then, of which many have
 * come and gone in between; snapshots of those whose trigger says so; the folder within its bounds; and
 * what is going on told to who looks after services.
 */

#include <stdbool.h>

#include "record/retention/archive.h"
#include "record/recording.h"

struct collector;

struct record_options {
	struct recording_options recording;
	struct archive_bounds bounds;
	const char *metrics; /* a file for Prometheus, or NULL */
};

/* Returns an exit status; what failed has been said, and was gone on from where possible. */
int record_everyone(const struct record_options *options, struct collector *collector,
		    int signal_fd);

#endif
