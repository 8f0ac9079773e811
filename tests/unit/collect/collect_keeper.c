// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The keeper of links as a process: what ends it, and what does not. It gets no links to keep. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect/process/mapped_file.h"
#include "collect/probe/link_holder.h"
#include "collect/probe/uprobe_multi.h"
#include "helper/channel.h"
#include "parser_fixture.h"

#define PATIENCE_MS 120000

static struct link_holder *begin(void)
{
	struct link_holder *link_holder = link_holder__open(false);

	cr_assert(link_holder);
	return link_holder;
}

/* A program that is none. */
static int attach(struct link_holder *link_holder, uint32_t nr)
{
	uint64_t *places = calloc(nr, sizeof(*places));
	const struct uprobe_multi uprobes = { .nr = nr, .offset = places, .cookie = places, .semaphore = places };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), link;
	struct file_identity file;

	cr_assert(places && null >= 0);
	cr_assert_eq(file_identity_read(null, &file), 0);
	link = link_holder__attach(link_holder, null, null, &file, &uprobes);
	close(null);
	free(places);
	return link;
}

static bool ends(int pidfd)
{
	return poll(&(struct pollfd){ .fd = pidfd, .events = POLLIN }, 1, PATIENCE_MS) == 1;
}

Test(collect_link_holder, continues_after_requests_that_fail)
{
	struct link_holder *link_holder = begin();

	for (int i = 0; i < 100; i++) {
		int link = attach(link_holder, 1 + i);

		cr_assert(link < 0 && link != -EPIPE, "%d", link);
	}
	cr_assert_eq(attach(link_holder, 1 << 16), -EMSGSIZE);
	link_holder__detach(link_holder, 3); /* its socket is no link */
	cr_assert_eq(link_holder__detaching_nr(link_holder), 0);
	link_holder__settle(link_holder);
	cr_assert_neq(attach(link_holder, 1), -EPIPE);
	cr_assert(!link_holder__has_ended(link_holder));
	link_holder__close(link_holder);
	cr_assert(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "it is there still");
}

Test(collect_link_holder, that_was_killed_is_detected)
{
	struct link_holder *link_holder = begin();

	kill(only_child_of(getpid()), SIGKILL);
	cr_assert(ends(link_holder__end_fd(link_holder)));
	cr_assert(link_holder__has_ended(link_holder));
	cr_assert_eq(attach(link_holder, 1), -EPIPE);
	link_holder__detach(link_holder, 7);
	link_holder__settle(link_holder);
	cr_assert_eq(link_holder__detaching_nr(link_holder), 0);
	link_holder__close(link_holder);
}

Test(collect_link_holder, that_was_stopped_can_be_closed)
{
	struct link_holder *link_holder = begin();

	kill(only_child_of(getpid()), SIGSTOP);
	link_holder__close(link_holder);
	cr_assert(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

/* The recording forks a child that calls no exec, so the child inherits the keeper's socket. */
static void record_and_fork(int ready[2], bool is_in_order)
{
	struct link_holder *link_holder = begin();
	pid_t said[2] = { only_child_of(getpid()) };
	const struct message part = { .bytes = 4096 };

	cr_assert(!link_holder__has_ended(link_holder));
	if (is_in_order)
		cr_assert(write(link_holder__news_fd(link_holder), &part, sizeof(part)) == sizeof(part));
	wait_until_in_call(said[0], is_in_order ? SYS_recvmsg : SYS_poll);
	said[1] = fork();
	if (said[1])
		cr_assert(write(ready[1], said, sizeof(said)) == sizeof(said));
	pause();
	_exit(0);
}

static void expect_end_with_recording(bool is_in_order)
{
	pid_t said[2], recording;
	int ready[2], pidfd;

	cr_assert(!pipe(ready));
	recording = fork();
	if (!recording)
		record_and_fork(ready, is_in_order);
	cr_assert(read(ready[0], said, sizeof(said)) == sizeof(said));
	pidfd = syscall(SYS_pidfd_open, said[0], 0);
	cr_assert(pidfd >= 0);
	kill(recording, SIGKILL);
	waitpid(recording, NULL, 0);
	cr_expect(ends(pidfd));
	kill(said[1], SIGKILL);
}

Test(collect_link_holder, ends_with_the_recording)
{
	expect_end_with_recording(false);
}

Test(collect_link_holder, ends_with_a_recording_that_was_killed_in_the_middle_of_an_order)
{
	expect_end_with_recording(true);
}
