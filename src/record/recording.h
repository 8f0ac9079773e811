/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORDING_H
#define ALLOCSNAP_RECORDING_H

/*
 * The time between the first probe and the last snapshot, for commands that record: a snapshot
 * each interval, on SIGUSR1 and of a process whose trigger says so, a last one when a process ends, on SIGINT, SIGTERM and SIGHUP,
 * after a duration or a count. SIGUSR2 clears the traces. Paths go to stdout, one a line; a status line to stderr where
 * that is a terminal; the top rows to stdout at the end where that is one.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/triggers.h"

struct collector;
struct signalfd_siginfo;

struct recording_options {
	const char *dir;
	bool is_compact;
	const char *const *label; /* each NAME=VALUE, of every snapshot */
	size_t label_nr;
	struct trigger_options triggers;
	uint64_t interval_ns;
	uint64_t duration_ns; /* 0: until told to stop */
	uint64_t count;	      /* of snapshots of each process; 0: the same */
	bool has_budget; /* the collector is to be asked often */
	bool is_everyone;     /* processes come and go: `record` does not end with them */
	pid_t child;	      /* of `run`: signals are for it; 0: none */
};

/*
 * Blocks the signals named above and returns a descriptor that delivers them, or -1 and errno.
 * To be called before anything is recorded, so that none of them can end us half-way.
 */
int open_signals(void);

/*
 * What was sent to us (not by the terminal, which has told the child itself) goes on to the child of
 * `run`, until its end; nothing is recorded meanwhile, so SIGUSR1 and SIGUSR2 do nothing.
 */
void pass_signals_on(int signal_fd, pid_t child);

/* The terminal has told the child itself; what somebody sent us is meant for it. */
void pass_signal_on(pid_t child, const struct signalfd_siginfo *info);

/* Returns an exit status; what failed has been said, and was gone on from where possible. */
int record_until_told(const struct recording_options *options, struct collector *collector,
		      int signal_fd);

#endif
