// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/inject/tracer.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/reason.h"
#include "helper/helper.h"

struct tracer {
	int result;
	_Alignas(16) char outcome[];
};

/* A signal other than SIGKILL would wait until a stopped child goes on. */
static int limit_own_life(pid_t parent)
{
	struct sigevent end = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
	const struct itimerspec limit = {
		.it_value = { TRACER_LIMIT_NS / SECOND_NS, TRACER_LIMIT_NS % SECOND_NS },
	};
	timer_t timer;

	if (setsid() < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) || timer_create(CLOCK_MONOTONIC, &end, &timer) ||
	    timer_settime(timer, 0, &limit, NULL))
		return -errno;
	return getppid() == parent ? 0 : -ESRCH;
}

static void trace_and_exit(struct tracer *tracer, pid_t parent, int (*work)(void *argument, void *outcome), void *argument)
{
	int err = limit_own_life(parent);

	prctl(PR_SET_NAME, "allocsnap-trace");
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 }); /* if it may: threads wait for it */
	tracer->result = err ?: work(argument, tracer->outcome);
	_exit(0);
}

/* All signals stay blocked in the child: those of a terminal or a service manager are for the parent. */
static int run_in_child(struct tracer *tracer, int (*work)(void *argument, void *outcome), void *argument)
{
	pid_t parent = getpid(), pid = helper_fork();

	if (!pid)
		trace_and_exit(tracer, parent, work, argument);
	if (pid < 0)
		return -errno;
	helper_wait(pid); /* -ECHILD: it has ended, and this process ignores SIGCHLD */
	return tracer->result;
}

int run_as_tracer(int (*work)(void *argument, void *outcome), void *argument, void *outcome, size_t outcome_bytes)
{
	size_t bytes = sizeof(struct tracer) + outcome_bytes;
	struct tracer *tracer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int result;

	if (tracer == MAP_FAILED)
		return -ENOMEM;
	tracer->result = -ETIMEDOUT;
	if (outcome_bytes)
		memcpy(tracer->outcome, outcome, outcome_bytes);
	result = run_in_child(tracer, work, argument);
	if (outcome_bytes)
		memcpy(outcome, tracer->outcome, outcome_bytes);
	munmap(tracer, bytes);
	return result;
}

uint64_t tracer_has_ended(uint64_t lived_ns, struct reason *why)
{
	reason_set(why, -ETIMEDOUT, lived_ns < TRACER_LIMIT_NS ? "the process that stops its threads was killed" :
		   "it took more than a second while its threads stood still");
	return lived_ns;
}
