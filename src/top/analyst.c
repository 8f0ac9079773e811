// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "top/analyst.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "engine/leak_report.h"
#include "snapshot.h"

/* ---- the series of snapshots ---- */

static struct snapshot *open_point(void *series_, uint32_t at, struct reason *why)
{
	const struct top_series *series = series_;

	return snapshot__open(series->point[at].path, why);
}

static void remove_point(struct top_series *series, size_t at)
{
	unlink(series->point[at].path);
	free(series->point[at].path);
	series->point_nr--;
	memmove(&series->point[at], &series->point[at + 1], (series->point_nr - at) * sizeof(*series->point));
}

/* Removes the one that is nearest to its neighbours in time; the first and the last stay. */
static void thin_points(struct top_series *series)
{
	const struct series_point *point = series->point;
	size_t nearest = 1;

	if (series->point_nr <= SERIES_MOST)
		return;
	for (size_t i = 1; i + 1 < series->point_nr; i++)
		if (point[i + 1].now_ns - point[i - 1].now_ns < point[nearest + 1].now_ns - point[nearest - 1].now_ns)
			nearest = i;
	remove_point(series, nearest);
}

/* Older snapshots have other blocks. What is observed begins with the last of them. */
static void series_begin_anew(struct top_series *series)
{
	struct leak_times *times = &series->recording.times;

	times->begin_ns = series->point[series->point_nr - 1].now_ns;
	times->is_part = true;
	while (series->point_nr)
		remove_point(series, 0);
}

static int set_series_times(struct top_series *series)
{
	uint64_t *now_ns = reallocarray(series->now_ns, series->point_nr, sizeof(*now_ns));

	if (!now_ns)
		return -ENOMEM;
	series->now_ns = now_ns;
	for (size_t i = 0; i < series->point_nr; i++)
		now_ns[i] = series->point[i].now_ns;
	series->recording.times.now_ns = now_ns;
	series->recording.times.snapshot_nr = series->point_nr;
	series->recording.open = open_point;
	series->recording.what = series;
	return 0;
}

int top_series_add(struct top_series *series, const char *path, const struct snapshot *snapshot)
{
	struct series_point point = { .now_ns = snapshot__metadata_u64(snapshot, "monotonic_ns", 0) };
	uint64_t clears = snapshot__metadata_u64(snapshot, "clear_count", 0);
	uint64_t execs = snapshot__metadata_u64(snapshot, "exec_count", 0);

	if (series->point_nr && (clears != series->clears || execs != series->execs))
		series_begin_anew(series);
	else if (!series->point_nr)
		series->recording.times.begin_ns =
			snapshot__metadata_u64(snapshot, "recording_start_monotonic_ns", point.now_ns);
	series->clears = clears;
	series->execs = execs;
	point.path = strdup(path);
	if (!point.path || array_push(series, point, point)) {
		free(point.path);
		return -ENOMEM;
	}
	thin_points(series);
	return set_series_times(series);
}

uint32_t top_series_find_base(const struct top_series *series, uint64_t window_ns)
{
	const struct leak_times *times = &series->recording.times;
	uint64_t last_ns = times->snapshot_nr ? times->now_ns[times->snapshot_nr - 1] : 0;
	uint32_t at = 0;

	while (at + 1 < times->snapshot_nr && times->now_ns[at + 1] + window_ns <= last_ns)
		at++;
	return at;
}

const char *top_series_last_path(const struct top_series *series)
{
	return series->point_nr ? series->point[series->point_nr - 1].path : NULL;
}

void top_series_remove(struct top_series *series)
{
	while (series->point_nr)
		remove_point(series, series->point_nr - 1);
	free(series->point);
	free(series->now_ns);
	*series = (struct top_series){};
}

/* ---- when to judge ---- */

/* Earlier there are no verdicts: everything is new then. As leaks --for, which wants four seconds. */
#define JUDGE_FROM_NS (4 * SECOND_NS)
#define JUDGE_EVERY_NS (4 * SECOND_NS)

/* Verdicts take a tenth of the time at most. */
#define JUDGE_SHARE 10

int analyst_init(struct analyst *analyst)
{
	analyst->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return analyst->event_fd < 0 ? -errno : 0;
}

/* ---- in the thread -------------------------------------------------------------------------- */

/* Opens the last snapshot of the series, after adding one to it. */
static int open_newest(struct analyst *analyst)
{
	struct top_series *series = &analyst->series;
	struct snapshot *newest;
	int err = 0;

	if (!analyst->added && analyst->newest)
		return 0;
	if (analyst->added) {
		newest = snapshot__open(analyst->added, &analyst->why);
		err = newest ? top_series_add(series, analyst->added, newest) : -errno;
	} else {
		newest = series->recording.open(series->recording.what, series->recording.times.snapshot_nr - 1,
						&analyst->why);
		err = newest ? 0 : -errno;
	}
	if (err) {
		snapshot__close(newest);
		return err;
	}
	snapshot__close(analyst->newest);
	analyst->newest = newest;
	return 0;
}

static bool is_verdict_due(const struct analyst *analyst)
{
	const struct leak_times *times = &analyst->series.recording.times;
	uint64_t last_ns = times->snapshot_nr ? times->now_ns[times->snapshot_nr - 1] : 0;
	uint64_t wait_ns = analyst->judge_took_ns * JUDGE_SHARE;

	if (analyst->unjudgeable || last_ns <= times->begin_ns || last_ns - times->begin_ns < JUDGE_FROM_NS)
		return false;
	if (!analyst->leaks)
		return true;
	return analyst->added && last_ns >= analyst->judged_ns + (wait_ns > JUDGE_EVERY_NS ? wait_ns : JUDGE_EVERY_NS);
}

