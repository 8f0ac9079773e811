// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Samplers that the keeper takes out of processes. The processes are played here. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/reason.h"
#include "collect/inject/inject.h"

static int again_nr; /* how often a process cannot be stopped */
static int call_nr, sleep_nr;
static pid_t last_pid;

static int play_eject(pid_t pid, pid_t owner, struct eject_result *ret, struct reason *why)
{
	cr_assert_eq(owner, 0, "the keeper itself is the owner");
	call_nr++;
	last_pid = pid;
	if (again_nr-- > 0)
		return reason_set(why, -EAGAIN, "a thread does not stop");
	*ret = (struct eject_result){ .times.stopped_ns = 800000, .function_nr = 9, .kept_nr = 1 };
	return pid == 13 ? reason_set(why, -ESRCH, "it has ended") : 0;
}

static pid_t forked; /* has the sampler of its parent */

static int play_find(pid_t pid, struct inject_found *ret, struct reason *why)
{
	(void)why;
	*ret = (struct inject_found){ .is_active = true, .owner = pid == forked ? getpid() : 1 };
	return 0;
}

struct timespec;

static int play_sleep(const struct timespec *time, struct timespec *left)
{
	(void)time, (void)left;
	sleep_nr++;
	return 0;
}

#define inject_eject play_eject
#define inject_find play_find
#define nanosleep play_sleep
#include "collect/probe/kept_samplers.c"

Test(kept_samplers, are_ejected_with_patience)
{
	struct kept_samplers kept = {};
	struct link_holder_ejection ejection = { .what = KEEPER_ANSWER };

	again_nr = 3;
	cr_assert_eq(kept_samplers_add(&kept, 4711), 0);
	cr_assert_eq(kept_samplers_add(&kept, 4711), 0, "twice is once");
	kept_samplers_eject(&kept, 4711, &ejection);
	cr_expect_eq(call_nr, 4);
	cr_expect_eq(sleep_nr, 3);
	cr_expect_eq(ejection.what, KEEPER_ANSWER);
	cr_expect_eq(ejection.value, 0);
	cr_expect_eq(ejection.function_nr, 9);
	cr_expect_eq(ejection.kept_nr, 1);
	cr_expect_eq(ejection.stopped_ns, 800000);
	cr_expect_eq(kept.sampler_nr, 0, "it is still held");
	free(kept.sampler);
}

Test(kept_samplers, that_cannot_be_ejected_have_a_reason)
{
	struct kept_samplers kept = {};
	struct link_holder_ejection ejection = {};

	again_nr = 1000;
	cr_assert_eq(kept_samplers_add(&kept, 4711), 0);
	kept_samplers_eject(&kept, 4711, &ejection);
	cr_expect_eq(call_nr, TRIES);
	cr_expect_eq(ejection.value, -EAGAIN);
	cr_expect_str_eq(ejection.why.text, "a thread does not stop");
	free(kept.sampler);
}

Test(kept_samplers, go_all_at_the_end)
{
	struct kept_samplers kept = {};

	for (pid_t pid = 11; pid <= 14; pid++)
		cr_assert_eq(kept_samplers_add(&kept, pid), 0);
	kept_samplers_eject_all(&kept);
	cr_expect_eq(call_nr, 4);
	cr_expect_eq(last_pid, 12, "each takes the place of the one before");
	cr_expect_eq(kept.sampler_nr, 0);
	free(kept.sampler);
}

Test(kept_samplers, are_ejected_from_forked_children)
{
	struct kept_samplers kept = {};
	struct link_holder_ejection ejection = {};

	forked = fork();
	if (!forked) {
		pause();
		_exit(0);
	}
	cr_assert_gt(forked, 0);
	cr_assert_eq(kept_samplers_add(&kept, getpid()), 0);
	kept_samplers_eject(&kept, getpid(), &ejection);
	kill(forked, SIGKILL);
	waitpid(forked, NULL, 0);
	cr_expect_eq(call_nr, 2, "the process, and this one child of all that run its program");
	cr_expect_eq(last_pid, forked);
	cr_expect_eq(kept.sampler_nr, 0);
	free(kept.sampler);
}
