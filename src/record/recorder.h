/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_RECORDER_H
#define ALLOCSNAP_RECORD_RECORDER_H

/*
 * The loop of attach, run and record. It waits for events, signals and times, and takes snapshots in passes. A pass
 * over all processes comes each interval, on SIGUSR1 and at the end. A smaller pass takes the processes that have
 * ended or whose trigger is due. What the commands do differently is in struct recorder_policy.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "record/notify.h"
#include "record/recording.h"
#include "record/recording_show.h"
#include "shared/bpf_types.h"

struct reason;
struct snapshot_batch;

/*
 * Limits the time that `record` spends on the last snapshots of one user's processes: half of the time. Further ones
 * wait, so that no user delays the snapshots of other users by ending processes. Arithmetic only; all in nanoseconds.
 * Zeroed, apart from most_ns: no user has taken any time.
 */
struct last_share {
	uint64_t most_ns; /* the most that one user can take at once */
	uint64_t now_ns;  /* when last_share_advance() was called last */
	uint64_t taken_ns[USERS_MAX]; /* the time taken, less half of the time since */
};

/* Sets the limit of each user by the interval. */
void last_share_init(struct last_share *share, uint64_t interval_ns);

/* Moves the clock on. */
void last_share_advance(struct last_share *share, uint64_t now_ns);

bool last_share_allows(const struct last_share *share, uint32_t user);

void last_share_consume(struct last_share *share, uint32_t user, uint64_t ns);

/* In system-wide recording, processes start and end in crowds: one look at the events serves many of them. */
#define LOOK_EVERY_NS (SECOND_NS / 20)

/* Snapshots that are synced to the disk together; each has two files open. */
#define BATCH_MAX 64

/* The process of a snapshot. */
struct snapshot_owner {
	pid_t pid;
	char comm[COMM_BYTES];
	bool is_last; /* the process has ended: there will be no other snapshot of it */
	uint64_t cpu_ns, cost_ns, recorded_ns; /* as in struct process_view */
	bool cost_is_known;
};

/* A pass that is over. */
struct pass {
	enum trigger trigger; /* TRIGGER_END: only of processes that have ended or were due */
	uint64_t begun_ns;
	uint64_t saved_nr, lost_nr;
};

/* Failures that may pass. */
enum trouble {
	TROUBLE_ADMIT = 1,
	TROUBLE_DRAIN = 2,
	TROUBLE_SAVE = 4,
	TROUBLE_METRICS = 8, /* logged when it begins */
};

/* Each function gets the recorder's `what`. Those that may be NULL are marked. */
struct recorder_policy {
	bool clears_traces; /* on SIGUSR2; otherwise it does nothing */

	/* A signal ends a pass, and the last pass then takes all snapshots; a second signal or a minute ends that. */
	bool is_hasty;

	bool ends_at_once; /* without last snapshots */

	/* Whether a pass takes a snapshot of the process; NULL: of all. */
	bool (*wants)(void *what, const struct process_view *view);

	status_format_fn format_status;
	void (*begin_pass)(void *what); /* or NULL */
	void (*end_pass)(void *what, const struct pass *pass);
	void (*tick)(void *what); /* or NULL: after each look at events, at least once a second */
	void (*saved)(void *what, const struct snapshot_owner *owner, const char *path);
	void (*lost)(void *what, const struct snapshot_owner *owner, int err, const struct reason *why);
};

/* Zero is the default, except for the first members and notify. */
struct recorder {
	const struct recorder_policy *policy;
	void *what;
	const struct recording_options *options;
	struct collector *collector;
	int signal_fd;
	uint64_t started_ns;
	struct notify notify;
	struct snapshot_batch *batch; /* written, but not safe on the disk yet; NULL: each is safe at once */

	struct snapshot_owner batched[BATCH_MAX]; /* one for each snapshot in the batch */
	size_t batched_nr, told_nr; /* told_nr: how many of them are known to be safe or lost */
	uint64_t saved_nr, lost_nr; /* lost_nr: snapshots that could not be written */
	uint64_t unwritten_nr; /* lost since the disk became full, or failed otherwise; 0: it does not */
	int write_err;	       /* why the last one of them could not be written */
	uint64_t drain_nr, drain_ns, last_pass_wall_ns;
	uint64_t looked_ns, admitted_ns, passed_ns;
	uint64_t next_ns; /* when the next interval is due */
	uint64_t passes;  /* counted for options->count: over all processes */
	struct due_process {
		pid_t pid;
		enum trigger trigger;
	} *due; /* the processes whose triggers ask for a snapshot */
	size_t due_nr, due_alloc;
	bool is_look_due;	/* triggers must be looked at again, even if nothing happens */
	uint64_t look_again_ns; /* triggers are not looked at before then */
	struct last_share last_share;
	bool is_drain_due; /* ended processes wait for their last snapshots */
	bool is_fresh;	   /* snapshots of all processes have just been taken */
	bool stop;
	bool is_last;	   /* the last pass is under way */
	unsigned int trouble, past_trouble; /* enum trouble: present failures; all that ever were */
	int status;	   /* of failures that cannot be mended */
};

/*
 * Sets the members that all recorders have; the others are zero, and notify is closed. The caller keeps options and
 * collector, and sets policy and what.
 */
void recorder_init(struct recorder *recorder, const struct recording_options *options, struct collector *collector,
		   int signal_fd);

/* Records until the options, a signal or the end of all processes stops it. Logs failures and goes on if it can. */
void recorder_run(struct recorder *recorder);

/* System-wide: begins to record processes that the filter lets in for another reason than fork and exec. */
void recorder_admit(struct recorder *recorder);

/*
 * Report a time in which snapshots cannot be written: when it begins, when the error changes, and after a pass that
 * wrote snapshots and in which none failed. So one process with a broken folder is not reported again and again.
 */
void recorder_log_lost(struct recorder *recorder, int err, const struct reason *why);
void recorder_log_written_again(struct recorder *recorder, const struct pass *pass);

/* Logs the collector's notes. */
void log_collector_notes(struct collector *collector);

/* The resident memory of a process; 0: it cannot be read. */
uint64_t process_rss_bytes(pid_t pid);

void recorder_set_trouble(struct recorder *recorder, enum trouble trouble, bool is_there);

#endif
