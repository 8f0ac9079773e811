/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_H
#define ALLOCSNAP_RECORD_H

/*
 * The recording of everybody, until told to stop: each interval one pass, in which the books of all are
 * read once and each process that is recorded leaves a snapshot of the same instant. Who ends in between
 * has its last snapshot in the next pass, which comes early where room runs out.
 */

struct collector;
struct recording_options;

/* Returns an exit status; what failed has been said, and was gone on from. */
int record_everyone(const struct recording_options *options, struct collector *collector,
		    int signal_fd);

#endif
