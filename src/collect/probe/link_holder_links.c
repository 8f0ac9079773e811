// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs in the keeper (link_holder.h). A link's number is never reused, so an order about an ended link cannot hit
 * another one.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/privileges.h"
#include "helper/helper.h"
#include "collect/probe/detach.h"
#include "collect/process/file_identity.h"
#include "collect/probe/file_watch.h"
#include "collect/probe/kept_samplers.h"
#include "collect/probe/link_holder_orders.h"
#include "collect/probe/uprobe_multi.h"

/* To stop a process of any user, to write to its memory, and to be the next one that runs meanwhile. */
#define TO_EJECT \
	(CAPABILITY(CAP_SYS_PTRACE) | CAPABILITY(CAP_SYS_ADMIN) | CAPABILITY(CAP_DAC_OVERRIDE) | \
	 CAPABILITY(CAP_CHECKPOINT_RESTORE) | CAPABILITY(CAP_SYS_NICE))

struct kept_link {
	int number, fd;
	size_t file; /* index into links->file */
};

/* A file with links. */
struct kept_file {
	int fd; /* a separate open file, because a lease belongs to it; -1: the index is free */
	struct file_identity identity;
	int watch; /* negative: none */
	bool has_lease;
	size_t link_nr;
};

struct links {
	struct kept_link *link;
	size_t link_nr, link_alloc;
	int last_number;
	struct kept_file *file;
	size_t file_nr, file_alloc;
	struct detacher detacher;
	struct file_watch watch;
	int lease_fd; /* readable: a process wants to write to a file with a lease */
	struct link_holder_answer *news; /* packets still to be sent */
	size_t news_nr, news_alloc;
	struct kept_samplers samplers;
};

static void queue_link_holder_news(struct links *links, enum link_holder_news what, int value)
{
	const struct link_holder_answer news = { what, value };

	(void)!array_push(links, news, news); /* or the recording notices it when it checks the file next */
}

/* ---- files ---- */

static struct kept_file *find_kept_file(const struct links *links, const struct file_identity *identity)
{
	for (size_t i = 0; i < links->file_nr; i++)
		if (links->file[i].fd >= 0 && file_identity_is_same_inode(&links->file[i].identity, identity))
			return &links->file[i];
	return NULL;
}

static struct kept_file *new_file(struct links *links)
{
	const struct kept_file none = { .fd = -1 };

	for (size_t i = 0; i < links->file_nr; i++)
		if (links->file[i].fd < 0)
			return &links->file[i];
	return array_push(links, file, none) ? NULL : &links->file[links->file_nr - 1];
}

/* 0, even if there can be no lease; -ETXTBSY: the file is open for writing. */
static int take_lease(struct kept_file *file)
{
	file->has_lease = !fcntl(file->fd, F_SETLEASE, F_RDLCK);
	return !file->has_lease && errno == EAGAIN ? -ETXTBSY : 0;
}

/* Closes the file after the links in held[] have ended: a writer waits for that. */
static void forget_file(struct links *links, struct kept_file *file, struct held_probes *held, size_t nr)
{
	held[nr] = (struct held_probes){ .fd = file->fd, .has_lease = file->has_lease };
	if (file->watch >= 0)
		file_watch_remove(&links->watch, file->watch);
	file->fd = -1;
	if (nr)
		detach_begin(&links->detacher, held, nr + 1);
	else
		detach_now(held);
}

/* Opens the file and watches it: from here on a writer is reported, or has to wait. */
static int add_file(struct links *links, const struct file_identity *identity, int fd, struct kept_file **ret)
{
	struct kept_file *file = new_file(links);
	int err = file ? 0 : -ENOMEM;
	char path[32];

	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*file = (struct kept_file){ .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), .identity = *identity };
	if (file->fd < 0)
		return -errno;
	file->watch = file_watch_add(&links->watch, file->fd);
	err = take_lease(file);
	if (err)
		forget_file(links, file, &(struct held_probes){}, 0);
	else if (file->watch < 0 && !file->has_lease)
		queue_link_holder_news(links, KEEPER_UNWATCHED, file->watch);
	*ret = file;
	return err;
}

/* The places are valid only for a file with these bytes. */
static int check_file(const struct kept_file *file, const struct file_identity *wanted)
{
	struct file_identity now;
	int err = file_identity_read(file->fd, &now);

	return err ?: file_identity_is_unwritten(&now, wanted) ? 0 : -ESTALE;
}

