// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "top/live.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/reason.h"
#include "collect.h"

#define VIEW_EVERY_NS (SECOND_NS / 2)

/* Snapshots are taken when they are asked for. */
#define NEVER_NS (UINT64_C(86400) * 365 * SECOND_NS)

static void wake_screen(struct live *live)
{
	uint64_t one = 1;

	while (write(live->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* ---- in the recorder's thread --------------------------------------------------------------- */

static struct top_process process_of_view(const struct process_view *view)
{
	struct top_process process = {
		.pid = view->pid,
		.bytes = view->memory.current_bytes,
		.blocks = view->memory.current_blocks,
		.peak_bytes = view->memory.peak_bytes,
		.rss_bytes = view->has_ended ? 0 : process_rss_bytes(view->pid),
		.cpu_ns = view->cpu_ns,
		.cost_ns = view->cost_ns,
		.recorded_ns = view->recorded_ns,
		.lost = view->lost,
		.cost_is_known = view->cost_is_known,
		.is_estimated = view->is_estimated,
		.is_paused = view->is_paused,
		.is_thinned = view->is_thinned,
		.has_ended = view->has_ended,
	};

	snprintf(process.comm, sizeof(process.comm), "%s", view->comm ?: "");
	return process;
}

static void copy_views(struct live *live)
{
	const struct collector *collector = live->recorder.collector;
	size_t nr = collector__process_nr(collector), at = 0;
	struct top_process *process = calloc(nr + 1, sizeof(*process));

	for (size_t i = 0; i < nr && process; i++) {
		struct process_view view;

		collector__view(collector, i, &view);
		if (!view.is_vforked && !view.is_empty)
			process[at++] = process_of_view(&view);
	}
	if (!process)
		return;
	pthread_mutex_lock(&live->lock);
	free(live->process);
	live->process = process;
	live->process_nr = at;
	pthread_mutex_unlock(&live->lock);
	wake_screen(live);
}

static void live_tick(void *live_)
{
	struct live *live = live_;
	uint64_t now_ns = monotonic_now_ns();

	if (now_ns < live->viewed_ns + VIEW_EVERY_NS)
		return;
	live->viewed_ns = now_ns;
	copy_views(live);
}

static bool live_wants(void *live_, const struct process_view *view)
{
	struct live *live = live_;
	bool wants;

	pthread_mutex_lock(&live->lock);
	wants = view->pid == live->wanted;
	pthread_mutex_unlock(&live->lock);
	return wants;
}

/* The screen may not have taken the one before: its file is not needed any more. */
static void live_saved(void *live_, const struct snapshot_owner *owner, const char *path)
{
	struct live *live = live_;
	char *copy = strdup(path);

	pthread_mutex_lock(&live->lock);
	if (live->path)
		unlink(live->path);
	free(live->path);
	live->path = copy;
	live->path_pid = owner->pid;
	pthread_mutex_unlock(&live->lock);
	if (!copy)
		unlink(path);
}

static void live_lost(void *live_, const struct snapshot_owner *owner, int err, const struct reason *why)
{
	(void)live_, (void)owner, (void)err;
	log_failure("%s", why->text);
}

static void live_end_pass(void *live_, const struct pass *pass)
{
	struct live *live = live_;

	(void)pass;
	copy_views(live);
	pthread_mutex_lock(&live->lock);
	live->pass_nr++;
	pthread_mutex_unlock(&live->lock);
	wake_screen(live);
}

static void *record_in_thread(void *live_)
{
	struct live *live = live_;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL); /* SIGWINCH and SIGTSTP are the screen's */
	recorder_admit(&live->recorder);
	copy_views(live);
	recorder_run(&live->recorder);
	pthread_mutex_lock(&live->lock);
	live->is_over = true;
	live->is_told_to_end = live->recorder.stop && !collector__is_blind(live->recorder.collector);
	pthread_mutex_unlock(&live->lock);
	wake_screen(live);
	return NULL;
}

/* ---- in the screen's thread ----------------------------------------------------------------- */

static const struct recorder_policy live_policy = {
	.clears_traces = true,
	.ends_at_once = true,
	.wants = live_wants,
	.end_pass = live_end_pass,
	.tick = live_tick,
	.saved = live_saved,
	.lost = live_lost,
};

int live_start(struct live *live, const struct recording_options *options, struct collector *collector, int signal_fd)
{
	int err;

	*live = (struct live){
		.options = *options,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	};
	if (live->event_fd < 0)
		return -errno;
	live->options.interval_ns = NEVER_NS;
	recorder_init(&live->recorder, &live->options, collector, signal_fd);
	live->recorder.policy = &live_policy;
	live->recorder.what = live;
	err = pthread_create(&live->thread, NULL, record_in_thread, live);
	live->is_started = !err;
	return -err;
}

int live_end(struct live *live)
{
	if (live->is_started) {
		kill(getpid(), SIGTERM); /* blocked in all threads: the recorder reads it from its descriptor */
		pthread_join(live->thread, NULL);
	}
	if (live->path)
		unlink(live->path);
	free(live->path);
	free(live->process);
	if (live->event_fd >= 0)
		close(live->event_fd);
	return live->recorder.past_trouble ? EXIT_FAILED : live->recorder.status;
}

void live_show(struct live *live, pid_t pid)
{
	pthread_mutex_lock(&live->lock);
	live->wanted = pid;
	pthread_mutex_unlock(&live->lock);
}

void live_ask_snapshot(struct live *live)
{
	(void)live;
	kill(getpid(), SIGUSR1);
}

void live_clear_traces(struct live *live)
{
	(void)live;
	kill(getpid(), SIGUSR2);
}

static void read_event(int fd)
{
	uint64_t nr;

	while (read(fd, &nr, sizeof(nr)) < 0 && errno == EINTR)
		;
}

/* A snapshot of a process that is no longer shown is not handed over. */
static void hand_over_path(struct live *live, struct live_news *ret)
{
	if (live->path && live->path_pid != live->wanted) {
		unlink(live->path);
		free(live->path);
		live->path = NULL;
	}
	ret->path = live->path;
	live->path = NULL;
}

void live_read(struct live *live, struct live_news *ret)
{
	read_event(live->event_fd);
	pthread_mutex_lock(&live->lock);
	*ret = (struct live_news){
		.process = live->process,
		.process_nr = live->process_nr,
		.pass_nr = live->pass_nr,
		.is_over = live->is_over,
		.is_told_to_end = live->is_told_to_end,
	};
	live->process = NULL;
	live->process_nr = 0;
	hand_over_path(live, ret);
	pthread_mutex_unlock(&live->lock);
}
