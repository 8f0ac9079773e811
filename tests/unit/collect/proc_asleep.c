// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether the threads of a process are asleep. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect/process/proc.h"

static void *run_on(void *unused)
{
	for (volatile unsigned long i = 0;; i++)
		;
	return unused;
}

static pid_t start_child(bool runs)
{
	pid_t child = fork();
	pthread_t thread;

	if (child)
		return child;
	if (runs)
		pthread_create(&thread, NULL, run_on, NULL);
	for (;;)
		pause();
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

Test(proc_asleep, are_all_threads)
{
	pid_t child = start_child(false);

	cr_expect_not(proc_is_asleep(getpid()), "this thread runs");
	while (!proc_is_asleep(child))
		usleep(1000);
	kill(child, SIGSTOP);
	while (proc_is_asleep(child))
		usleep(1000);
	end_child(child);
	cr_expect_not(proc_is_asleep(child), "it is gone");
}

Test(proc_asleep, is_no_process_with_a_thread_that_runs)
{
	pid_t child = start_child(true);

	while (proc_is_asleep(child)) /* until it has its thread */
		usleep(1000);
	for (int i = 0; i < 20; i++)
		cr_expect_not(proc_is_asleep(child));
	end_child(child);
}
