// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Kernels and processes that a machine of tests does not have: nothing is injected there. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "inject/inject_private.h"
#include "inject/remote_call.h"
#include "inject/target_maps.h"

static const struct kernel_row {
	struct kernel_texts kernel;
	int err;
	const char *word; /* of the line that says why */
} kernels[] = {
	{ { "5.13.0", "", "", "" }, 0, "" },
	{ { "6.18.44", "", "", "" }, 0, "" },
	{ { "10.0", "[none] integrity confidentiality", "0", "1" }, 0, "" },
	{ { "6.8.0-31-generic", "none [integrity] confidentiality", "", "1" }, 0, "" },
	{ { "6.1.0", "", "0\n", "2\n" }, 0, "" },
	{ { "5.12.19", "", "", "" }, -ENOTSUP, "needs Linux 5.13, this is 5.12.19" },
	{ { "4.18.0-553.el8", "", "", "" }, -ENOTSUP, "needs Linux 5.13" },
	{ { "", "", "", "" }, -ENOTSUP, "needs Linux 5.13" },
	{ { "6.11.4-hardened1-1-hardened", "", "", "" }, -ENOTSUP, "hardened kernel" },
	{ { "6.1.2-grsec", "", "", "" }, -ENOTSUP, "hardened kernel" },
	{ { "6.8.0", "none integrity [confidentiality]\n", "", "" }, -ENOTSUP, "locked down" },
	{ { "6.8.0", "", "1", "" }, -ENOTSUP, "SELinux" },
	{ { "6.8.0", "", "", "3\n" }, -ENOTSUP, "ptrace_scope is 3" },
};

Test(inject_rules, refuse_old_and_hardened_kernels)
{
	for (size_t i = 0; i < ARRAY_SIZE(kernels); i++) {
		struct reason why = {};
		int err = judge_kernel(&kernels[i].kernel, &why);

		cr_expect_eq(err, kernels[i].err, "row %zu: %d", i, err);
		cr_expect(strstr(why.text, kernels[i].word), "row %zu: %s", i, why.text);
	}
}

#define STATUS(state, tgid, tracer, features)                                                       \
	"Name:\tserver\nUmask:\t0022\nState:\t" state "\nTgid:\t" tgid "\nNgid:\t0\nPid:\t4711\n" \
	"TracerPid:\t" tracer "\nVmPeak:\t9 kB\nVmSize:\t8 kB\nThreads:\t1\n" features

static const struct status_row {
	const char *status;
	int err;
	const char *word;
} statuses[] = {
	{ STATUS("S (sleeping)", "4711", "0", ""), 0, "" },
	{ STATUS("R (running)", "4711", "0", "x86_Thread_features:\t\nx86_Thread_features_locked:\t\n"), 0, "" },
	{ STATUS("S (sleeping)", "4711", "0", "x86_Thread_features:\tshstk \n"), -ENOTSUP, "shadow stack" },
	{ STATUS("S (sleeping)", "4711", "0", "x86_Thread_features:\tshstk wrss \n"), -ENOTSUP, "shadow stack" },
	{ STATUS("T (stopped)", "4711", "0", ""), -EAGAIN, "process 4711 is stopped" },
	{ STATUS("t (tracing stop)", "4711", "12", ""), -EAGAIN, "is stopped" },
	{ STATUS("S (sleeping)", "4711", "12", ""), -EAGAIN, "process 12 traces it" },
	{ STATUS("Z (zombie)", "4711", "0", ""), -ESRCH, "has ended" },
	{ STATUS("S (sleeping)", "4700", "0", ""), -ENOTSUP, "4711 is a thread of process 4700" },
	{ "Name:\tkthreadd\nState:\tS (sleeping)\nTgid:\t4711\nTracerPid:\t0\n", -ENOTSUP, "thread of the kernel" },
};

Test(inject_rules, refuse_processes_by_their_status)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		struct reason why = {};
		int err = judge_target(4711, statuses[i].status, &why);

		cr_expect_eq(err, statuses[i].err, "row %zu: %d", i, err);
		cr_expect(strstr(why.text, statuses[i].word), "row %zu: %s", i, why.text);
	}
}

#define LIMITS(data, addresses) \
	"Limit                     Soft Limit           Hard Limit           Units     \n" \
	"Max cpu time              unlimited            unlimited            seconds   \n" \
	"Max data size             " data "             unlimited            bytes     \n" \
	"Max address space         " addresses "        unlimited            bytes     \n"

