// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "helper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"

/* ---- in the child ---- */

/* Closes all descriptors except fd, which becomes CHILD_FD. */
static int keep_only(int fd)
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

/*
 * Ignores the signals that a terminal or a service manager sends to the whole group: the parent handles them. Other
 * signals get their default action. No signal is blocked afterwards.
 */
static void child_ignore_signals(void)
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

bool child_has_order(int recorder)
{
	struct pollfd fds[] = {
		{ .fd = CHILD_FD, .events = POLLIN }, { .fd = recorder, .events = POLLIN },
	};
	int ready;

	while ((ready = poll(fds, 2, -1)) < 0 && errno == EINTR)
		;
	return ready > 0 && !fds[1].revents;
}

/* Changes the command line that ps shows. The text is cut to the room of the parent's. */
static void child_show_as(const char *text)
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

static int open_pidfd(pid_t pid)
{
	int fd = syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

/* Comes after a change of the user, which makes the kernel forget the signal. Returns 0, or a descriptor of the parent. */
static int bind_to_parent(const struct helper_plan *plan, pid_t parent)
{
	int bound = plan->is_killed ? prctl(PR_SET_PDEATHSIG, SIGKILL) : open_pidfd(parent);

	return getppid() == parent ? bound : -ESRCH;
}

static __attribute__((noreturn)) void be_helper(const struct helper_plan *plan, int fd, pid_t parent)
{
	int recorder = 0, err;

	if (plan->has_own_session)
		setsid();
	if (plan->name)
		prctl(PR_SET_NAME, plan->name);
	if (plan->shown)
		child_show_as(plan->shown);
	err = keep_only(fd);
	child_ignore_signals();
	if (!err && plan->give_up)
		err = plan->give_up();
	if (!err)
		recorder = bind_to_parent(plan, parent);
	_exit(err || recorder < 0 ? 127 : plan->work(plan->self, recorder));
}

/* ---- in the recorder ---- */

pid_t helper_fork(void)
{
	sigset_t all, before;
	pid_t pid;
	int err;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	err = errno;
	if (pid)
		sigprocmask(SIG_SETMASK, &before, NULL);
	errno = err;
	return pid;
}

int helper_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return status;
}

int helper__start(const struct helper_plan *plan, struct helper *ret)
{
	pid_t self = getpid();
	int end[2], err = channel__pair(end);

	*ret = (struct helper){ .end_fd = -1, .channel.fd = -1 };
	if (err)
		return err;
	ret->pid = helper_fork();
	if (!ret->pid)
		be_helper(plan, end[1], self);
	err = ret->pid < 0 ? -errno : 0;
	close(end[1]);
	ret->channel.fd = end[0];
	if (!err)
		err = ret->end_fd = open_pidfd(ret->pid);
	if (err >= 0)
		return 0;
	helper__end(ret, SIGKILL);
	return err;
}

bool helper__has_ended(const struct helper *helper)
{
	struct pollfd end = { .fd = helper->end_fd, .events = POLLIN };

	return poll(&end, 1, 0) > 0;
}

int helper__end(struct helper *helper, int signal)
{
	int status = -ECHILD;

	channel__close(&helper->channel);
	if (helper->end_fd >= 0)
		close(helper->end_fd);
	if (helper->pid > 0) {
		kill(helper->pid, signal);
		status = helper_wait(helper->pid);
	}
	*helper = (struct helper){ .end_fd = -1, .channel.fd = -1 };
	return status;
}

uint64_t patience_recover(struct patience *patience)
{
	uint64_t minutes = (monotonic_now_ns() - patience->failed_at_ns) / (60 * SECOND_NS);

	patience->failed_at_ns += minutes * 60 * SECOND_NS;
	patience->failed_nr -= minutes < patience->failed_nr ? minutes : patience->failed_nr;
	return minutes;
}

void patience_lose(struct patience *patience, unsigned int failed_most)
{
	if (!patience->failed_nr)
		patience->failed_at_ns = monotonic_now_ns();
	patience->failed_nr += patience->failed_nr < failed_most;
}
