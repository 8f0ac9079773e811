// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "top/viewer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"

/* A snapshot and its answer take a fifth of the time at most. */
#define PAUSE_SHARE 4

/* Growth of processes is measured over one to two of these. */
#define RATE_STEP_NS (30 * SECOND_NS)

/* ---- facts of processes --------------------------------------------------------------------- */

static void set_process_rate(struct top_process *process, const struct top_process *before, uint64_t now_ns)
{
	bool is_known = before && before->older.ns;

	process->older = is_known ? before->older : (struct top_moment){ process->bytes, now_ns };
	process->newer = is_known ? before->newer : process->older;
	if (now_ns - process->newer.ns >= RATE_STEP_NS) {
		process->older = process->newer;
		process->newer = (struct top_moment){ process->bytes, now_ns };
	}
	process->has_rate = now_ns > process->older.ns + SECOND_NS;
	if (process->has_rate)
		process->bytes_per_s = ((double)process->bytes - process->older.bytes) * 1e9 / (now_ns - process->older.ns);
}

static const struct top_process *find_process_by_pid(const struct top_process *process, size_t nr, int64_t pid)
{
	for (size_t i = 0; i < nr; i++)
		if (process[i].pid == pid)
			return &process[i];
	return NULL;
}

/* Memory is as of the snapshot, as the rows are. Costs, and whether it goes on, are as of now. */
static void refresh_shown(struct viewer *viewer)
{
	struct top_model *model = &viewer->model;
	const struct top_process *now = find_process_by_pid(model->process, model->process_nr, viewer->opened);
	struct top_process *shown = model->answer ? &model->answer->process : NULL;

	if (!now || !shown)
		return;
	shown->has_ended = now->has_ended;
	shown->is_paused = now->is_paused;
	shown->is_thinned = now->is_thinned;
	if (!now->recorded_ns)
		return;
	shown->cost_is_known = now->cost_is_known;
	shown->cost_ns = now->cost_ns;
	shown->cpu_ns = now->cpu_ns;
	shown->recorded_ns = now->recorded_ns;
}

/* Processes that are no longer recorded have ended: those that were named stay in the list. */
static void keep_ended(struct viewer *viewer, struct live_news *news)
{
	struct top_model *model = &viewer->model;
	size_t nr = news->process_nr;
	struct top_process *all = reallocarray(news->process, nr + model->process_nr + 1, sizeof(*all));

	if (!all)
		return;
	news->process = all;
	for (size_t i = 0; i < model->process_nr; i++) {
		bool stays = !model->is_system || model->process[i].pid == viewer->opened;

		if (!stays || find_process_by_pid(all, nr, model->process[i].pid))
			continue;
		all[news->process_nr] = model->process[i];
		all[news->process_nr++].has_ended = true;
	}
}

static void take_processes(struct viewer *viewer, struct live_news *news)
{
	struct top_model *model = &viewer->model;

	if (!news->process)
		return;
	for (size_t i = 0; i < news->process_nr; i++)
		set_process_rate(&news->process[i],
				 find_process_by_pid(model->process, model->process_nr, news->process[i].pid), model->now_ns);
	keep_ended(viewer, news);
	free(model->process);
	model->process = news->process;
	model->process_nr = model->process_alloc = news->process_nr;
	top_model_sort_processes(model);
	refresh_shown(viewer);
}

