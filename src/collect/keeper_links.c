// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* In the keeper (keeper.h). A link's number is never used again: orders about a link that has gone mean no other. */
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/capabilities.h"
#include "base/child.h"
#include "collect/detach.h"
#include "collect/file_watch.h"
#include "collect/keeper_orders.h"
#include "collect/uprobe_multi.h"

struct kept_link {
	int number, fd;
	int watch; /* on its file; negative: none */
};

struct links {
	struct kept_link *link;
	size_t link_nr, link_alloc;
	int last_number;
	struct detacher detacher;
	struct file_watch watch;
	struct keeper_answer *news; /* to be told */
	size_t news_nr, news_alloc;
};

static void tell(struct links *links, enum keeper_news what, int value)
{
	const struct keeper_answer news = { what, value };

	(void)!array_push(links, news, news); /* or the recording notices it when it looks at the file next */
}

/* ---- what is to be done ---- */

static int attach(struct links *links, const struct keeper_order *order, const int fd[KEEPER_FD_NR])
{
	struct uprobe_multi uprobes = {
		.pid = order->pid,
		.attach_type = order->attach_type,
		.of_returns = order->of_returns,
		.nr = order->nr,
		.offset = order->places,
		.cookie = order->places + order->nr,
	};
	struct kept_link link;
	char path[32];
	int err;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd[KEEPER_FILE]);
	uprobes.path = path;
	link.watch = file_watch_add(&links->watch, fd[KEEPER_FILE]); /* first: no write is missed */
	link.fd = uprobe_multi_attach(fd[KEEPER_PROGRAM], &uprobes);
	if (link.fd < 0)
		return link.fd;
	link.number = ++links->last_number;
	err = array_push(links, link, link);
	if (err) {
		close(link.fd);
		return err;
	}
	if (link.watch < 0)
		tell(links, KEEPER_UNWATCHED, link.watch);
	return link.number;
}

static bool is_watched_for(const struct links *links, int watch)
{
	for (size_t i = 0; i < links->link_nr; i++)
		if (links->link[i].watch == watch)
			return true;
	return false;
}

static void end(struct links *links, size_t i)
{
	const struct kept_link link = links->link[i];

	memmove(links->link + i, links->link + i + 1, (--links->link_nr - i) * sizeof(link));
	detach_begin(&links->detacher, &(struct held_probes){ .fd = link.fd }, 1);
	if (link.watch >= 0 && !is_watched_for(links, link.watch))
		file_watch_remove(&links->watch, link.watch);
}

static void detach(struct links *links, int number)
{
	for (size_t i = links->link_nr; i-- > 0;)
		if (links->link[i].number == number)
			return end(links, i);
}

/* A thread for each: all breakpoints go at once, those of frees last. */
static void end_all(struct links *links)
{
	while (links->link_nr)
		end(links, links->link_nr - 1);
	detach_end(&links->detacher);
}

/* The links of files that were written to, those of frees last. */
static void end_written(struct links *links)
{
	int watch;

	while ((watch = file_watch_next(&links->watch)) != FILE_WATCH_NONE)
		for (size_t i = links->link_nr; i-- > 0;) {
			if (watch != FILE_WATCH_ALL && links->link[i].watch != watch)
				continue;
			tell(links, KEEPER_CLOSED, links->link[i].number);
			end(links, i);
		}
}

static int obey(struct links *links, const struct keeper_order *order, const int fd[KEEPER_FD_NR])
{
	switch (order->what) {
	case KEEPER_ATTACH:
		return attach(links, order, fd);
	case KEEPER_DETACH:
		detach(links, order->link);
		return 0;
	case KEEPER_DETACHING:
		return detach_pending(&links->detacher);
	case KEEPER_SETTLE:
		detach_end(&links->detacher);
		return 0;
	}
	return -EPROTO;
}

/* ---- who says so ---- */

