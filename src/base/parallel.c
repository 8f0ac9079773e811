// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

unsigned int processor_nr(void)
{
	cpu_set_t set;
	int nr = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

	return nr > 1 ? nr : 1;
}

#define RUN_BY_MAX 63 /* threads beside the caller's */

struct job {
	void (*run)(void *part);
	void *part;
};

static void *run_parallel_job(void *job_)
{
	const struct job *job = job_;

	job->run(job->part);
	return NULL;
}

void run_both(void (*run)(void *part), void *a, void *b)
{
	struct job job = { run, b };
	pthread_t thread;
	bool is_started = !pthread_create(&thread, NULL, run_parallel_job, &job);

	run(a);
	if (is_started)
		pthread_join(thread, NULL);
	else
		run(b);
}

void run_by(unsigned int nr, void (*run)(void *what), void *what)
{
	struct job job = { run, what };
	pthread_t thread[RUN_BY_MAX];
	unsigned int started = 0;

	while (started + 1 < nr && started < RUN_BY_MAX &&
	       !pthread_create(&thread[started], NULL, run_parallel_job, &job))
		started++;
	run(what);
	while (started)
		pthread_join(thread[--started], NULL);
}

struct ordered_state {
	const struct ordered_work *work;
	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t moved; /* parts were taken */
	size_t begun_nr, taken_nr;
	bool is_made[ORDERED_PLACES];
	int err;
};

/* Waits for a place. False: there is nothing more to begin. */
static bool begin_part(struct ordered_state *state, size_t *ret_at)
{
	size_t nr = state->work->nr;
	bool is_begun;

	pthread_mutex_lock(&state->lock);
	while (!state->err && state->begun_nr < nr && state->begun_nr - state->taken_nr >= ORDERED_PLACES)
		pthread_cond_wait(&state->moved, &state->lock);
	is_begun = !state->err && state->begun_nr < nr;
	if (is_begun)
		*ret_at = state->begun_nr++;
	pthread_mutex_unlock(&state->lock);
	return is_begun;
}

/* Takes this part and those that waited for it, unless an earlier one is still being made. */
static void end_part(struct ordered_state *state, size_t at)
{
	const struct ordered_work *work = state->work;

	pthread_mutex_lock(&state->lock);
	state->is_made[at % ORDERED_PLACES] = true;
	while (state->is_made[state->taken_nr % ORDERED_PLACES]) {
		unsigned int place = state->taken_nr % ORDERED_PLACES;
		int err = work->take(work->what, state->taken_nr, place);

		state->err = state->err ?: err;
		state->is_made[place] = false;
		state->taken_nr++;
	}
	pthread_cond_broadcast(&state->moved);
	pthread_mutex_unlock(&state->lock);
}

static void make_parts(void *state_)
{
	struct ordered_state *state = state_;
	size_t at;

	while (begin_part(state, &at)) {
		state->work->make(state->work->what, at, at % ORDERED_PLACES);
		end_part(state, at);
	}
}

int ordered_work_run(const struct ordered_work *work, unsigned int thread_nr)
{
	struct ordered_state state = {
		.work = work, .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER,
	};

	run_by(thread_nr < ORDERED_PLACES ? thread_nr : ORDERED_PLACES, make_parts, &state);
	pthread_cond_destroy(&state.moved);
	pthread_mutex_destroy(&state.lock);
	return state.err;
}
