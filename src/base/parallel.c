// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>

bool has_two_processors(void)
{
	cpu_set_t set;

	return !sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) > 1;
}

struct job {
	void (*run)(void *part);
	void *part;
};

static void *start(void *job_)
{
	const struct job *job = job_;

	job->run(job->part);
	return NULL;
}

void run_both(void (*run)(void *part), void *a, void *b)
{
	struct job job = { run, b };
	pthread_t thread;
	bool is_started = !pthread_create(&thread, NULL, start, &job);

	run(a);
	if (is_started)
		pthread_join(thread, NULL);
	else
		run(b);
}