/* ---- links ---- */

static void end_kept_link(struct links *links, size_t i)
{
	struct held_probes held[2] = { { .fd = links->link[i].fd } };
	struct kept_file *file = &links->file[links->link[i].file];

	memmove(links->link + i, links->link + i + 1, (--links->link_nr - i) * sizeof(*links->link));
	if (--file->link_nr)
		detach_begin(&links->detacher, held, 1);
	else
		forget_file(links, file, held, 1);
}

static int create_kept_link(struct links *links, const struct link_holder_order *order, int program_fd,
			    struct kept_file *file)
{
	struct uprobe_multi uprobes = {
		.pid = order->pid,
		.attach_type = order->attach_type,
		.of_returns = order->of_returns,
		.nr = order->nr,
		.offset = order->places,
		.cookie = order->places + order->nr,
		.semaphore = order->places + 2 * order->nr,
	};
	struct kept_link link = { .number = links->last_number + 1, .file = file - links->file };
	char path[32];
	int err;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	uprobes.path = path;
	link.fd = uprobe_multi_attach(program_fd, &uprobes);
	if (link.fd < 0)
		return link.fd;
	err = array_push(links, link, link);
	if (err) {
		close(link.fd);
		return err;
	}
	file->link_nr++;
	return ++links->last_number;
}

static int attach_kept_link(struct links *links, const struct link_holder_order *order, const int fd[KEEPER_FD_NR])
{
	struct kept_file *file = find_kept_file(links, &order->file);
	int err = file ? 0 : add_file(links, &order->file, fd[KEEPER_FILE], &file), link;

	if (err)
		return err;
	err = check_file(file, &order->file);
	link = err ?: create_kept_link(links, order, fd[KEEPER_PROGRAM], file);
	if (!file->link_nr)
		forget_file(links, file, &(struct held_probes){}, 0);
	return link;
}

static void detach_kept_link(struct links *links, int number)
{
	for (size_t i = links->link_nr; i-- > 0;)
		if (links->link[i].number == number)
			return end_kept_link(links, i);
}

/* Uses one thread for each link: all breakpoints are removed at once, those of frees last. */
static void end_all_kept_links(struct links *links)
{
	while (links->link_nr)
		end_kept_link(links, links->link_nr - 1);
	detach_end(&links->detacher);
}

/* ---- files that are written to ---- */

/* Ends all links of a file in one thread, those of frees last; then gives up the lease. */
static void end_file(struct links *links, size_t index)
{
	struct kept_file *file = &links->file[index];
	struct held_probes *held = calloc(file->link_nr + 1, sizeof(*held));
	size_t nr = 0;

	for (size_t i = links->link_nr; i-- > 0;) {
		if (links->link[i].file != index)
			continue;
		queue_link_holder_news(links, KEEPER_CLOSED, links->link[i].number);
		if (!held) {
			end_kept_link(links, i);
			continue;
		}
		held[nr++] = (struct held_probes){ .fd = links->link[i].fd };
		memmove(links->link + i, links->link + i + 1, (--links->link_nr - i) * sizeof(*links->link));
	}
	if (held)
		forget_file(links, file, held, nr);
	free(held);
}

static bool must_release_file(const struct kept_file *file, int written)
{
	if (file->has_lease && fcntl(file->fd, F_GETLEASE) != F_RDLCK)
		return true; /* a process is waiting to open it for writing */
	return written == FILE_WATCH_ALL || (written >= 0 && file->watch == written);
}

static void end_written(struct links *links)
{
	struct signalfd_siginfo info;
	int written;

	(void)!read(links->lease_fd, &info, sizeof(info));
	do {
		written = file_watch_next(&links->watch);
		for (size_t i = 0; i < links->file_nr; i++)
			if (links->file[i].fd >= 0 && must_release_file(&links->file[i], written))
				end_file(links, i);
	} while (written != FILE_WATCH_NONE);
}

static int run_link_holder_order(struct links *links, const struct link_holder_order *order, const int fd[KEEPER_FD_NR])
{
	switch (order->what) {
	case KEEPER_ATTACH:
		return attach_kept_link(links, order, fd);
	case KEEPER_DETACH:
		detach_kept_link(links, order->link);
		return 0;
	case KEEPER_DETACHING:
		return detach_pending(&links->detacher);
	case KEEPER_SETTLE:
		detach_end(&links->detacher);
		return 0;
	case KEEPER_HOLD_SAMPLER:
		return kept_samplers_add(&links->samplers, order->pid);
	case KEEPER_SAMPLER_FILES:
		return kept_samplers_tell_files(&links->samplers, order->pid, (const struct inject_file *)order->places,
						order->nr);
	}
	return -EPROTO;
}

