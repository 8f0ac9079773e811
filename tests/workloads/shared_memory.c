// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Has children in its own memory: "WAY" begins one that allocates 100 blocks there and frees 60 of the 100 that are there.
 *
 *	vfork, clone, clone-vfork	it ends, and is waited for
 *	exec				it calls exec, as posix_spawn() does, but allocates before
 *	stays				it is still there when the order is done, and when the program ends
 *	spawn, missing			posix_spawn(), of a program that is there or not: it allocates nothing
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "workload.h"

static void *slot[200];
static char stack[64 << 10] __attribute__((aligned(16)));
static volatile int has_begun;

SITE static void by_parent(void)
{
	for (int i = 0; i < 100; i++)
		slot[i] = malloc(1001);
}

SITE static void by_child(void)
{
	for (int i = 100; i < 200; i++)
		slot[i] = malloc(501);
	for (int i = 0; i < 60; i++)
		free(slot[i]);
}

static int child(void *way)
{
	by_child();
	has_begun = 1;
	if (!strcmp(way, "stays"))
		pause();
	if (!strcmp(way, "exec"))
		execl("/bin/true", "true", NULL);
	_exit(0);
}

static pid_t begin(const char *way)
{
	char *const none[] = { "true", NULL };
	pid_t pid = 0;

	if (!strcmp(way, "missing"))
		return posix_spawn(&pid, "/missing", NULL, NULL, none, none + 1) == ENOENT ? 0 : -1;
	if (!strcmp(way, "spawn"))
		return posix_spawn(&pid, "/bin/true", NULL, NULL, none, none + 1) ? -1 : pid;
	if (!strcmp(way, "vfork") || !strcmp(way, "exec")) {
		pid = vfork();
		if (!pid)
			child((void *)way);
		return pid;
	}
	return clone(child, stack + sizeof(stack), CLONE_VM | SIGCHLD | (!strcmp(way, "clone-vfork") ? CLONE_VFORK : 0),
		     (void *)way);
}

int main(void)
{
	const char *way;

	ready();
	while (strcmp(way = next_command(), "quit")) {
		pid_t pid;

		by_parent();
		has_begun = !strcmp(way, "spawn") || !strcmp(way, "missing");
		pid = begin(way);
		if (pid > 0 && strcmp(way, "stays"))
			waitpid(pid, NULL, 0);
		while (!has_begun)
			;
		answer("{\"done\": {\"child\": %d}}", (int)pid);
	}
	return 0;
}
