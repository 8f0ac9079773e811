// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A parent with blocks of its own, a child that allocates too and frees some that it inherited,
 * and a vfork child that becomes another program.
 *
 *	go      the parent allocates, forks both, allocates again
 *	join    lets the child end and answers with its wait status
 *	quit
 */
#include <sys/wait.h>

#include "workload.h"

#define PARENT_NR 11
#define CHILD_NR 1009

static char *parent_block[2 * PARENT_NR];
static char *child_block[CHILD_NR];
static int hold[2]; /* the child ends when this pipe is closed */

SITE static char *parent_site(void)
{
	return malloc(83);
}

SITE static char *child_site(void)
{
	return malloc(89);
}

static void child(int to_parent)
{
	char byte = 'c';

	close(hold[1]);
	for (int i = 0; i < 5; i++) {
		if (parent_block[i][0] != 'p')
			_exit(2);
		free(parent_block[i]);
	}
	for (int i = 0; i < CHILD_NR; i++) {
		child_block[i] = child_site();
		memset(child_block[i], 'c', 89);
	}
	if (write(to_parent, &byte, 1) != 1)
		_exit(3);
	if (read(hold[0], &byte, 1) != 0) /* the end of the pipe */
		_exit(4);
	free(child_site());
	_exit(0);
}

static pid_t fork_child(void)
{
	int done[2];
	char byte;
	pid_t pid;

	if (pipe(hold) || pipe(done))
		_exit(1);
	pid = fork();
	if (!pid)
		child(done[1]);
	close(hold[0]);
	close(done[1]);
	if (read(done[0], &byte, 1) != 1)
		_exit(1);
	close(done[0]);
	return pid;
}

static int vfork_child(void)
{
	int status = -1;
	pid_t pid = vfork();

	if (!pid) {
		execl("/bin/true", "true", NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return status;
}

static pid_t go(void)
{
	pid_t pid;
	int status;

	for (int i = 0; i < PARENT_NR; i++) {
		parent_block[i] = parent_site();
		memset(parent_block[i], 'p', 83);
	}
	pid = fork_child();
	status = vfork_child();
	for (int i = PARENT_NR; i < 2 * PARENT_NR; i++)
		parent_block[i] = parent_site();
	answer("{\"done\": {\"child\": %d, \"vfork_status\": %d, \"count\": %d, \"size\": %d}}",
	       (int)pid, status, 2 * PARENT_NR, 2 * PARENT_NR * 83);
	return pid;
}

int main(void)
{
	pid_t pid = 0;
	int status = -1;

	ready();
	for (;;) {
		const char *command = next_command();

		if (!strcmp(command, "quit"))
			return 0;
		if (!strcmp(command, "go"))
			pid = go();
		if (!strcmp(command, "join")) {
			close(hold[1]);
			waitpid(pid, &status, 0);
			answer("{\"done\": {\"status\": %d}}", status);
		}
	}
}