/* ---- messages ---- */

/* Sends as many as the socket accepts: the recording reads them when it has time. */
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
 * Handles writes to the files until there is an order. False: the recording has ended. The recording's end of the
 * socket may stay open in its children.
 */
static bool has_order(struct links *links, int recording)
{
	struct pollfd fds[] = {
		{ .fd = CHILD_FD, .events = POLLIN }, { .fd = recording, .events = POLLIN },
		{ .fd = links->watch.fd, .events = POLLIN }, { .fd = links->lease_fd, .events = POLLIN },
	};

	do {
		fds[0].events = POLLIN | (links->news_nr ? POLLOUT : 0);
		if (poll(fds, 4, -1) < 0 && errno != EINTR)
			return false;
		if (fds[2].revents || fds[3].revents)
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

/* Returns the length of the order; 0: there will be no more orders. */
static size_t receive_link_holder_order(struct link_holder_order *order, int ret_fd[KEEPER_FD_NR])
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

static bool is_whole(const struct link_holder_order *order, size_t bytes)
{
	return bytes >= sizeof(*order) &&
	       bytes == sizeof(*order) + 3 * sizeof(*order->places) * order->nr;
}

static bool serve_ejection(struct links *links, pid_t pid)
{
	struct link_holder_ejection ejection = { .what = KEEPER_ANSWER };

	kept_samplers_eject(&links->samplers, pid, &ejection);
	return send(CHILD_FD, &ejection, sizeof(ejection), MSG_NOSIGNAL) == sizeof(ejection);
}

static bool serve_link_holder_order(struct links *links, struct link_holder_order *order)
{
	int fd[KEEPER_FD_NR];
	size_t bytes = receive_link_holder_order(order, fd);
	struct link_holder_answer answer = { KEEPER_ANSWER };

	if (!bytes || !is_whole(order, bytes))
		return false;
	if (order->what == KEEPER_EJECT)
		return serve_ejection(links, order->pid);
	answer.value = run_link_holder_order(links, order, fd);
	for (int i = 0; i < KEEPER_FD_NR; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	return order->what == KEEPER_DETACH ||
	       send(CHILD_FD, &answer, sizeof(answer), MSG_NOSIGNAL) == sizeof(answer);
}

/* A descriptor that is readable when a process opens a leased file for writing. */
static int hear_of_leases(void)
{
	sigset_t lease;

	sigemptyset(&lease);
	sigaddset(&lease, SIGIO);
	sigprocmask(SIG_BLOCK, &lease, NULL);
	return signalfd(-1, &lease, SFD_NONBLOCK | SFD_CLOEXEC);
}

/*
 * Runs in its own session, so that signals from a terminal or a shell to the recording's group do not reach it.
 * The program pays for each trap until a pause has started, so the keeper has a high priority.
 */
void keep_links(int fd, pid_t recording, bool ejects)
{
	struct link_holder_order *order = malloc(KEEPER_ORDER_BYTES_MOST);
	struct links links = {};
	int recording_fd;

	setsid();
	prctl(PR_SET_NAME, "allocsnap-links");
	child_show_as("allocsnap: places probes, and takes them away");
	if (!order || child_keep_only(fd))
		_exit(127);
	child_ignore_signals();
	setpriority(PRIO_PROCESS, 0, -20);
	file_watch_open(&links.watch); /* if this fails, each link is reported as unwatched */
	links.lease_fd = hear_of_leases();
	/*
	 * A link needs no privilege once the program is loaded. Watching a file needs the right to read it, or to
	 * lease it.
	 */
	capabilities_keep(CAPABILITY(CAP_DAC_READ_SEARCH) | CAPABILITY(CAP_LEASE) | (ejects ? TO_EJECT : 0));
	recording_fd = syscall(SYS_pidfd_open, recording, 0);
	while (recording_fd >= 0 && has_order(&links, recording_fd) && serve_link_holder_order(&links, order))
		;
	end_all_kept_links(&links);
	kept_samplers_eject_all(&links.samplers);
	_exit(0);
}
