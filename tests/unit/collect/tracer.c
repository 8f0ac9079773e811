// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/inject/remote_call.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

struct outcome {
	pid_t pid, session;
	int wanted;
};

static int work(void *argument, void *ret_outcome)
{
	struct outcome *outcome = ret_outcome;

	outcome->pid = getpid();
	outcome->session = getsid(0);
	if (outcome->wanted)
		kill(getpid(), outcome->wanted);
	*(int *)argument = 7; /* of the child's own memory */
	return -EBUSY;
}

static struct outcome run(int wanted, int result)
{
	struct outcome outcome = { .wanted = wanted };
	int argument = 1;

	cr_assert_eq(run_as_tracer(work, &argument, &outcome, sizeof(outcome)), result);
	cr_assert_eq(argument, 1);
	cr_assert(outcome.pid && outcome.pid != getpid());
	return outcome;
}

Test(tracer, runs_in_a_child_with_a_session_of_its_own)
{
	struct outcome outcome = run(0, -EBUSY);

	cr_assert_eq(outcome.session, outcome.pid);
}

/* A child that is stopped cannot act on any other signal. */
Test(tracer, ends_when_it_is_stopped)
{
	run(SIGSTOP, -ETIMEDOUT);
}

Test(tracer, tells_what_a_killed_child_has_done)
{
	run(SIGKILL, -ETIMEDOUT);
}

Test(tracer, hears_no_signals_of_a_terminal)
{
	run(SIGTSTP, -EBUSY);
	run(SIGINT, -EBUSY);
	run(SIGTERM, -EBUSY);
}
