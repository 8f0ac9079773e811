// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/run_summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/units.h"
#include "render/facts.h"
#include "snapshot.h"

#define ROWS_SHOWN 40

/* A row of the table. */
struct summary_row {
	const struct summed_run *run;
	uint64_t peak_bytes;
	char end[64];
};

/* ---- collecting --------------------------------------------------------------------------- */

static struct summed_run *find_summed_run(struct run_summary *summary, pid_t pid, const char *comm)
{
	for (size_t i = summary->run_nr; i-- > 0;)
		if (summary->run[i].pid == pid && !strncmp(summary->run[i].comm, comm, COMM_BYTES))
			return &summary->run[i];
	return NULL;
}

void run_summary_add(struct run_summary *summary, pid_t pid, const char *comm, const char *path)
{
	struct summed_run *run = find_summed_run(summary, pid, comm), new = { .pid = pid };

	if (!run) {
		snprintf(new.comm, sizeof(new.comm), "%s", comm);
		if (array_push(summary, run, new))
			return;
		run = &summary->run[summary->run_nr - 1];
	}
	free(run->last_path);
	run->last_path = strdup(path);
	run->snapshot_nr++;
}

void run_summary_release(struct run_summary *summary)
{
	for (size_t i = 0; i < summary->run_nr; i++)
		free(summary->run[i].last_path);
	free(summary->run);
	*summary = (struct run_summary){};
}

/* ---- telling ------------------------------------------------------------------------------ */

static void read_summary_row(struct summary_row *row, const struct summed_run *run)
{
	struct snapshot *snapshot = run->last_path ? snapshot__open(run->last_path, NULL) : NULL;

	*row = (struct summary_row){ .run = run, .end = "?" };
	if (!snapshot)
		return;
	row->peak_bytes = snapshot_facts(snapshot).peak_bytes;
	clean_text(row->end, sizeof(row->end), snapshot__metadata(snapshot, "end") ?: "?");
	snapshot__close(snapshot);
}

static int compare_summary_rows(const void *a_, const void *b_)
{
	const struct summary_row *a = a_, *b = b_;

	if (a->peak_bytes != b->peak_bytes)
		return a->peak_bytes > b->peak_bytes ? -1 : 1;
	return a->run->pid < b->run->pid ? -1 : a->run->pid > b->run->pid;
}

/* The length of the folder of all processes: DIR/HOST of DIR/HOST/COMM.PID/TIME.snap. */
static int common_folder_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	while (slash && slash > path && *--slash != '/')
		;
	return slash && slash > path ? (int)(slash - path) : (int)strlen(path);
}

static void put_summary_row(const struct summary_row *row)
{
	char comm[4 * COMM_BYTES + 16], process[sizeof(comm) + 16], peak[UNIT_TEXT_MAX];

	snprintf(process, sizeof(process), "%s.%d", clean_text(comm, sizeof(comm), row->run->comm), row->run->pid);
	fprintf(stderr, "%-24s %10s %9zu  %s\n", process, format_size(peak, row->peak_bytes, false),
		row->run->snapshot_nr, row->end);
}

static void put_summary_table(const struct run_summary *summary)
{
	struct summary_row *row = calloc(summary->run_nr, sizeof(*row));

	for (size_t i = 0; row && i < summary->run_nr; i++)
		read_summary_row(&row[i], &summary->run[i]);
	if (row)
		qsort(row, summary->run_nr, sizeof(*row), compare_summary_rows);
	if (row)
		fprintf(stderr, "%-24s %10s %9s  %s\n", "PROCESS", "PEAK", "SNAPSHOTS", "END");
	for (size_t i = 0; row && i < summary->run_nr && i < ROWS_SHOWN; i++)
		put_summary_row(&row[i]);
	if (summary->run_nr > ROWS_SHOWN)
		fprintf(stderr, "… and %zu more\n", summary->run_nr - ROWS_SHOWN);
	free(row);
}

void run_summary_log(const struct run_summary *summary)
{
	const char *path = summary->run_nr ? summary->run[0].last_path : NULL;
	size_t snapshot_nr = 0;

	for (size_t i = 0; i < summary->run_nr; i++)
		snapshot_nr += summary->run[i].snapshot_nr;
	if (!path)
		return;
	if (snapshot_nr == 1)
		log_info("snapshot: %s", path);
	else if (summary->run_nr == 1)
		log_info("%zu snapshots in %.*s", snapshot_nr, (int)(strrchr(path, '/') - path), path);
	else
		log_info("%zu processes, %zu snapshots in %.*s", summary->run_nr, snapshot_nr,
			 common_folder_len(path), path);
	if (summary->run_nr > 1)
		put_summary_table(summary);
}
