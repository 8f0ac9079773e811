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

struct link_holder {
	pid_t pid;
	int fd;
	int end_fd;
	int *closed; /* links that the keeper has reported closed, not yet returned by link_holder__next_closed() */
	size_t closed_nr, closed_alloc;
	int unwatched; /* errno of the last file that could not be watched */
	uint64_t unwatched_nr; /* files so far */
	int unwatched_told; /* what link_holder__next_unwatched() returned last */
	uint64_t unwatched_told_nr;
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

static int send_link_holder_order(const struct link_holder *link_holder, const struct msghdr *msg)
{
	ssize_t sent;

	while ((sent = sendmsg(link_holder->fd, msg, MSG_NOSIGNAL)) < 0 && errno == EINTR)
		;
	if (sent >= 0)
		return 0;
	return errno == ECONNRESET ? -EPIPE : -errno;
}

/* False: there is no packet, or the keeper has ended. */
static bool receive_link_holder_answer(const struct link_holder *link_holder, struct link_holder_answer *ret, int flags)
{
	ssize_t got;

	while ((got = recv(link_holder->fd, ret, sizeof(*ret), flags)) < 0 && errno == EINTR)
		;
	return got == sizeof(*ret);
}

/* If there is no memory for a link's number, the recording notices it when it checks the file next. */
static void store_link_holder_news(struct link_holder *link_holder, const struct link_holder_answer *news)
{
	if (news->what != KEEPER_UNWATCHED) {
		(void)!array_push(link_holder, closed, news->value);
		return;
	}
	link_holder->unwatched = -news->value;
	link_holder->unwatched_nr++;
}

static int await_link_holder_answer(struct link_holder *link_holder)
{
	struct link_holder_answer answer;

	while (receive_link_holder_answer(link_holder, &answer, 0)) {
		if (answer.what == KEEPER_ANSWER)
			return answer.value;
		store_link_holder_news(link_holder, &answer);
	}
	return -EPIPE;
}

static void receive_link_holder_news(struct link_holder *link_holder)
{
	struct link_holder_answer news;

	while (receive_link_holder_answer(link_holder, &news, MSG_DONTWAIT))
		store_link_holder_news(link_holder, &news);
}

int link_holder__next_closed(struct link_holder *link_holder)
{
	if (!link_holder->closed_nr)
		receive_link_holder_news(link_holder);
	return link_holder->closed_nr ? link_holder->closed[--link_holder->closed_nr] : 0;
}

int link_holder__next_unwatched(struct link_holder *link_holder, uint64_t *ret_nr)
{
	int err = link_holder->unwatched;

	if (err == link_holder->unwatched_told && link_holder->unwatched_nr < 2 * link_holder->unwatched_told_nr)
		return 0;
	*ret_nr = link_holder->unwatched_told_nr = link_holder->unwatched_nr;
	link_holder->unwatched_told = err;
	return err;
}

int link_holder__news_fd(const struct link_holder *link_holder)
{
	return link_holder->fd;
}

/* An answer to KEEPER_EJECT is longer than others, and begins as they do. */
static int await_ejection(struct link_holder *link_holder, struct link_holder_ejection *ret)
{
	ssize_t got;

	while ((got = recv(link_holder->fd, ret, sizeof(*ret), 0)) > 0 || (got < 0 && errno == EINTR)) {
		if (got == sizeof(*ret) && ret->what == KEEPER_ANSWER)
			return ret->value;
		if (got == sizeof(struct link_holder_answer))
			store_link_holder_news(link_holder, (const struct link_holder_answer *)ret);
	}
	*ret = (struct link_holder_ejection){ .value = -EPIPE };
	return -EPIPE;
}

static int order_for_process(const struct link_holder *link_holder, enum link_holder_what what, pid_t pid)
{
	struct link_holder_order head = { .what = what, .pid = pid };
	struct iovec piece = { &head, sizeof(head) };

	return send_link_holder_order(link_holder, &(struct msghdr){ .msg_iov = &piece, .msg_iovlen = 1 });
}

pid_t link_holder__pid(const struct link_holder *link_holder)
{
	return link_holder->pid;
}

int link_holder__hold_sampler(struct link_holder *link_holder, pid_t pid)
{
	return order_for_process(link_holder, KEEPER_HOLD_SAMPLER, pid) ?: await_link_holder_answer(link_holder);
}

int link_holder__tell_files(struct link_holder *link_holder, pid_t pid, const struct inject_file *file, uint32_t nr)
{
	struct link_holder_order head = { .what = KEEPER_SAMPLER_FILES, .pid = pid, .nr = nr };
	struct iovec pieces[] = { { &head, sizeof(head) }, { (void *)file, nr * sizeof(*file) } };
	int err = send_link_holder_order(link_holder, &(struct msghdr){ .msg_iov = pieces, .msg_iovlen = 2 });

	return err ?: await_link_holder_answer(link_holder);
}

int link_holder__eject(struct link_holder *link_holder, pid_t pid, struct link_holder_ejection *ret)
{
	int err = order_for_process(link_holder, KEEPER_EJECT, pid);

	*ret = (struct link_holder_ejection){ .value = err };
	return err ?: await_ejection(link_holder, ret);
}

static int order_simply(const struct link_holder *link_holder, enum link_holder_what what, int link)
{
	struct link_holder_order head = { .what = what, .link = link };
	struct iovec piece = { &head, sizeof(head) };

	return send_link_holder_order(link_holder, &(struct msghdr){ .msg_iov = &piece, .msg_iovlen = 1 });
}

int link_holder__attach(struct link_holder *link_holder, int program_fd, int fd, const struct file_identity *file,
		   const struct uprobe_multi *uprobes)
{
	const int fds[KEEPER_FD_NR] = { [KEEPER_PROGRAM] = program_fd, [KEEPER_FILE] = fd };
	struct link_holder_order head = {
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
		{ (void *)uprobes->semaphore, uprobes->nr * sizeof(*uprobes->semaphore) },
	};
	struct msghdr msg = { .msg_iov = pieces, .msg_iovlen = 4 };
	union with_fds control;
	int err;

	add_fds(&msg, &control, fds);
	err = send_link_holder_order(link_holder, &msg);
	return err ?: await_link_holder_answer(link_holder);
}

void link_holder__detach(struct link_holder *link_holder, int link)
{
	order_simply(link_holder, KEEPER_DETACH, link); /* if this fails, the link has ended with the keeper */
}

size_t link_holder__detaching_nr(struct link_holder *link_holder)
{
	int nr = order_simply(link_holder, KEEPER_DETACHING, 0) ?: await_link_holder_answer(link_holder);

	return nr < 0 ? 0 : nr;
}

void link_holder__settle(struct link_holder *link_holder)
{
	if (!order_simply(link_holder, KEEPER_SETTLE, 0))
		await_link_holder_answer(link_holder);
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

static int start_link_holder(struct link_holder *link_holder, bool ejects)
{
	pid_t self = getpid();
	int end[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end))
		return -errno;
	link_holder->fd = end[0];
	link_holder->pid = fork_unheard();
	if (!link_holder->pid)
		keep_links(end[1], self, ejects);
	close(end[1]);
	if (link_holder->pid < 0)
		return -errno;
	link_holder->end_fd = syscall(SYS_pidfd_open, link_holder->pid, 0);
	return link_holder->end_fd < 0 ? -errno : 0;
}

struct link_holder *link_holder__open(bool ejects)
{
	struct link_holder *link_holder = malloc(sizeof(*link_holder));
	int err = link_holder ? 0 : -ENOMEM;

	if (!err) {
		*link_holder = (struct link_holder){ .fd = -1, .end_fd = -1 };
		err = start_link_holder(link_holder, ejects);
	}
	if (!err)
		return link_holder;
	link_holder__close(link_holder);
	errno = -err;
	return NULL;
}

int link_holder__end_fd(const struct link_holder *link_holder)
{
	return link_holder->end_fd;
}

bool link_holder__has_ended(const struct link_holder *link_holder)
{
	struct pollfd end = { .fd = link_holder->end_fd, .events = POLLIN };

	return poll(&end, 1, 0) > 0;
}

void link_holder__close(struct link_holder *link_holder)
{
	if (!link_holder)
		return;
	if (link_holder->fd >= 0)
		close(link_holder->fd);
	if (link_holder->end_fd >= 0)
		close(link_holder->end_fd);
	if (link_holder->pid > 0) {
		kill(link_holder->pid, SIGCONT); /* if another process has stopped it */
		while (waitpid(link_holder->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	free(link_holder->closed);
	free(link_holder);
}