/* As many as the socket takes: the recording reads them when it has time. */
static void send_news(struct links *links)
{
	size_t sent = 0;

	while (sent < links->news_nr &&
	       send(CHILD_FD, &links->news[sent], sizeof(*links->news), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		sent++;
	links->news_nr -= sent;
	if (sent)
		memmove(links->news, links->news + sent, links->news_nr * sizeof(*links->news));
}

/*
 * Sees to the files meanwhile. False: the recording has ended. Its end of the socket may live on, in what it has
 * forked.
 */
static bool has_order(struct links *links, int recording)
{
	struct pollfd fds[] = {
		{ .fd = CHILD_FD, .events = POLLIN }, { .fd = recording, .events = POLLIN },
		{ .fd = links->watch.fd, .events = POLLIN },
	};

	do {
		fds[0].events = POLLIN | (links->news_nr ? POLLOUT : 0);
		if (poll(fds, 3, -1) < 0 && errno != EINTR)
			return false;
		end_written(links);
		send_news(links);
	} while (!fds[1].revents && !(fds[0].revents & ~POLLOUT));
	return !fds[1].revents;
}

static void take_fds(struct msghdr *msg, int ret[KEEPER_FD_NR])
{
	const struct cmsghdr *header = CMSG_FIRSTHDR(msg);

	ret[KEEPER_PROGRAM] = ret[KEEPER_FILE] = -1;
	if (header && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(KEEPER_FD_NR * sizeof(*ret)))
		memcpy(ret, CMSG_DATA(header), KEEPER_FD_NR * sizeof(*ret));
}

/* Its length; 0: there will be none any more. */
static size_t receive(struct keeper_order *order, int ret_fd[KEEPER_FD_NR])
{
	struct iovec piece = { order, KEEPER_ORDER_BYTES_MOST };
	char control[CMSG_SPACE(KEEPER_FD_NR * sizeof(int))] __attribute__((aligned(8)));
	struct msghdr msg = {
		.msg_iov = &piece, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	ssize_t got = recvmsg(CHILD_FD, &msg, MSG_CMSG_CLOEXEC);

	if (got <= 0)
		return 0;
	take_fds(&msg, ret_fd);
	return got;
}

static bool is_whole(const struct keeper_order *order, size_t bytes)
{
	return bytes >= sizeof(*order) &&
	       bytes == sizeof(*order) + 2 * sizeof(*order->places) * order->nr;
}

static bool serve(struct links *links, struct keeper_order *order)
{
	int fd[KEEPER_FD_NR];
	size_t bytes = receive(order, fd);
	struct keeper_answer answer = { KEEPER_ANSWER };

	if (!bytes || !is_whole(order, bytes))
		return false;
	answer.value = obey(links, order, fd);
	for (int i = 0; i < KEEPER_FD_NR; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	return order->what == KEEPER_DETACH ||
	       send(CHILD_FD, &answer, sizeof(answer), MSG_NOSIGNAL) == sizeof(answer);
}

/*
 * Of a session of its own: what a terminal or a shell sends to the recording's group does not reach
 * it. While a pause is not begun the program pays for each trap: so it is at a high priority.
 */
void keep_links(int fd, pid_t recording)
{
	struct keeper_order *order = malloc(KEEPER_ORDER_BYTES_MOST);
	struct links links = {};
	int recording_fd;

	setsid();
	prctl(PR_SET_NAME, "allocsnap-links");
	child_show_as("allocsnap: places probes, and takes them away");
	if (!order || child_keep_only(fd))
		_exit(127);
	child_ignore_signals();
	setpriority(PRIO_PROCESS, 0, -20);
	file_watch_open(&links.watch); /* where that fails each link is told to be unwatched */
	/* Links are made of a program that is loaded; to watch a file takes the right to read it. */
	capabilities_keep(CAPABILITY(CAP_DAC_READ_SEARCH));
	recording_fd = syscall(SYS_pidfd_open, recording, 0);
	while (recording_fd >= 0 && has_order(&links, recording_fd) && serve(&links, order))
		;
	end_all(&links);
	_exit(0);
}
