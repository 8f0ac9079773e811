/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_STATE_H
#define ALLOCSNAP_RECORD_STATE_H

/* A recording of everybody from inside: record.c says when, record_pass.c does what is due then. */

#include <time.h>

#include "due.h"
#include "record.h"
#include "record_report.h"
#include "recording_show.h"
#include "service/notify.h"

#define SECOND_NS 1000000000ULL

/* Births and ends come in crowds: they are looked at together. */
#define LOOK_EVERY_NS (SECOND_NS / 20)

struct reason;
struct snapshot_batch;

struct record {
	const struct record_options *record_options;
	const struct recording_options *options;
	struct collector *collector;
	struct archive *archive;
	struct snapshot_batch *batch; /* written, and not safe on the disk yet */
	struct notify notify;
	struct record_report report;
	int signal_fd;
	uint64_t started_ns, looked_ns, admitted_ns, passed_ns, told_ns;
	uint64_t next_ns; /* the next interval */
	uint64_t passes;  /* of intervals */
	struct due due;
	uint64_t due_again_ns; /* not before then they are looked for */
	bool is_mute;	  /* the file for Prometheus could not be written, and that was said */
	bool is_fresh;	  /* snapshots of all have just been taken */
	bool stop;
	int status;
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

/* One line, and the exit status. */
void record__fail(struct record *record, const struct reason *why);

#endif
