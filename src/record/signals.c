// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "record/recording.h"

int signals_open(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN); /* the reader of our paths may go away; the last snapshot is still due */
	signal(SIGXFSZ, SIG_IGN); /* beyond RLIMIT_FSIZE a write fails with an error, like others */
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		log_failure("cannot wait for signals: %s", strerror(errno));
	return fd;
}

void signal_forward(pid_t child, const struct signalfd_siginfo *info)
{
	if (info->ssi_code <= 0)
		kill(child, info->ssi_signo);
}

void signals_pass_on(int signal_fd, pid_t child)
{
	struct signalfd_siginfo info;

	while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo != SIGUSR1 && info.ssi_signo != SIGUSR2)
			signal_forward(child, &info);
}

void signals_forward(int signal_fd, pid_t child)
{
	struct pollfd fds[] = {
		{ .fd = signal_fd, .events = POLLIN },
		{ .fd = syscall(SYS_pidfd_open, child, 0), .events = POLLIN },
	};

	while (fds[1].fd >= 0 && !fds[1].revents) {
		poll(fds, 2, -1);
		signals_pass_on(signal_fd, child);
	}
	if (fds[1].fd >= 0)
		close(fds[1].fd);
}