/* Verdicts from before the series began anew are about other blocks, and do not count. */
static void drop_old_verdicts(struct analyst *analyst)
{
	const struct leak_times *times = &analyst->series.recording.times;

	if (!analyst->leaks || !times->snapshot_nr || times->begin_ns < analyst->judged_ns)
		return;
	leaks_free(analyst->leaks);
	analyst->leaks = NULL;
}

/* A question that cannot be judged is not asked again. */
static void judge_if_due(struct analyst *analyst)
{
	uint64_t begun_ns = monotonic_now_ns();
	struct leaks *leaks = NULL;
	struct reason why = { "out of memory" };
	const struct leak_times *times = &analyst->series.recording.times;

	if (!is_verdict_due(analyst))
		return;
	if (leaks_find(&analyst->series.recording, analyst->question.engine, &leaks, &why)) {
		analyst->unjudgeable = strdup(why.text);
		return;
	}
	leaks_free(analyst->leaks);
	analyst->leaks = leaks;
	analyst->judged_ns = times->now_ns[times->snapshot_nr - 1];
	analyst->judge_took_ns = monotonic_now_ns() - begun_ns;
}

/* NULL: the series has no older snapshot, or it cannot be read any more. */
static struct snapshot *open_base(const struct analyst *analyst)
{
	const struct top_series *series = &analyst->series;
	uint32_t nr = series->recording.times.snapshot_nr;

	if (nr < 2)
		return NULL;
	return series->recording.open(series->recording.what,
				      analyst->has_whole_window ? 0 : top_series_find_base(series, TOP_WINDOW_NS), NULL);
}

static int make_answer(struct analyst *analyst)
{
	const struct top_question *question = &analyst->question;
	struct snapshot *base;
	int err = open_newest(analyst);

	if (err)
		return err;
	drop_old_verdicts(analyst);
	judge_if_due(analyst);
	base = open_base(analyst);
	err = top_answer_make(question, base, analyst->newest, &analyst->answer, &analyst->why);
	snapshot__close(base);
	if (!err && analyst->leaks)
		err = top_answer_judge(analyst->answer, analyst->leaks);
	if (!err && analyst->unjudgeable) {
		analyst->answer->unjudged = strdup(analyst->unjudgeable);
		err = analyst->answer->unjudged ? 0 : -ENOMEM;
	}
	if (!err && question->open)
		err = top_answer_open(analyst->answer, question, analyst->newest, &analyst->why);
	return err;
}

static void *answer_in_thread(void *analyst_)
{
	struct analyst *analyst = analyst_;
	uint64_t one = 1;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL); /* SIGWINCH and SIGTSTP are the screen's */
	analyst->err = make_answer(analyst);
	if (write(analyst->event_fd, &one, sizeof(one)) != sizeof(one))
		analyst->err = analyst->err ?: -EIO; /* an eventfd takes it */
	__atomic_store_n(&analyst->has_ended, true, __ATOMIC_RELEASE);
	return NULL;
}

/* ---- outside the thread --------------------------------------------------------------------- */

static void free_question(struct analyst *analyst)
{
	free(analyst->added);
	free(analyst->open);
	analyst->added = analyst->open = NULL;
}

int analyst_ask(struct analyst *analyst, const struct top_question *question, const char *added)
{
	int err = 0;

	analyst->question = *question;
	analyst->added = added ? strdup(added) : NULL;
	analyst->open = question->open ? strdup(question->open) : NULL;
	if ((added && !analyst->added) || (question->open && !analyst->open))
		err = ENOMEM;
	analyst->question.open = analyst->open;
	analyst->answer = NULL;
	analyst->has_ended = false;
	analyst->why = (struct reason){ "out of memory" };
	err = err ?: pthread_create(&analyst->thread, NULL, answer_in_thread, analyst);
	analyst->is_running = !err;
	if (err)
		free_question(analyst);
	return -err;
}

bool analyst_has_ended(const struct analyst *analyst)
{
	return analyst->is_running && __atomic_load_n(&analyst->has_ended, __ATOMIC_ACQUIRE);
}

int analyst_wait(struct analyst *analyst, struct top_answer **ret)
{
	uint64_t nr;

	pthread_join(analyst->thread, NULL);
	analyst->is_running = false;
	if (read(analyst->event_fd, &nr, sizeof(nr)) != sizeof(nr) && errno != EAGAIN)
		analyst->err = analyst->err ?: -errno;
	free_question(analyst);
	if (analyst->err) {
		top_answer_free(analyst->answer);
		analyst->answer = NULL;
		return analyst->err;
	}
	*ret = analyst->answer;
	analyst->answer = NULL;
	return 0;
}

void analyst_forget(struct analyst *analyst)
{
	top_series_remove(&analyst->series);
	snapshot__close(analyst->newest);
	leaks_free(analyst->leaks);
	free(analyst->unjudgeable);
	analyst->newest = NULL;
	analyst->leaks = NULL;
	analyst->unjudgeable = NULL;
	analyst->judged_ns = analyst->judge_took_ns = 0;
}

void analyst_stop(struct analyst *analyst)
{
	struct top_answer *answer;

	if (analyst->is_running && !analyst_wait(analyst, &answer))
		top_answer_free(answer);
}

void analyst_release(struct analyst *analyst)
{
	analyst_stop(analyst);
	analyst_forget(analyst);
	if (analyst->event_fd >= 0)
		close(analyst->event_fd);
}