static uint64_t own_cpu_time_ns(void)
{
	return clock_now_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* CPU time of this program, of the last seconds. Its helper processes sleep while nothing new is mapped. */
static void measure_own_share(struct viewer *viewer)
{
	uint64_t now_ns = viewer->model.now_ns, cpu_ns;

	if (now_ns < viewer->own_at_ns + 3 * SECOND_NS)
		return;
	cpu_ns = own_cpu_time_ns();
	viewer->model.own_share = (double)(cpu_ns - viewer->own_cpu_ns) / (now_ns - viewer->own_at_ns);
	viewer->own_cpu_ns = cpu_ns;
	viewer->own_at_ns = now_ns;
}

/* ---- news ----------------------------------------------------------------------------------- */

static void hand_in_snapshot(struct viewer *viewer, char *path)
{
	if (viewer->added)
		unlink(viewer->added);
	free(viewer->added);
	viewer->added = path;
}

/* The next snapshot is due after as long as this one allows: it costs the process something, and others wait for it. */
static void end_asking(struct viewer *viewer)
{
	uint64_t now_ns = monotonic_now_ns(), wait_ns = (now_ns - viewer->model.asked_ns) * PAUSE_SHARE;
	uint64_t least_ns = viewer->options->interval_ns;

	if (!viewer->model.is_asked)
		return;
	viewer->next_ask_ns = now_ns + (wait_ns > least_ns ? wait_ns : least_ns);
	viewer->model.is_asked = false;
}

/* The recording may have ended by itself: the process has ended, or a signal has come. */
static void take_news(struct viewer *viewer)
{
	bool is_busy = viewer->analyst.is_running;
	struct live_news news;

	live_read(viewer->options->live, &news);
	take_processes(viewer, &news);
	if (news.path)
		hand_in_snapshot(viewer, news.path);
	else if (news.pass_nr != viewer->passes_before && !is_busy && !viewer->added)
		end_asking(viewer); /* it failed, or there was nothing to save */
	viewer->model.is_over = news.is_over;
	viewer->stop |= news.is_told_to_end;
}

/* A question that is under way is about another process. */
static void forget_opened(struct viewer *viewer)
{
	analyst_stop(&viewer->analyst);
	analyst_forget(&viewer->analyst);
	top_model_set_answer(&viewer->model, NULL);
	hand_in_snapshot(viewer, NULL);
	viewer->model.is_asked = false;
	viewer->next_ask_ns = 0;
	viewer->opened = 0;
}

/* Nothing can be shown of a process of files: the list stays, if there is one. */
static void give_up_opened(struct viewer *viewer)
{
	viewer->has_failed = true;
	if (viewer->options->live)
		return;
	forget_opened(viewer);
	viewer->model.page = TOP_PAGE_PROCESSES;
	viewer->stop |= !viewer->model.has_list;
}

static void take_answer(struct viewer *viewer)
{
	struct top_model *model = &viewer->model;
	struct top_answer *answer = NULL;
	int err = analyst_wait(&viewer->analyst, &answer) ?: top_model_set_answer(model, answer);

	if (!err) {
		viewer->answer_nr++;
		viewer->has_failed &= !viewer->options->live; /* the next snapshot may be better */
	} else if (model->answer) {
		top_model_say(model, "%s", viewer->analyst.why.text);
	} else {
		log_failure("%s", viewer->analyst.why.text);
	}
	if (!viewer->added)
		end_asking(viewer);
	refresh_shown(viewer);
	if (err && !model->answer)
		give_up_opened(viewer);
}

/* ---- what is due ---------------------------------------------------------------------------- */

static void ask_question(struct viewer *viewer)
{
	struct top_model *model = &viewer->model;
	const struct top_row *row = model->page == TOP_PAGE_OPENED ? top_model_row(model) : NULL;
	const struct top_question question = {
		.engine = viewer->options->engine,
		.key_type = model->key_type,
		.open = row ? row->identity : NULL,
	};
	bool has_snapshots = viewer->added || viewer->analyst.newest || viewer->analyst.series.recording.times.snapshot_nr;
	int err = has_snapshots ? analyst_ask(&viewer->analyst, &question, viewer->added) : 0;

	if (!err) {
		viewer->is_question_new = false;
		free(viewer->added);
		viewer->added = NULL;
	} else if (model->answer) {
		top_model_say(model, "cannot start a thread: %s", strerror(-err));
	} else {
		log_failure("cannot start a thread: %s", strerror(-err));
		give_up_opened(viewer);
	}
}

/* Whether a snapshot will be due sometime, if nothing happens. */
static bool waits_for_snapshot(const struct viewer *viewer)
{
	const struct top_model *model = &viewer->model;
	bool has_ended = model->answer && model->answer->process.has_ended;

	return viewer->options->live && viewer->opened && !has_ended && !model->is_paused && !model->is_over &&
	       !model->is_asked && !viewer->added && !viewer->analyst.is_running;
}

static void ask_snapshot(struct viewer *viewer)
{
	struct live *live = viewer->options->live;

	pthread_mutex_lock(&live->lock);
	viewer->passes_before = live->pass_nr;
	pthread_mutex_unlock(&live->lock);
	viewer->model.is_asked = true;
	viewer->model.asked_ns = viewer->model.now_ns;
	live_ask_snapshot(live);
}

static void do_due_things(struct viewer *viewer)
{
	viewer->model.now_ns = monotonic_now_ns();
	measure_own_share(viewer);
	if (!viewer->analyst.is_running && (viewer->added || viewer->is_question_new))
		ask_question(viewer);
	if (waits_for_snapshot(viewer) && viewer->model.now_ns >= viewer->next_ask_ns)
		ask_snapshot(viewer);
}

static bool is_told_to_stop(int signal_fd)
{
	struct signalfd_siginfo info;
	bool is_told = false;

	while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
		is_told |= info.ssi_signo != SIGUSR1 && info.ssi_signo != SIGUSR2;
	return is_told;
}

/* A second at most: the clock goes on. */
static int poll_timeout_ms(const struct viewer *viewer)
{
	uint64_t now_ns = monotonic_now_ns();

	if (!waits_for_snapshot(viewer) || viewer->next_ask_ns > now_ns + SECOND_NS)
		return 1000;
	return viewer->next_ask_ns > now_ns ? (viewer->next_ask_ns - now_ns) / 1000000 + 1 : 0;
}

bool viewer_step(struct viewer *viewer, int key_fd, int note_fd)
{
	const struct viewer_options *options = viewer->options;
	bool is_recorded = options->live && !viewer->model.is_over; /* then the recorder reads the signals */
	struct pollfd fds[] = {
		{ .fd = key_fd, .events = POLLIN },
		{ .fd = note_fd, .events = POLLIN },
		{ .fd = viewer->analyst.event_fd, .events = POLLIN },
		{ .fd = is_recorded ? options->live->event_fd : options->signal_fd, .events = POLLIN },
	};

	do_due_things(viewer);
	if (poll(fds, ARRAY_SIZE(fds), poll_timeout_ms(viewer)) < 0 && errno != EINTR) {
		log_failure("cannot wait: %s", strerror(errno));
		viewer->stop = viewer->has_failed = true;
	}
	viewer->model.now_ns = monotonic_now_ns();
	if ((fds[2].revents && viewer->analyst.is_running) || analyst_has_ended(&viewer->analyst))
		take_answer(viewer);
	if (fds[3].revents && is_recorded)
		take_news(viewer);
	else if (fds[3].revents)
		viewer->stop |= is_told_to_stop(options->signal_fd);
	viewer->stop |= fds[0].revents & (POLLHUP | POLLERR | POLLNVAL);
	do_due_things(viewer);
	return fds[0].revents;
}

/* ---- actions -------------------------------------------------------------------------------- */

static void viewer_open_process(struct viewer *viewer)
{
	const struct viewer_options *options = viewer->options;
	const struct top_process *process = top_model_process(&viewer->model);

	forget_opened(viewer);
	if (!process)
		return;
	viewer->opened = process->pid ?: 1;
	if (options->live) {
		live_show(options->live, viewer->opened);
		return;
	}
	if (options->open_series(options->what, process, &viewer->analyst.series.recording))
		give_up_opened(viewer);
	else
		viewer->is_question_new = true;
}

static void viewer_close_process(struct viewer *viewer)
{
	if (viewer->options->live)
		live_show(viewer->options->live, 0);
	forget_opened(viewer);
}

static void save_shown(struct viewer *viewer)
{
	const char *path = top_series_last_path(&viewer->analyst.series);
	struct reason text = {};

	if (viewer->analyst.is_running || !path)
		top_model_say(&viewer->model, path ? "busy with the next snapshot: again, please" : "there is no snapshot yet");
	else if (viewer->options->save(viewer->options->what, path, &text))
		top_model_say(&viewer->model, "not saved: %s", text.text);
	else
		top_model_say(&viewer->model, "saved %s", text.text);
}

void viewer_act(struct viewer *viewer, enum top_action action)
{
	switch (action) {
	case TOP_ACTION_QUIT:
		viewer->stop = true;
		break;
	case TOP_ACTION_ASK:
		viewer->is_question_new = true;
		break;
	case TOP_ACTION_OPEN_PROCESS:
		viewer_open_process(viewer);
		break;
	case TOP_ACTION_CLOSE_PROCESS:
		viewer_close_process(viewer);
		break;
	case TOP_ACTION_RESET:
		live_clear_traces(viewer->options->live);
		viewer->next_ask_ns = viewer->model.now_ns;
		top_model_say(&viewer->model, "all recorded blocks are forgotten");
		break;
	case TOP_ACTION_SAVE:
		save_shown(viewer);
		break;
	case TOP_ACTION_NONE:
		break;
	}
}

/* ---- life ----------------------------------------------------------------------------------- */

int viewer_init(struct viewer *viewer, const struct viewer_options *options, const struct top_model *model)
{
	int err;

	*viewer = (struct viewer){ .options = options, .model = *model };
	err = analyst_init(&viewer->analyst);
	viewer->analyst.has_whole_window = !options->live;
	viewer->model.own_share = -1;
	viewer->own_at_ns = viewer->model.now_ns = monotonic_now_ns();
	viewer->own_cpu_ns = own_cpu_time_ns();
	if (!err && !model->has_list)
		viewer_open_process(viewer);
	return err;
}

void viewer_release(struct viewer *viewer)
{
	analyst_stop(&viewer->analyst);
	if (!viewer->options->live) /* the series is its owner's */
		viewer->analyst.series.recording = (struct leak_recording){};
	analyst_release(&viewer->analyst);
	hand_in_snapshot(viewer, NULL);
	top_model_release(&viewer->model);
}
