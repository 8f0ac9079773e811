// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/link_holder.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "collect/probe/link_holder_orders.h"
#include "collect/probe/uprobe_multi.h"

struct keeper {
	pid_t pid;
	int fd;
	int end_fd;
	int *closed; /* links that the keeper has reported closed, not yet returned by keeper__next_closed() */
	size_t closed_nr, closed_alloc;
	int unwatched; /* errno of the last file that could not be watched */
	int unwatched_told; /* the last one that keeper__next_unwatched() returned */
};

/* ---- orders ---- */

union with_fds {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(KEEPER_FD_NR * sizeof(int))];
};

static void add_fds(struct msghdr *msg, union with_fds *control, const int fd[KEEPER_FD_NR])
{
	const size_t bytes = KEEPER_FD_NR * sizeof(fd[0]);

	memset(control, 0, sizeof(*control));
	control->header = (struct cmsghdr){
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(bytes),
	};
	memcpy(CMSG_DATA(&control->header), fd, bytes);
	msg->msg_control = control;
	msg->msg_controllen = sizeof(*control);
}

static int send_keeper_order(const struct keeper *keeper, const struct msghdr *msg)
{
	ssize_t sent;

	while ((sent = sendmsg(keeper->fd, msg, MSG_NOSIGNAL)) < 0 && errno == EINTR)
		;
	if (sent >= 0)
		return 0;
	return errno == ECONNRESET ? -EPIPE : -errno;
}

/* False: there is no packet, or the keeper has ended. */
static bool receive_keeper_answer(const struct keeper *keeper, struct keeper_answer *ret, int flags)
{
	ssize_t got;

	while ((got = recv(keeper->fd, ret, sizeof(*ret), flags)) < 0 && errno == EINTR)
		;
	return got == sizeof(*ret);
}

/* If there is no memory for a link's number, the recording notices it when it checks the file next. */
static void store_keeper_news(struct keeper *keeper, const struct keeper_answer *news)
{
	if (news->what == KEEPER_UNWATCHED)
		keeper->unwatched = -news->value;
	else
		(void)!array_push(keeper, closed, news->value);
}

static int await_keeper_answer(struct keeper *keeper)
{
	struct keeper_answer answer;

	while (receive_keeper_answer(keeper, &answer, 0)) {
		if (answer.what == KEEPER_ANSWER)
			return answer.value;
		store_keeper_news(keeper, &answer);
	}
	return -EPIPE;
}

static void receive_keeper_news(struct keeper *keeper)
{
	struct keeper_answer news;

	while (receive_keeper_answer(keeper, &news, MSG_DONTWAIT))
		store_keeper_news(keeper, &news);
}

int keeper__next_closed(struct keeper *keeper)
{
	if (!keeper->closed_nr)
		receive_keeper_news(keeper);
	return keeper->closed_nr ? keeper->closed[--keeper->closed_nr] : 0;
}

int keeper__next_unwatched(struct keeper *keeper)
{
	int err = keeper->unwatched;

	if (err == keeper->unwatched_told)
		return 0;
	keeper->unwatched_told = err;
	return err;
}

int keeper__news_fd(const struct keeper *keeper)
{
	return keeper->fd;
}

static int order_simply(const struct keeper *keeper, enum keeper_what what, int link)
{
	struct keeper_order head = { .what = what, .link = link };
	struct iovec piece = { &head, sizeof(head) };

	return send_keeper_order(keeper, &(struct msghdr){ .msg_iov = &piece, .msg_iovlen = 1 });
}

int keeper__attach(struct keeper *keeper, int program_fd, int fd, const struct file_identity *file,
		   const struct uprobe_multi *uprobes)
{
	const int fds[KEEPER_FD_NR] = { [KEEPER_PROGRAM] = program_fd, [KEEPER_FILE] = fd };
	struct keeper_order head = {
		.what = KEEPER_ATTACH,
		.attach_type = uprobes->attach_type,
		.of_returns = uprobes->of_returns,
		.pid = uprobes->pid,
		.nr = uprobes->nr,
		.file = *file,
	};
	struct iovec pieces[] = {
		{ &head, sizeof(head) },
		{ (void *)uprobes->offset, uprobes->nr * sizeof(*uprobes->offset) },
		{ (void *)uprobes->cookie, uprobes->nr * sizeof(*uprobes->cookie) },
	};
	struct msghdr msg = { .msg_iov = pieces, .msg_iovlen = 3 };
	union with_fds control;
	int err;

	add_fds(&msg, &control, fds);
	err = send_keeper_order(keeper, &msg);
	return err ?: await_keeper_answer(keeper);
}

void keeper__detach(struct keeper *keeper, int link)
{
	order_simply(keeper, KEEPER_DETACH, link); /* if this fails, the link has ended with the keeper */
}

size_t keeper__detaching_nr(struct keeper *keeper)
{
	int nr = order_simply(keeper, KEEPER_DETACHING, 0) ?: await_keeper_answer(keeper);

	return nr < 0 ? 0 : nr;
}

void keeper__settle(struct keeper *keeper)
{
	if (!order_simply(keeper, KEEPER_SETTLE, 0))
		await_keeper_answer(keeper);
}

/* ---- begin and end ---- */

/* Blocks all signals until the keeper has set how it handles them. */
static pid_t fork_unheard(void)
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

static int start_keeper(struct keeper *keeper)
{
	pid_t self = getpid();
	int end[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end))
		return -errno;
	keeper->fd = end[0];
	keeper->pid = fork_unheard();
	if (!keeper->pid)
		keep_links(end[1], self);
	close(end[1]);
	if (keeper->pid < 0)
		return -errno;
	keeper->end_fd = syscall(SYS_pidfd_open, keeper->pid, 0);
	return keeper->end_fd < 0 ? -errno : 0;
}

struct keeper *keeper__open(void)
{
	struct keeper *keeper = malloc(sizeof(*keeper));
	int err = keeper ? 0 : -ENOMEM;

	if (!err) {
		*keeper = (struct keeper){ .fd = -1, .end_fd = -1 };
		err = start_keeper(keeper);
	}
	if (!err)
		return keeper;
	keeper__close(keeper);
	errno = -err;
	return NULL;
}

int keeper__end_fd(const struct keeper *keeper)
{
	return keeper->end_fd;
}

bool keeper__has_ended(const struct keeper *keeper)
{
	struct pollfd end = { .fd = keeper->end_fd, .events = POLLIN };

	return poll(&end, 1, 0) > 0;
}

void keeper__close(struct keeper *keeper)
{
	if (!keeper)
		return;
	if (keeper->fd >= 0)
		close(keeper->fd);
	if (keeper->end_fd >= 0)
		close(keeper->end_fd);
	if (keeper->pid > 0) {
		kill(keeper->pid, SIGCONT); /* if another process has stopped it */
		while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	free(keeper->closed);
	free(keeper);
}
