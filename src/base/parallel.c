// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

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
