/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_METRICS_H
#define ALLOCSNAP_RECORD_METRICS_H

/*
 * A recorder's metrics, about itself and in short about the recorded processes, in Prometheus's text format
 * (exposition 0.0.4). It is a file for a collector of such files (node_exporter's textfile collector), replaced as a
 * whole each time. A new number is a field here and a row in metrics.c.
 *
 * Counters count from the recorder's start, over all processes, including those that have ended.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/reason.h"

struct push_counts;

#define METRICS_PROCESS_MAX 1000 /* the processes with the most traced bytes are reported */

/* One of several numbers that differ in a label: a loss, a kind of trap. */
struct metrics_named {
	const char *name;
	uint64_t value;
};

struct metrics_process {
	pid_t pid;
	const char *comm;
	const char *pod, *namespace, *container; /* NULL or "": not known, and no label */
	uint64_t traced_bytes, traced_blocks;
	uint64_t peak_bytes;
	uint64_t cpu_ns;  /* of the process, since its recording began */
	uint64_t cost_ns; /* the part of it that recording took, by estimate */
};

struct metrics {
	uint64_t began_ns;	/* CLOCK_REALTIME, as all times here */
	uint64_t last_pass_ns;	/* the instant of the last snapshots; 0: no pass yet */

	uint64_t process_now_nr, process_all_nr; /* recorded now, and ever */
	uint64_t process_small_nr, process_unprobed_nr; /* processes without a snapshot: see metrics.c */
	uint64_t process_dropped_nr; /* not recorded: there was no room */
	uint64_t allocations, frees;
	uint64_t cpu_ns, cost_ns; /* of all recorded processes, as above */
	const struct metrics_named *loss; /* by its name in snapshots */
	size_t loss_nr;
	const struct metrics_named *bystander_traps; /* traps of processes that are not recorded, by kind */
	size_t bystander_traps_nr;
	uint64_t bystander_ns; /* what these traps took, by estimate */

	uint64_t snapshots_written, snapshots_failed;
	uint64_t snapshots_removed; /* to stay within the bounds */
	uint64_t disk_bytes, disk_most_bytes; /* what is kept, and the limit; 0: no limit */
	uint64_t drain_nr, drain_ns; /* passes over the accounting in the kernel, and their time together */

	uint64_t own_cpu_ns;	  /* of the recorder and its children */
	uint64_t own_rss_bytes;	  /* likewise */
	uint64_t kernel_bytes;	  /* of the maps */
	uint64_t open_files, open_files_most;

	const struct metrics_process *process;
	size_t process_nr;
};

/*
 * Reports only one of several processes with the same PID, and only the METRICS_PROCESS_MAX largest processes. How many
 * are omitted is a metric, too. Returns 0 or a negative errno.
 */
int metrics__print(FILE *out, const struct metrics *metrics);

/*
 * Replaces the file, whole or not at all. The mode is 0644, because the collector runs as another user: the folder
 * limits which users can read it. Returns 0, or a negative errno with a line in *why.
 */
int metrics__write(const char *path, const struct metrics *metrics, struct reason *why);

/* The same with the numbers of a process that pushes snapshots. */
int push_counts_write(const char *path, const struct push_counts *counts, struct reason *why);

/* The capabilities needed to write such a file; path may be NULL. */
uint64_t metrics_privileges(const char *path);

#endif
