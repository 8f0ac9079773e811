// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "recording.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/reason.h"
#include "base/units.h"
#include "cmd.h"
#include "collect/collector.h"
#include "engine.h"
#include "render.h"
#include "snapshot.h"

#define SECOND_NS 1000000000ULL
#define TOP_AT_END 10

int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN); /* who reads our paths may go; the last snapshot is still due */
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* One of the collector's targets. */
struct recorded {
	char *last_path;
	bool is_done; /* it has ended and its last snapshot is written */
};

struct recording {
	const struct recording_options *options;
	struct collector *collector;
	struct recorded *recorded; /* of each of the collector's targets */
	size_t target_nr;
	int signal_fd;
	uint64_t started_ns, next_ns;
	uint64_t passes;
	bool has_status; /* a status line stands on the terminal */
	bool is_fresh;	 /* snapshots of all have just been taken */
	bool stop;
	bool is_mute; /* standard output does not take what we write */
	int status;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void clear_status(struct recording *recording)
{
	if (recording->has_status)
		fputs("\r\033[K", stderr);
	recording->has_status = false;
}

static int terminal_width(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

void say_notes(struct collector *collector)
{
	char *note;

	while ((note = collector__next_note(collector))) {
		say("%s", note);
		free(note);
	}
}

static void show_status(struct recording *recording)
{
	uint64_t bytes = 0, blocks = 0, allocations = 0, lost = 0;
	char size[UNIT_TEXT_MAX], comm[64] = "", line[256];
	struct target_view view = {};

	if (!isatty(STDERR_FILENO))
		return;
	for (size_t i = 0; i < recording->target_nr; i++) {
		if (collector__view(recording->collector, i, &view))
			continue;
		bytes += view.current_bytes;
		blocks += view.current_blocks;
		allocations += view.allocations;
		lost += view.lost;
	}
	clear_status(recording);
	if (recording->target_nr == 1)
		clean_text(comm, sizeof(comm), view.comm ?: "");
	else
		snprintf(comm, sizeof(comm), "%zu processes", recording->target_nr);
	snprintf(line, sizeof(line),
		 "recording %s: %s in %llu blocks, %llu allocations, %llu lost, %llu s [Ctrl-C ends]",
		 comm, format_size(size, bytes, false), (unsigned long long)blocks,
		 (unsigned long long)allocations, (unsigned long long)lost,
		 (unsigned long long)((now_ns() - recording->started_ns) / SECOND_NS));
	fprintf(stderr, "%.*s", terminal_width() - 1, line); /* a wrapped line can't be cleared */
	recording->has_status = true;
}

static void fail(struct recording *recording, const struct reason *why)
{
	clear_status(recording);
	recording->status = say_failure("%s", why->text);
}

/* A reader that went away (EPIPE) knows it; the snapshots are written either way. */
static void say_path(struct recording *recording, const char *path)
{
	int err;

	if (puts(path) >= 0 && !fflush(stdout))
		return;
	err = errno;
	clearerr(stdout);
	if (!recording->is_mute && err != EPIPE)
		say_failure("cannot write to standard output: %s; the snapshots go on",
			    strerror(err));
	recording->is_mute = true;
	recording->status = EXIT_FAILED;
}

static void save(struct recording *recording, size_t i)
{
	struct recorded *recorded = &recording->recorded[i];
	struct reason why = {};
	char *path;

	if (collector__save(recording->collector, i, recording->options->dir, &path, &why)) {
		fail(recording, &why);
		return;
	}
	clear_status(recording);
	say_path(recording, path);
	free(recorded->last_path);
	recorded->last_path = path;
}

static bool has_ended(const struct recording *recording, size_t i)
{
	struct target_view view;

	return !collector__view(recording->collector, i, &view) && view.has_ended;
}

/* There is no later chance for those: to try again would be to try for ever. */
static void give_up_ended(struct recording *recording)
{
	for (size_t i = 0; i < recording->target_nr; i++)
		recording->recorded[i].is_done |= has_ended(recording, i);
}

/* One pass over all books, and a snapshot of each process, or of those that have ended. */
static void take_snapshots(struct recording *recording, bool only_ended)
{
	struct reason why = {};

	if (collector__drain(recording->collector, &why)) {
		fail(recording, &why);
		give_up_ended(recording);
		return;
	}
	for (size_t i = 0; i < recording->target_nr; i++) {
		bool ended = has_ended(recording, i);

		if (recording->recorded[i].is_done || (only_ended && !ended))
			continue;
		save(recording, i);
		recording->recorded[i].is_done = ended;
	}
	if (only_ended)
		return;
	recording->is_fresh = true;
	if (++recording->passes == recording->options->count)
		recording->stop = true;
}

static bool all_done(const struct recording *recording)
{
	for (size_t i = 0; i < recording->target_nr; i++)
		if (!recording->recorded[i].is_done)
			return false;
	return true;
}

static uint64_t end_ns(const struct recording *recording)
{
	uint64_t duration_ns = recording->options->duration_ns;

	return duration_ns ? recording->started_ns + duration_ns : UINT64_MAX;
}

/* The terminal has told the child itself; what somebody sent us is meant for it. */
static void pass_on(pid_t child, const struct signalfd_siginfo *info)
{
	if (info->ssi_code <= 0)
		kill(child, info->ssi_signo);
}

void pass_signals_on(int signal_fd, pid_t child)
{
	struct pollfd fds[] = {
		{ .fd = signal_fd, .events = POLLIN },
		{ .fd = syscall(SYS_pidfd_open, child, 0), .events = POLLIN },
	};
	struct signalfd_siginfo info;

	while (fds[1].fd >= 0 && !fds[1].revents) {
		poll(fds, 2, -1);
		while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
			if (info.ssi_signo != SIGUSR1 && info.ssi_signo != SIGUSR2)
				pass_on(child, &info);
	}
	if (fds[1].fd >= 0)
		close(fds[1].fd);
}

static void clear_traces(struct recording *recording)
{
	for (size_t i = 0; i < recording->target_nr; i++) {
		int err = recording->recorded[i].is_done ? 0 :
			  collector__clear_traces(recording->collector, i);

		if (err && err != -ESRCH) /* it has just ended */
			recording->status = say_failure("cannot clear the traces: %s",
							strerror(-err));
	}
}

/* SIGUSR1 asks for a snapshot now, SIGUSR2 to clear the traces; the others for the last one. */
static void take_signals(struct recording *recording)
{
	struct signalfd_siginfo info;

	while (read(recording->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR1) {
			take_snapshots(recording, false);
			continue;
		}
		if (info.ssi_signo == SIGUSR2) {
			clear_traces(recording);
			continue;
		}
		if (recording->options->child) {
			pass_on(recording->options->child, &info);
			continue;
		}
		recording->stop = true;
		recording->is_fresh = false; /* the last one is of now */
	}
}

/* Sleeps until something is due or happens; a second at most. */
static void wait_for_events(const struct recording *recording)
{
	struct pollfd fds[1 + recording->target_nr];
	uint64_t now = now_ns(), due = now + SECOND_NS;
	struct target_view view;
	size_t nr = 0;

	due = recording->next_ns < due ? recording->next_ns : due;
	due = end_ns(recording) < due ? end_ns(recording) : due;
	fds[nr++] = (struct pollfd){ .fd = recording->signal_fd, .events = POLLIN };
	for (size_t i = 0; i < recording->target_nr; i++)
		if (!recording->recorded[i].is_done &&
		    !collector__view(recording->collector, i, &view))
			fds[nr++] = (struct pollfd){ .fd = view.pidfd, .events = POLLIN };
	poll(fds, nr, due > now ? (due - now + 999999) / 1000000 : 0);
}

static bool any_ended(const struct recording *recording)
{
	for (size_t i = 0; i < recording->target_nr; i++)
		if (!recording->recorded[i].is_done && has_ended(recording, i))
			return true;
	return false;
}

static void take_interval(struct recording *recording)
{
	uint64_t interval_ns = recording->options->interval_ns;

	take_snapshots(recording, false);
	recording->next_ns += interval_ns;
	if (recording->next_ns < now_ns()) /* slower than the interval: skip, do not pile up */
		recording->next_ns = now_ns() + interval_ns;
}

static void say_notes_between(struct recording *recording)
{
	char *note = collector__next_note(recording->collector);

	if (!note)
		return;
	clear_status(recording);
	say("%s", note);
	free(note);
	say_notes(recording->collector);
}

static void record(struct recording *recording)
{
	say_notes(recording->collector);
	recording->started_ns = now_ns();
	recording->next_ns = recording->started_ns + recording->options->interval_ns;
	while (!recording->stop && !all_done(recording)) {
		show_status(recording);
		wait_for_events(recording);
		collector__refresh(recording->collector);
		say_notes_between(recording);
		recording->is_fresh = false;
		take_signals(recording);
		if (now_ns() >= end_ns(recording))
			recording->stop = true;
		else if (!recording->stop && any_ended(recording))
			take_snapshots(recording, true);
		else if (!recording->stop && now_ns() >= recording->next_ns)
			take_interval(recording);
	}
	if (!recording->is_fresh && !all_done(recording))
		take_snapshots(recording, false);
	clear_status(recording);
	say_notes(recording->collector);
}

/* For who sits before it: where the memory is, without another command. */
static int show_top(const char *path)
{
	struct engine_options options = {};
	struct snapshot *snapshot = snapshot__open(path, NULL);
	const struct renderer *text = renderer_find("text", NULL);
	struct statistics *statistics = NULL;
	int err = snapshot ? snapshot_statistics(snapshot, &options, &statistics, NULL) : -errno;
	const struct snapshot *snapshots[] = { snapshot };
	struct report report = {
		.statistics = statistics,
		.snapshot = snapshots,
		.snapshot_nr = 1,
		.top = TOP_AT_END,
	};
	char *losses = err ? NULL : losses_line(snapshot);

	if (!err)
		err = text->report(stdout, &report);
	if (!err)
		err = render_traced(stdout, snapshot);
	if (losses)
		say("%s: %s", path, losses);
	free(losses);
	statistics_free(statistics);
	snapshot__close(snapshot);
	return err;
}

int record_until_told(const struct recording_options *options, struct collector *collector,
		      int signal_fd)
{
	struct recording recording = {
		.options = options,
		.collector = collector,
		.target_nr = collector__target_nr(collector),
		.signal_fd = signal_fd,
	};

	recording.recorded = calloc(recording.target_nr, sizeof(*recording.recorded));
	if (!recording.recorded)
		return say_failure("out of memory");
	record(&recording);
	for (size_t i = 0; i < recording.target_nr; i++) {
		char *path = recording.recorded[i].last_path;

		if (path && isatty(STDOUT_FILENO))
			show_top(path);
		free(path);
	}
	free(recording.recorded);
	return recording.status;
}