/* 5 mappings of 14 pages; 3 pages are data: neither the stack nor what others share is. */
static struct maps_line few_lines[] = {
	{ .start = 0x10000, .end = 0x15000, .perms = "r-xp", .path = "/bin/server" },
	{ .start = 0x20000, .end = 0x23000, .perms = "rw-p", .path = "[heap]" },
	{ .start = 0x30000, .end = 0x32000, .perms = "rw-s", .path = "/dev/shm/it" },
	{ .start = 0x40000, .end = 0x44000, .perms = "rw-p", .path = "[stack]" },
	{ .start = 0xffffffffff600000, .end = 0xffffffffff601000, .perms = "--xp", .path = "[vsyscall]" },
};

static const struct room_row {
	struct mappings_needed needed;
	const char *max_map_count, *limits;
	int err;
	const char *word;
} rooms[] = {
	{ { 60, 1 << 20, 1 << 20 }, "65\n", LIMITS("unlimited", "unlimited"), 0, "" },
	{ { 61, 1 << 20, 1 << 20 }, "65\n", LIMITS("unlimited", "unlimited"), -EAGAIN, "5 mappings, and 61 more" },
	{ { 8, 0x2000, 0 }, "65530\n", LIMITS("12288", "65536"), 0, "" },
	{ { 8, 0x2001, 0 }, "65530\n", LIMITS("12288", "65536"), -EAGAIN, "limit on addresses" },
	{ { 8, 0x1000, 0x1000 }, "65530\n", LIMITS("16384", "unlimited"), 0, "" },
	{ { 8, 0x1000, 0x1001 }, "65530\n", LIMITS("16384", "unlimited"), -EAGAIN, "limit on data" },
	{ { 8, 0x1000, 0 }, "", LIMITS("unlimited", "unlimited"), -EIO, "does not say" },
	{ { 8, 0x1000, 0 }, "65530\n", "Max data size  unlimited", -EIO, "does not say" },
	{ { 8, 0x1000, 0 }, "65530\n", "", -EIO, "does not say" },
};

Test(inject_rules, refuse_where_mappings_have_no_room)
{
	const struct target_maps maps = { .line = few_lines, .line_nr = ARRAY_SIZE(few_lines) };

	for (size_t i = 0; i < ARRAY_SIZE(rooms); i++) {
		const struct room_row *row = &rooms[i];
		struct reason why = {};
		int err = judge_room(&maps, &row->needed, row->max_map_count, row->limits, &why);

		cr_expect_eq(err, row->err, "row %zu: %d", i, err);
		cr_expect(strstr(why.text, row->word), "row %zu: %s", i, why.text);
	}
}

/* ---- tracer ---- */

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

	cr_assert_eq(run_as_tracer(work, NULL, &argument, &outcome, sizeof(outcome)), result);
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

/* ---- shared memory ---- */

/* Processes that use the memory of this one. */

static struct newest_process before;

static void begin(void)
{
	before = newest_process();
	cr_assert_gt(before.pid, 0);
	cr_assert_eq(check_shared_memory(getpid(), NULL), 0, "nothing shares it yet");
}

TestSuite(shared_memory, .init = begin);

static int wait_for_signals(void *unused)
{
	(void)unused;
	while (pause())
		;
	return 0;
}

static char stack[64 << 10];

static pid_t start_sharer(void)
{
	pid_t pid = clone(wait_for_signals, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);

	cr_assert_gt(pid, 0);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

static void expect_sharer(pid_t sharer)
{
	struct reason why = {};
	char said[80];

	snprintf(said, sizeof(said), "process %d uses the same memory", sharer);
	cr_expect_eq(check_new_sharers(getpid(), &before, &why), -EAGAIN);
	cr_expect(strstr(why.text, said), "%s", why.text);
}

Test(shared_memory, is_that_of_a_process_that_has_begun_since)
{
	pid_t sharer = start_sharer();

	expect_sharer(sharer);
	before.pid = 0; /* not known: all processes are asked */
	expect_sharer(sharer);
	before = newest_process();
	before.pid += 1000; /* the numbers have begun anew */
	expect_sharer(sharer);
	before = newest_process();
	before.pid += 10; /* so, too, if few have begun since */
	before.seen_ns = 0;
	expect_sharer(sharer);
	before = newest_process(); /* it may have been amid clone() at the first look */
	expect_sharer(sharer);
	end_child(sharer);
	cr_expect_eq(check_new_sharers(getpid(), &before, NULL), 0);
}

static void *wait_in_thread(void *unused)
{
	wait_for_signals(unused);
	return NULL;
}

Test(shared_memory, is_not_that_of_threads_and_children)
{
	pid_t child = fork();
	pthread_t thread;

	if (!child)
		wait_for_signals(NULL);
	cr_assert_eq(pthread_create(&thread, NULL, wait_in_thread, NULL), 0);
	cr_expect_eq(check_new_sharers(getpid(), &before, NULL), 0);
	end_child(child);
}
