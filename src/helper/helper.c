// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "helper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"

int child_keep_only(int fd)
{
	int null = open("/dev/null", O_RDWR);

	if (null < 0)
		return -errno;
	fd = fcntl(fd, F_DUPFD, 10); /* above the descriptors that dup2() replaces */
	for (int i = 0; i < CHILD_FD; i++)
		if (dup2(null, i) < 0)
			return -errno;
	if (fd < 0 || dup2(fd, CHILD_FD) < 0)
		return -errno;
	return syscall(SYS_close_range, CHILD_FD + 1, ~0u, 0) ? -errno : 0;
}

void child_ignore_signals(void)
{
	static const int ignored[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2 };
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

bool child_has_order(int parent)
{
	struct pollfd fds[] = {
		{ .fd = CHILD_FD, .events = POLLIN }, { .fd = parent, .events = POLLIN },
	};
	int ready;

	while ((ready = poll(fds, 2, -1)) < 0 && errno == EINTR)
		;
	return ready > 0 && !fds[1].revents;
}

void child_show_as(const char *text)
{
	unsigned long long start = 0, end = 0;
	char stat[2048];
	FILE *file = fopen("/proc/self/stat", "re");
	const char *at = file && fgets(stat, sizeof(stat), file) ? strrchr(stat, ')') : NULL;

	for (int field = 2; at && field < 48; field++)
		at = strchr(at + 1, ' ');
	if (at && sscanf(at, "%llu %llu", &start, &end) == 2 && start && start < end) {
		memset((char *)(uintptr_t)start, 0, end - start);
		strncpy((char *)(uintptr_t)start, text, end - start - 1);
	}
	if (file)
		fclose(file);
}
