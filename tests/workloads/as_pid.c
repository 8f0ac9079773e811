// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* as_pid PID PROGRAM: runs a program under a PID that an ended process had; ends as the program does. */
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "workload.h"

int main(int argc, char **argv)
{
	pid_t wanted = argc == 3 ? atoi(argv[1]) : 0;
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&wanted,
		.set_tid_size = 1,
	};
	long pid = syscall(SYS_clone3, &args, sizeof(args));
	int status;

	if (!pid) {
		execl(argv[2], argv[2], NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
