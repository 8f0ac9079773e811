/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_RUN_SUMMARY_H
#define ALLOCSNAP_RECORD_RUN_SUMMARY_H

/*
 * At its end, `run` tells which processes it recorded, and where their snapshots are. It tells nothing before, in the
 * middle of the program's own output.
 */

#include <stddef.h>
#include <sys/types.h>

#include "shared/bpf_types.h"

/* A program run: a process has several if it calls exec. */
struct summed_run {
	pid_t pid;
	char comm[COMM_BYTES];
	char *last_path;
	size_t snapshot_nr;
};

/* Zeroed: it is empty. */
struct run_summary {
	struct summed_run *run;
	size_t run_nr, run_alloc;
};

/* Adds a snapshot. Without memory for it, the summary leaves the process out. */
void run_summary_add(struct run_summary *summary, pid_t pid, const char *comm, const char *path);

/*
 * Logs it on stderr: a line for one process, a table for several, those with the highest peak first. Peak and end come
 * from the last snapshots.
 */
void run_summary_log(const struct run_summary *summary);

void run_summary_release(struct run_summary *summary);

#endif
