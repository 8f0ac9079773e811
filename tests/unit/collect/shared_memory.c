// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Processes that use the memory of this one. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/reason.h"
#include "collect/inject/inject_private.h"

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
