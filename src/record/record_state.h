/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_STATE_H
#define ALLOCSNAP_RECORD_STATE_H

/* The state of `record`: record.c decides when to act, and record_pass.c makes the passes. */

#include <time.h>

#include "base/clock.h"
#include "shared/bpf_types.h"
#include "record/due.h"
#include "record/record.h"
#include "record/record_report.h"
#include "record/recording_show.h"
#include "record/last_share.h"
#include "record/notify.h"

/* Processes start and end in crowds: one look serves many of them. */
#define LOOK_EVERY_NS (SECOND_NS / 20)

/* Snapshots that are synced to the disk together; each has two files open. */
#define BATCH_MAX 64

struct reason;
struct snapshot_batch;

/* The process of a snapshot in the batch. */
struct batched {
	pid_t pid;
	char comm[COMM_BYTES];
	bool is_last; /* the process has ended: there will be no other snapshot of it */
};

/* Failures that may pass. They set the exit status only if they still exist at the end. */
enum trouble {
	TROUBLE_ADMIT = 1,
	TROUBLE_DRAIN = 2,
	TROUBLE_SAVE = 4,
	TROUBLE_METRICS = 8, /* logged when it begins */
};

struct record {
	const struct record_options *record_options;
	const struct recording_options *options;
	struct collector *collector;
	struct archive *archive;
	struct snapshot_batch *batch; /* written, but not safe on the disk yet */
	struct batched batched[BATCH_MAX]; /* one for each snapshot in the batch */
	size_t batched_nr, told_nr; /* told_nr: how many of them are known to be safe or lost */
	uint64_t lost_nr; /* snapshots that could not be written */
	struct notify notify;
	struct record_report report;
	int signal_fd;
	uint64_t started_ns, looked_ns, admitted_ns, passed_ns, told_ns;
	uint64_t next_ns; /* when the next interval is due */
	uint64_t passes;  /* counted for options->count: intervals and SIGUSR1 */
	struct due due;
	struct last_share last_share;
	uint64_t due_again_ns; /* triggers are not looked at before then */
	unsigned int trouble; /* enum trouble: the present failures */
	bool is_fresh;	  /* snapshots of all processes have just been taken */
	bool stop;
	bool is_last;	  /* the last pass is under way */
	int status; /* of failures that cannot be mended */
	struct status_line line;
};

static inline uint64_t record_now_ns(void)
{
	return monotonic_now_ns();
}

/*
 * Drains the accounting of all processes once, and writes the snapshots. TRIGGER_END: only of processes that have
 * ended or are due.
 */
void record__pass(struct record *record, enum trigger trigger);

/* Writes the file for Prometheus. */
void record__tell_metrics(struct record *record);

/* Logs the notes of the collector and of the archive. */
void record__say_notes(struct record *record);

/* Logs one line. */
void record__say_failure(struct record *record, const struct reason *why);

void record__set_trouble(struct record *record, enum trouble trouble, bool is_there);

#endif
