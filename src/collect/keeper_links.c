// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* In the keeper (keeper.h): a link's number is its descriptor here. */
#include <errno.h>
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
#include "collect/keeper_orders.h"
#include "collect/uprobe_multi.h"

struct links {
	int *link;
	size_t link_nr, link_alloc;
	struct detacher detacher;
};

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
	char path[32];
	int link, err;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd[KEEPER_FILE]);
	uprobes.path = path;
	link = uprobe_multi_attach(fd[KEEPER_PROGRAM], &uprobes);
	if (link < 0)
		return link;
	err = array_push(links, link, link);
	if (!err)
		return link;
	close(link);
	return err;
}

static void end(struct links *links, int link)
{
	detach_begin(&links->detacher, &(struct held_probes){ .fd = link }, 1);
}

/* One that we do not have is not ours to close. */
static void detach(struct links *links, int link)
{
	for (size_t i = links->link_nr; i-- > 0;) {
		if (links->link[i] != link)
			continue;
		memmove(links->link + i, links->link + i + 1,
			(--links->link_nr - i) * sizeof(*links->link));
		end(links, link);
		return;
	}
}

/* A thread for each: all breakpoints go at once, those of frees last. */
static void end_all(struct links *links)
{
	while (links->link_nr)
		end(links, links->link[--links->link_nr]);
	detach_end(&links->detacher);
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

/* False: who records has ended. Its end of the socket may live on, in what it has forked. */
static bool has_order(int recording)
{
	struct pollfd fds[] = {
		{ .fd = CHILD_FD, .events = POLLIN }, { .fd = recording, .events = POLLIN },
	};
	int ready;

	while ((ready = poll(fds, 2, -1)) < 0 && errno == EINTR)
		;
	return ready > 0 && !fds[1].revents;
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
	int32_t answer;

	if (!bytes || !is_whole(order, bytes))
		return false;
	answer = obey(links, order, fd);
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
	capabilities_keep(0); /* links are made of a program that was loaded by who may */
	recording_fd = syscall(SYS_pidfd_open, recording, 0);
	while (recording_fd >= 0 && has_order(recording_fd) && serve(&links, order))
		;
	end_all(&links);
	_exit(0);
}
