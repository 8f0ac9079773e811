/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_RECORDING_H
#define ALLOCSNAP_RECORD_RECORDING_H

/*
 * The recording of attach and run (recorder.h). A snapshot is taken each interval, on SIGUSR1, and of a process whose
 * trigger is due. A last snapshot is taken when a process ends, on SIGINT, SIGTERM and SIGHUP, and after a duration or
 * a count. SIGUSR2 clears the traces. Paths go to stdout, one a line. If stderr is a terminal, it has a status line. If
 * stdout is a terminal, it has the top rows at the end. Under `run` both belong to the program: neither paths nor a
 * status line are written, but a summary on stderr at the end.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/triggers.h"
#include "shared/bpf_types.h"
#include "snapshot.h"

struct collector;
struct signalfd_siginfo;

/* record uses them, too. */
struct recording_options {
	const char *dir;
	const char *file; /* if not NULL: of the only snapshot, instead of dir */
	struct snapshot_file_owner owner; /* of new files and folders */
	bool is_compact;
	const char *const *label; /* each NAME=VALUE, for every snapshot */
	size_t label_nr;
	struct trigger_options triggers;
	uint64_t interval_ns;
	uint64_t duration_ns; /* 0: no limit */
	uint64_t count;	      /* snapshots of each process; 0: no limit */
	bool is_quiet; /* no status line, no rows at the end */
	bool has_budget; /* the collector must be asked often */
	bool is_system_wide;     /* processes come and go: `record` does not end with them */
	pid_t child;	      /* of `run`: signals go to it; 0: none */
	/* NULL: paths go to stdout, and the end of the recording is shown. Otherwise this gets the paths instead. */
	void (*saved)(void *saved_by, const char *path);
	void *saved_by;
};

/*
 * Blocks the signals named above and returns a descriptor that delivers them. -1: it failed and logged why. Call
 * it before anything is recorded, so that no signal can end us half-way.
 */
int signals_open(void);

/*
 * Passes on to the child of `run` the signals that a process sent us, until the child ends. (The terminal signals the
 * child itself.) Nothing is recorded meanwhile, so SIGUSR1 and SIGUSR2 do nothing.
 */
void signals_forward(int signal_fd, pid_t child);

/* The same for signals that have come by now. */
void signals_pass_on(int signal_fd, pid_t child);

/* Passes a signal on if a process sent it to us: it is meant for the child. The terminal signals the child itself. */
void signal_forward(pid_t child, const struct signalfd_siginfo *info);

/* Returns an exit status. It logs failures, and goes on after a failure if it can. */
int recording_run_until_stopped(const struct recording_options *options, struct collector *collector,
		      int signal_fd);

#endif
