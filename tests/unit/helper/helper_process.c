// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Helpers in general: messages with descriptors, limits of time, and how they end. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "helper/helper.h"

#define PATIENCE_MS 120000

static int descriptor_nr(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int nr = 0;

	cr_assert(dir);
	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

/* ---- messages ---- */

static struct channel near, far;

static void begin(void)
{
	int end[2];

	cr_assert_eq(channel__pair(end), 0);
	near = (struct channel){ .fd = end[0] };
	far = (struct channel){ .fd = end[1] };
}

static void end(void)
{
	channel__close(&near);
	channel__close(&far);
}

TestSuite(helper_channel, .init = begin, .fini = end, .timeout = 600);

static void send_with(int fd_nr)
{
	const int fd[CHANNEL_FDS_MAX] = {};

	cr_assert_eq(channel__send_fds(&far, 7, &(struct iovec){ "text", 4 }, 1, fd, fd_nr), 0);
}

Test(helper_channel, delivers_a_message_with_its_descriptors)
{
	int fd[CHANNEL_FDS_MAX];
	struct message head;
	char text[4];

	for (int sent = 0; sent <= CHANNEL_FDS_MAX; sent++) {
		send_with(sent);
		cr_assert_eq(channel__head_fds(&near, &head, fd, CHANNEL_FDS_MAX), 0);
		cr_assert(head.kind == 7 && head.bytes == 4);
		cr_assert(!channel__receive(&near, text, 4) && !memcmp(text, "text", 4));
		for (int i = 0; i < CHANNEL_FDS_MAX; i++)
			cr_assert_eq(fd[i] >= 0 && !close(fd[i]), i < sent, "%d of %d", i, sent);
	}
	cr_assert(channel__is_quiet(&near));
}

Test(helper_channel, leaves_no_descriptor_open_that_nobody_wants)
{
	int before = descriptor_nr(), fd = -1;
	struct message head;
	char text[4];

	for (int wanted = 0; wanted <= 1; wanted++) {
		send_with(CHANNEL_FDS_MAX);
		cr_assert_eq(channel__head_fds(&near, &head, &fd, wanted), 0);
		cr_assert_eq(descriptor_nr(), before + wanted);
		cr_assert_eq(channel__receive(&near, text, 4), 0);
	}
	cr_assert_eq(close(fd), 0);
	send_with(1);
	cr_assert_eq(channel__answer(&near, 8, text, 4, &fd), -EPROTO, "it is of another kind");
	cr_assert_eq(descriptor_nr(), before);
}

Test(helper_channel, waits_no_longer_than_its_limit)
{
	struct message head = { .kind = 7, .bytes = 4 };
	char text[4];

	near.until_ns = monotonic_now_ns();
	cr_assert_eq(channel__head(&near, &head, NULL), -ETIMEDOUT, "nothing came");
	cr_assert_eq(write(far.fd, &head, sizeof(head)), (ssize_t)sizeof(head));
	near.until_ns = monotonic_now_ns() + 60 * SECOND_NS;
	cr_assert_eq(channel__head(&near, &head, NULL), 0);
	cr_assert_eq(write(far.fd, "te", 2), 2);
	near.until_ns = monotonic_now_ns();
	cr_assert_eq(channel__receive(&near, text, 4), -ETIMEDOUT, "a part came");
	channel__close(&far);
	cr_assert_eq(channel__receive(&near, text, 2), -EPIPE);
	cr_assert(!channel__is_quiet(&near));
}

/* ---- processes ---- */

static int wait_for_orders(void *, int recorder)
{
	struct message order;

	while (child_has_order(recorder) && !channel__head(&(struct channel){ .fd = CHILD_FD }, &order, NULL))
		;
	return 5;
}

static int wait_for_ever(void *, int recorder)
{
	cr_assert(recorder == 0);
	for (;;)
		pause();
}

static int refuse(void)
{
	return -EPERM;
}

Test(helper_process, ends_with_what_its_work_returns, .timeout = 600)
{
	struct helper helper;
	int status;

	cr_assert_eq(helper__start(&(struct helper_plan){ .work = wait_for_orders }, &helper), 0);
	cr_assert(!helper__has_ended(&helper));
	kill(helper.pid, SIGTERM); /* it is for the recorder */
	kill(helper.pid, SIGSTOP);
	status = helper__end(&helper, SIGCONT);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 5, "%#x", status);
	cr_expect(helper.pid == 0 && helper.end_fd == -1 && helper.channel.fd == -1);
	cr_assert_eq(helper__start(&(struct helper_plan){ .work = wait_for_orders, .give_up = refuse }, &helper), 0);
	status = helper__end(&helper, SIGCONT);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 127, "it works with rights that it could not give up: %#x", status);
	cr_expect(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a child is left");
}

/* The recorder is killed; a child of it, which calls no exec, keeps its ends of the sockets open. */
static void record_and_fork(int ready)
{
	static const struct helper_plan plan[2] = { { .work = wait_for_orders }, { .work = wait_for_ever, .is_killed = true } };
	struct helper helper[2];
	pid_t said[3];

	for (int i = 0; i < 2; i++) {
		cr_assert_eq(helper__start(&plan[i], &helper[i]), 0);
		said[i] = helper[i].pid;
	}
	said[2] = fork();
	if (said[2])
		cr_assert(write(ready, said, sizeof(said)) == sizeof(said));
	pause();
	_exit(0);
}

Test(helper_process, ends_with_a_recorder_that_was_killed, .timeout = 600)
{
	int ready[2], end_fd[2];
	pid_t said[3], recorder;

	cr_assert(!pipe(ready));
	recorder = fork();
	if (!recorder)
		record_and_fork(ready[1]);
	cr_assert(read(ready[0], said, sizeof(said)) == sizeof(said));
	for (int i = 0; i < 2; i++) {
		end_fd[i] = syscall(SYS_pidfd_open, said[i], 0);
		cr_assert(end_fd[i] >= 0);
	}
	kill(recorder, SIGKILL);
	waitpid(recorder, NULL, 0);
	for (int i = 0; i < 2; i++)
		cr_expect_eq(poll(&(struct pollfd){ .fd = end_fd[i], .events = POLLIN }, 1, PATIENCE_MS), 1, "helper %d", i);
	kill(said[2], SIGKILL);
}
