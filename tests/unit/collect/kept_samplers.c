// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Samplers that the link holder takes out of processes. The processes and the time are played here. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reason.h"
#include "inject/inject.h"

#define MS UINT64_C(1000000)

static const struct inject_file ours = { 0x7f0000000000, 1, 4711 };

static uint64_t now_ns = 1000 * SECOND_NS;
static pid_t stubborn[2];	 /* cannot be stopped, ever */
static pid_t forked;		 /* has the file of its parent */
static bool is_forked_out;	 /* it has lost it */
static pid_t ejected[256];
static unsigned int ejected_nr;
static int again_nr; /* how often any process cannot be stopped */

static uint64_t play_now(void)
{
	return now_ns;
}

static int play_eject(pid_t pid, pid_t owner, uint64_t until_ns, struct eject_result *ret, struct reason *why)
{
	cr_assert_eq(owner, 0, "the link holder itself is the owner");
	if (ejected_nr < sizeof(ejected) / sizeof(*ejected))
		ejected[ejected_nr++] = pid;
	if (pid == stubborn[0] || pid == stubborn[1])
		now_ns = until_ns > now_ns ? until_ns : now_ns + 700 * MS; /* one try takes so long */
	if (pid == stubborn[0] || pid == stubborn[1] || again_nr-- > 0)
		return reason_set(why, -EAGAIN, "a thread does not stop");
	is_forked_out |= pid == forked;
	*ret = (struct eject_result){ .times.stopped_ns = 800000, .function_nr = 9, .kept_nr = 1 };
	return pid == 13 ? reason_set(why, -ESRCH, "it has ended") : 0;
}

static int play_find(pid_t pid, struct inject_found *ret, struct reason *why)
{
	(void)pid, (void)why;
	*ret = (struct inject_found){ .is_active = true, .owner = getpid() };
	return 0;
}

static bool play_has_file(pid_t pid, const struct inject_file *file)
{
	return pid == forked && !is_forked_out && file->inode == ours.inode;
}

static bool are_files_said;

/* The process itself shows its files. */
static uint32_t play_files(pid_t pid, struct inject_file ret[INJECT_ALLOCATORS_MAX])
{
	(void)pid;
	cr_expect(!are_files_said, "the process is believed, although the recording has said its files");
	ret[0] = ours;
	return 1;
}

struct timespec;

static int play_sleep(const struct timespec *time, struct timespec *left)
{
	(void)left;
	now_ns += time->tv_nsec;
	return 0;
}

#define inject_eject play_eject
#define inject_find play_find
#define inject_has_file play_has_file
#define inject_files play_files
#define monotonic_now_ns play_now
#define nanosleep play_sleep
#include "collect/probe/kept_samplers.c"

static struct kept_samplers kept;

static void keep(pid_t pid)
{
	cr_assert_eq(kept_samplers_add(&kept, pid), 0);
	cr_assert_eq(kept_samplers_tell_files(&kept, pid, &ours, 1), 0);
	are_files_said = true;
}

static void end(void)
{
	cr_expect_eq(kept.sampler_nr, 0, "a process is still held");
	free(kept.sampler);
}

TestSuite(kept_samplers, .fini = end);

Test(kept_samplers, are_ejected_with_patience)
{
	struct link_holder_ejection ejection = {};

	again_nr = 3;
	keep(4711);
	cr_assert_eq(kept_samplers_add(&kept, 4711), 0, "twice is once");
	keep(4711);
	kept_samplers_eject(&kept, 4711, &ejection);
	cr_expect_eq(ejected_nr, 4);
	cr_expect_eq(ejection.value, 0);
	cr_expect_eq(ejection.function_nr, 9);
	cr_expect_eq(ejection.kept_nr, 1);
	cr_expect_eq(ejection.stopped_ns, 800000);
	cr_expect_eq(ejection.child_nr, 0);
}

Test(kept_samplers, that_cannot_be_ejected_have_five_seconds)
{
	struct link_holder_ejection ejection = {};
	uint64_t begun_ns = now_ns;

	stubborn[0] = 4711;
	keep(4711);
	kept_samplers_eject(&kept, 4711, &ejection);
	cr_expect_eq(ejection.value, -EAGAIN);
	cr_expect_str_eq(ejection.why.text, "a thread does not stop");
	cr_expect(now_ns - begun_ns >= 5 * SECOND_NS && now_ns - begun_ns < 6 * SECOND_NS, "%f s", (now_ns - begun_ns) / 1e9);
}

Test(kept_samplers, have_a_minute_together_once_the_recorder_is_gone)
{
	uint64_t begun_ns = now_ns;

	stubborn[0] = 11;
	stubborn[1] = 14;
	for (pid_t pid = 11; pid <= 14; pid++)
		keep(pid);
	kept_samplers_eject_all(&kept);
	cr_expect(now_ns - begun_ns > 5 * SECOND_NS && now_ns - begun_ns < 61 * SECOND_NS, "%f s", (now_ns - begun_ns) / 1e9);
	cr_expect_eq(ejected[ejected_nr - 1], 12, "each takes the place of the one before");
	keep(15);
	ejected_nr = 0;
	kept_samplers_eject_all(&kept);
	cr_expect_eq(ejected_nr, 1, "one has a try also when the time is over");
}

static pid_t fork_waiting(void)
{
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	cr_assert_gt(pid, 0);
	return pid;
}

static void end_waiting(pid_t pid)
{
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

Test(kept_samplers, are_ejected_from_forked_children)
{
	struct link_holder_ejection ejection = {};
	pid_t other = fork_waiting(); /* of the same program: that is no file of ours */

	forked = fork_waiting();
	keep(getpid());
	kept_samplers_eject(&kept, getpid(), &ejection);
	end_waiting(forked);
	end_waiting(other);
	cr_expect_eq(ejected_nr, 2, "the process, and this one child of all that run its program");
	cr_expect_eq(ejected[1], forked);
	cr_expect_eq(ejection.child_nr, 0);
}

Test(kept_samplers, that_stay_in_children_are_told)
{
	struct link_holder_ejection ejection = {};
	uint64_t begun_ns = now_ns;

	forked = stubborn[0] = fork_waiting();
	keep(getpid());
	kept_samplers_eject(&kept, getpid(), &ejection);
	end_waiting(forked);
	cr_expect_eq(ejection.value, 0);
	cr_expect_eq(ejection.child_nr, 1);
	cr_expect_eq(ejection.child, forked);
	cr_expect(now_ns - begun_ns < 6 * SECOND_NS, "%f s", (now_ns - begun_ns) / 1e9);
}

Test(kept_samplers, of_a_recording_that_was_killed_are_looked_for)
{
	forked = fork_waiting();
	cr_assert_eq(kept_samplers_add(&kept, getpid()), 0);
	kept_samplers_eject_all(&kept);
	end_waiting(forked);
	cr_expect(is_forked_out);
}

Test(kept_samplers, of_processes_that_were_not_named_are_left_alone)
{
	struct link_holder_ejection ejection = {};
	struct inject_file many[INJECT_ALLOCATORS_MAX + 1] = {};

	kept_samplers_eject(&kept, 4711, &ejection);
	cr_expect_eq(ejection.value, -ENOENT);
	cr_expect_eq(ejected_nr, 0);
	cr_expect_eq(kept_samplers_tell_files(&kept, 4711, &ours, 1), -ENOENT);
	keep(4711);
	cr_expect_eq(kept_samplers_tell_files(&kept, 4711, many, INJECT_ALLOCATORS_MAX + 1), -E2BIG);
	kept_samplers_eject_all(&kept);
}
