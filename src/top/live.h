/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TOP_LIVE_H
#define ALLOCSNAP_TOP_LIVE_H

/*
 * The recording of `top` (record/recorder.h), in a thread of its own: the screen goes on while a snapshot is taken. The
 * recorder takes a snapshot only when it is asked, and only of the process that is shown. Signals reach the recorder as
 * in attach: SIGINT and SIGTERM end it.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "record/recorder.h"
#include "top/answer.h"

struct live {
	struct recorder recorder;
	struct recording_options options;
	pthread_t thread;
	bool is_started;
	uint64_t viewed_ns;

	pthread_mutex_t lock; /* of what follows */
	int event_fd;	      /* becomes readable when something of it has changed */
	pid_t wanted;	      /* the process that is shown; 0: none */
	struct top_process *process;
	size_t process_nr, process_alloc;
	char *path; /* a new snapshot of the wanted process; NULL: none */
	pid_t path_pid;
	uint64_t pass_nr; /* passes that are over */
	bool is_over, is_told_to_end;
};

/* Begins to record: the collector is open, its processes are started. Returns 0 or a negative errno. */
int live_start(struct live *live, const struct recording_options *options, struct collector *collector, int signal_fd);

/* Ends the recording, without last snapshots. Returns an exit status. */
int live_end(struct live *live);

/* Shows another process, or none (0). */
void live_show(struct live *live, pid_t pid);

/* Asks for a snapshot of the process that is shown. */
void live_ask_snapshot(struct live *live);

/* Forgets all recorded blocks. */
void live_clear_traces(struct live *live);

/* News that live_read() hands over. The caller frees path and process. */
struct live_news {
	struct top_process *process; /* all that are recorded now; NULL with process_nr 0: as before */
	size_t process_nr;
	char *path; /* of a snapshot of the process that is shown; NULL: none came */
	uint64_t pass_nr;
	bool is_over;
	bool is_told_to_end; /* by a signal */
};

void live_read(struct live *live, struct live_news *ret);

#endif
