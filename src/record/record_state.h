/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_STATE_H
#define ALLOCSNAP_RECORD_STATE_H

/* A recording of everybody from inside: record.c says when, record_pass.c does what is due then. */

#include <time.h>

#include "shared/bpf_types.h"
#include "record/due.h"
#include "record/record.h"
#include "record/record_report.h"
#include "record/recording_show.h"
#include "record/last_share.h"
#include "record/notify.h"

#define SECOND_NS 1000000000ULL

/* Births and ends come in crowds: they are looked at together. */
#define LOOK_EVERY_NS (SECOND_NS / 20)

/* Snapshots that are made safe on the disk together; each has two files open. */
#define BATCH_MAX 64

struct reason;
struct snapshot_batch;

/* Whose snapshot it is. */
struct batched {
	pid_t pid;
	char comm[COMM_BYTES];
	bool is_last; /* the process has ended: there will be no other one */
};

/* What may fail for a time: that is the exit status only if it still does at the end. */
enum trouble {
	TROUBLE_ADMIT = 1,
	TROUBLE_DRAIN = 2,
	TROUBLE_SAVE = 4,
	TROUBLE_METRICS = 8, /* was said when it began */
};

struct record {
	const struct record_options *record_options;
	const struct recording_options *options;
	struct collector *collector;
	struct archive *archive;
	struct snapshot_batch *batch; /* written, and not safe on the disk yet */
	struct batched batched[BATCH_MAX]; /* what is in it */
	size_t batched_nr, told_nr; /* of these, whose end is known */
	uint64_t lost_nr; /* snapshots that could not be written */
	struct notify notify;
	struct record_report report;
	int signal_fd;
	uint64_t started_ns, looked_ns, admitted_ns, passed_ns, told_ns;
	uint64_t next_ns; /* the next interval */
	uint64_t passes;  /* of intervals */
	struct due due;
	struct last_share last_share;
	uint64_t due_again_ns; /* not before then they are looked for */
	unsigned int trouble; /* enum trouble: just now */
	bool is_fresh;	  /* snapshots of all have just been taken */
	bool stop;
	bool is_last;	  /* the pass under way is the last one */
	int status; /* of what cannot be made good */
	struct status_line line;
};

/* Of one clock, CLOCK_MONOTONIC or CLOCK_REALTIME. */
uint64_t record_time_ns(int clock);

static inline uint64_t now_ns(void)
{
	return record_time_ns(CLOCK_MONOTONIC);
}

/* One look at all books, and the snapshots that come of it; TRIGGER_END: of those that have ended, and those that are due. */
void record__pass(struct record *record, enum trigger trigger);

/* The file for Prometheus. */
void record__tell_metrics(struct record *record);

/* What the collector and the archive have to say. */
void record__say_notes(struct record *record);

/* One line. */
void record__say_failure(struct record *record, const struct reason *why);

void record__set_trouble(struct record *record, enum trouble trouble, bool is_there);

#endif
