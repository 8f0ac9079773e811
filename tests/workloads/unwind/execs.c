// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * execs OTHER: `go` allocates 501 bytes below a frame of FRAME_BYTES, `exec` becomes OTHER, `spawn`
 * waits for a vforked child that does.
 */
#include <fcntl.h>
#include <sys/wait.h>

#include "../unwind.h"

static char *const *path;

SITE static void go(void)
{
	char buf[FRAME_BYTES];

	STAYS_BEHIND(buf);
	KEEP_BLOCK(501);
	STAYS_BEHIND(buf);
}

static void become(void)
{
	execl(path[1], path[1], path[0], NULL);
	_exit(1);
}

static void spawn(void)
{
	pid_t child = vfork();

	if (!child) {
		dup2(open("/dev/null", O_RDWR), STDIN_FILENO);
		dup2(STDIN_FILENO, STDOUT_FILENO);
		become();
	}
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct order orders[] = {
		{ "go", go }, { "exec", become }, { "spawn", spawn }, {},
	};

	path = argc == 2 ? argv : NULL;
	ready();
	obey_orders(orders);
	return 0;
}
