// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/link_holder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/privileges.h"
#include "inject/inject.h"
#include "collect/probe/detach.h"
#include "collect/probe/file_watch.h"
#include "collect/probe/kept_samplers.h"
#include "collect/probe/uprobe_multi.h"
#include "process/mapped_file.h"
#include "helper/helper.h"

/*
 * Messages. Each order is a struct link_holder_order, and gets one answer, except LINK_HOLDER_DETACH. The link holder also sends news
 * on its own, an int32_t, to report what it has done without an order.
 */
enum link_holder_what {
	LINK_HOLDER_ATTACH,	  /* with the descriptors of program and file. Answer: a link, or -errno */
	LINK_HOLDER_DETACH,	  /* ends a link */
	LINK_HOLDER_DETACHING, /* the answer is the number of links being ended */
	LINK_HOLDER_SETTLE,	  /* the answer 0 comes when none is being ended */
	LINK_HOLDER_HOLD_SAMPLER, /* the link holder ejects the sampler of a process when it ends. Answer: 0 or -errno */
	LINK_HOLDER_SAMPLER_FILES, /* the files of that sampler: nr struct inject_file. Answer: 0 or -errno */
	LINK_HOLDER_EJECT,	  /* ejects it now. The answer is a struct link_holder_ejection */

	LINK_HOLDER_ANSWER,	  /* int32_t, if no other is named */
	LINK_HOLDER_CLOSED,	  /* news: the link whose file was written to, and which is being ended */
	LINK_HOLDER_UNWATCHED, /* news: -errno; a link's file cannot be watched */
};

struct link_holder_order {
	int32_t link;
	uint32_t attach_type, of_returns;
	int32_t pid;
	uint32_t nr;
	struct file_identity file; /* the file that the places were found in */
	uint64_t places[]; /* for LINK_HOLDER_ATTACH: nr offsets, then nr cookies, then nr semaphores */
};
_Static_assert(sizeof(struct inject_file) == 3 * sizeof(uint64_t), "an order has nr times so much");

enum { LINK_HOLDER_PROGRAM, LINK_HOLDER_FILE, LINK_HOLDER_FD_NR };

#define LINK_HOLDER_ORDER_BYTES_MOST (256u << 10)

/*
 * ---- in the link holder ----
 *
 * A link's number is never reused, so an order about an ended link cannot hit another one.
 */

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
	int recording; /* readable when it has ended */
	struct channel orders;
	struct kept_link *link;
	size_t link_nr, link_alloc;
	int last_number;
	struct kept_file *file;
	size_t file_nr, file_alloc;
	struct detacher detacher;
	struct file_watch watch;
	int lease_fd; /* readable: a process wants to write to a file with a lease */
	struct link_holder_news {
		enum link_holder_what what;
		int32_t value;
	} *news; /* still to be sent */
	size_t news_nr, news_alloc;
	struct kept_samplers samplers;
};

static void queue_link_holder_news(struct links *links, enum link_holder_what what, int value)
{
	const struct link_holder_news news = { what, value };

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

	if (err)
		return err;
	*file = (struct kept_file){ .identity = *identity, .watch = file_watch_add(&links->watch, fd) };
	file->fd = file_lease_take(fd, &file->has_lease);
	err = file->fd < 0 ? file->fd : 0;
	if (err && file->watch >= 0)
		file_watch_remove(&links->watch, file->watch);
	else if (!err && file->watch < 0 && !file->has_lease)
		queue_link_holder_news(links, LINK_HOLDER_UNWATCHED, file->watch);
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

static int attach_kept_link(struct links *links, const struct link_holder_order *order, const int fd[LINK_HOLDER_FD_NR])
{
	struct kept_file *file = find_kept_file(links, &order->file);
	int err = file ? 0 : add_file(links, &order->file, fd[LINK_HOLDER_FILE], &file), link;

	if (err)
		return err;
	err = check_file(file, &order->file);
	link = err ?: create_kept_link(links, order, fd[LINK_HOLDER_PROGRAM], file);
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

/* Uses one thread for each link: all breakpoints are removed at once, the breakpoints of frees last. */
static void end_all_kept_links(struct links *links)
{
	while (links->link_nr)
		end_kept_link(links, links->link_nr - 1);
	detach_end(&links->detacher);
}

/* ---- files that are written to ---- */

/* Ends all links of a file in one thread, the links of frees last; then gives up the lease. */
static void end_file(struct links *links, size_t index)
{
	struct kept_file *file = &links->file[index];
	struct held_probes *held = calloc(file->link_nr + 1, sizeof(*held));
	size_t nr = 0;

	for (size_t i = links->link_nr; i-- > 0;) {
		if (links->link[i].file != index)
			continue;
		queue_link_holder_news(links, LINK_HOLDER_CLOSED, links->link[i].number);
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
	if (file->has_lease && file_lease_is_broken(file->fd))
		return true;
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

/* ---- orders in the link holder ---- */

static int run_link_holder_order(struct links *links, uint32_t what, const struct link_holder_order *order,
				 const int fd[LINK_HOLDER_FD_NR])
{
	switch (what) {
	case LINK_HOLDER_ATTACH:
		return attach_kept_link(links, order, fd);
	case LINK_HOLDER_DETACH:
		detach_kept_link(links, order->link);
		return 0;
	case LINK_HOLDER_DETACHING:
		return detach_pending(&links->detacher);
	case LINK_HOLDER_SETTLE:
		detach_end(&links->detacher);
		return 0;
	case LINK_HOLDER_HOLD_SAMPLER:
		return kept_samplers_add(&links->samplers, order->pid);
	case LINK_HOLDER_SAMPLER_FILES:
		return kept_samplers_tell_files(&links->samplers, order->pid, (const struct inject_file *)order->places,
						order->nr);
	}
	return -EPROTO;
}

/* Sends as many as the socket accepts: the recording reads them when it has time. */
static void send_news(struct links *links)
{
	struct pollfd room = { .fd = CHILD_FD, .events = POLLOUT };
	size_t sent = 0;

	for (; sent < links->news_nr && poll(&room, 1, 0) == 1 && room.revents == POLLOUT; sent++)
		channel__send(&links->orders, links->news[sent].what,
			      &(struct iovec){ &links->news[sent].value, sizeof(int32_t) }, 1, -1);
	links->news_nr -= sent;
	if (sent)
		memmove(links->news, links->news + sent, links->news_nr * sizeof(*links->news));
}

/*
 * Handles writes to the files until there is an order. False: the recording has ended. The recording's end of the
 * socket may stay open in its children.
 */
static bool has_order(struct links *links)
{
	struct pollfd fds[] = {
		{ .fd = CHILD_FD, .events = POLLIN }, { .fd = links->recording, .events = POLLIN },
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

static bool is_whole(const struct link_holder_order *order, size_t bytes)
{
	return bytes >= sizeof(*order) &&
	       bytes == sizeof(*order) + 3 * sizeof(*order->places) * order->nr;
}

/*
 * Runs while the rest of an order does not come. The recording may have been killed in the middle of the order, while a child
 * of it keeps the socket open. Or the recording is stopped, while another process writes to a file.
 */
static int look_around(void *links)
{
	const struct links *own = links;
	struct pollfd fds[] = {
		{ .fd = own->recording, .events = POLLIN }, { .fd = own->watch.fd, .events = POLLIN },
		{ .fd = own->lease_fd, .events = POLLIN },
	};

	poll(fds, 3, 0);
	if (fds[1].revents || fds[2].revents)
		end_written(links);
	return fds[0].revents ? -EPIPE : 0;
}

static int answer_recorder(const struct links *links, const void *answer, size_t bytes)
{
	return channel__send(&links->orders, LINK_HOLDER_ANSWER, &(struct iovec){ (void *)answer, bytes }, 1, -1);
}

static int serve_whole_order(struct links *links, uint32_t what, const struct link_holder_order *order,
			     const int fd[LINK_HOLDER_FD_NR])
{
	struct link_holder_ejection ejection = {};
	int32_t value;

	if (what == LINK_HOLDER_EJECT) {
		kept_samplers_eject(&links->samplers, order->pid, &ejection);
		return answer_recorder(links, &ejection, sizeof(ejection));
	}
	value = run_link_holder_order(links, what, order, fd);
	return what == LINK_HOLDER_DETACH ? 0 : answer_recorder(links, &value, sizeof(value));
}

/* An error: there will be no more orders. */
static int serve_link_holder_order(struct links *links, struct link_holder_order *order)
{
	struct message head;
	int fd[LINK_HOLDER_FD_NR];
	int err = channel__head_fds(&links->orders, &head, fd, LINK_HOLDER_FD_NR);

	if (err)
		return err;
	err = head.bytes > LINK_HOLDER_ORDER_BYTES_MOST ? -EPROTO : channel__receive(&links->orders, order, head.bytes);
	if (!err)
		err = is_whole(order, head.bytes) ? serve_whole_order(links, head.kind, order, fd) : -EPROTO;
	for (int i = 0; i < LINK_HOLDER_FD_NR; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	return err;
}

/* A descriptor that is readable when a process opens a leased file for writing. */
static int hear_of_leases(void)
{
	sigset_t lease;

	sigemptyset(&lease);
	sigaddset(&lease, LEASE_SIGNAL);
	sigprocmask(SIG_BLOCK, &lease, NULL);
	return signalfd(-1, &lease, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* The program pays for each trap until a pause has started, so the link holder has a high priority. */
static int keep_links(void *ejects, int recording)
{
	struct link_holder_order *order = malloc(LINK_HOLDER_ORDER_BYTES_MOST);
	struct links links = {
		.recording = recording,
		.orders = { .fd = CHILD_FD, .is_too_long = look_around, .who = &links },
	};

	channel__slice(CHILD_FD);
	setpriority(PRIO_PROCESS, 0, -20);
	file_watch_open(&links.watch); /* if this fails, each link is reported as unwatched */
	links.lease_fd = hear_of_leases();
	/*
	 * A link needs no privilege once the program is loaded. Watching a file needs the right to read it, or to
	 * lease it.
	 */
	capabilities_keep(CAPABILITY(CAP_DAC_READ_SEARCH) | CAPABILITY(CAP_LEASE) | (*(bool *)ejects ? TO_EJECT : 0));
	while (order && has_order(&links) && !serve_link_holder_order(&links, order))
		;
	end_all_kept_links(&links);
	kept_samplers_eject_all(&links.samplers);
	return 0;
}

/* ---- in the recording ---- */

struct link_holder {
	struct helper helper;
	int *closed; /* links that the link holder has reported closed, not yet returned by link_holder__next_closed() */
	size_t closed_nr, closed_alloc;
	int unwatched; /* errno of the last file that could not be watched */
	uint64_t unwatched_nr; /* files so far */
	int unwatched_told; /* what link_holder__next_unwatched() returned last */
	uint64_t unwatched_told_nr;
};

/* If there is no memory for a link's number, the recording notices it when it checks the file next. */
static void store_link_holder_news(struct link_holder *link_holder, uint32_t what, int32_t value)
{
	if (what == LINK_HOLDER_CLOSED) {
		(void)!array_push(link_holder, closed, value);
		return;
	}
	link_holder->unwatched = -value;
	link_holder->unwatched_nr++;
}

/* Receives the answer, or stores news. */
static int receive_from_link_holder(struct link_holder *link_holder, void *answer, size_t bytes, bool *ret_is_answer)
{
	const struct channel *channel = &link_holder->helper.channel;
	struct message head;
	int32_t value;
	int err = channel__head(channel, &head, NULL);
	bool is_answer = !err && head.kind == LINK_HOLDER_ANSWER;

	if (!err && head.bytes != (is_answer ? bytes : sizeof(value)))
		err = -EPROTO;
	if (!err)
		err = channel__receive(channel, is_answer ? answer : &value, head.bytes);
	if (!err && !is_answer)
		store_link_holder_news(link_holder, head.kind, value);
	*ret_is_answer = is_answer;
	return err;
}

static int await_link_holder(struct link_holder *link_holder, void *answer, size_t bytes)
{
	bool is_answer = false;
	int err = 0;

	while (!err && !is_answer)
		err = receive_from_link_holder(link_holder, answer, bytes, &is_answer);
	return err ? -EPIPE : 0;
}

static void receive_link_holder_news(struct link_holder *link_holder)
{
	bool is_answer = false;
	int err = 0;

	while (!err && !is_answer && !channel__is_quiet(&link_holder->helper.channel))
		err = receive_from_link_holder(link_holder, NULL, 0, &is_answer);
}

static int send_link_holder_order(const struct link_holder *link_holder, enum link_holder_what what,
				  struct link_holder_order order, const struct inject_file *file)
{
	const struct iovec pieces[] = { { &order, sizeof(order) }, { (void *)file, order.nr * sizeof(*file) } };

	return channel__send(&link_holder->helper.channel, what, pieces, ARRAY_SIZE(pieces), -1);
}

static int order_link_holder(struct link_holder *link_holder, enum link_holder_what what,
			     struct link_holder_order order, const struct inject_file *file)
{
	int32_t value;

	return send_link_holder_order(link_holder, what, order, file) ?:
	       await_link_holder(link_holder, &value, sizeof(value)) ?: value;
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
	return link_holder->helper.channel.fd;
}

pid_t link_holder__pid(const struct link_holder *link_holder)
{
	return link_holder->helper.pid;
}

int link_holder__hold_sampler(struct link_holder *link_holder, pid_t pid)
{
	return order_link_holder(link_holder, LINK_HOLDER_HOLD_SAMPLER, (struct link_holder_order){ .pid = pid }, NULL);
}

int link_holder__tell_files(struct link_holder *link_holder, pid_t pid, const struct inject_file *file, uint32_t nr)
{
	return order_link_holder(link_holder, LINK_HOLDER_SAMPLER_FILES, (struct link_holder_order){ .pid = pid, .nr = nr }, file);
}

int link_holder__eject(struct link_holder *link_holder, pid_t pid, struct link_holder_ejection *ret)
{
	int err = send_link_holder_order(link_holder, LINK_HOLDER_EJECT, (struct link_holder_order){ .pid = pid }, NULL) ?:
		  await_link_holder(link_holder, ret, sizeof(*ret));

	if (err)
		*ret = (struct link_holder_ejection){ .value = err };
	return ret->value;
}

int link_holder__attach(struct link_holder *link_holder, int program_fd, int fd, const struct file_identity *file,
		   const struct uprobe_multi *uprobes)
{
	const int fds[LINK_HOLDER_FD_NR] = { [LINK_HOLDER_PROGRAM] = program_fd, [LINK_HOLDER_FILE] = fd };
	struct link_holder_order head = {
		.attach_type = uprobes->attach_type,
		.of_returns = uprobes->of_returns,
		.pid = uprobes->pid,
		.nr = uprobes->nr,
		.file = *file,
	};
	const struct iovec pieces[] = {
		{ &head, sizeof(head) },
		{ (void *)uprobes->offset, uprobes->nr * sizeof(*uprobes->offset) },
		{ (void *)uprobes->cookie, uprobes->nr * sizeof(*uprobes->cookie) },
		{ (void *)uprobes->semaphore, uprobes->nr * sizeof(*uprobes->semaphore) },
	};
	int32_t link;

	if (sizeof(head) + 3 * sizeof(*head.places) * head.nr > LINK_HOLDER_ORDER_BYTES_MOST)
		return -EMSGSIZE;
	return channel__send_fds(&link_holder->helper.channel, LINK_HOLDER_ATTACH, pieces, ARRAY_SIZE(pieces), fds, LINK_HOLDER_FD_NR) ?:
	       await_link_holder(link_holder, &link, sizeof(link)) ?: link;
}

void link_holder__detach(struct link_holder *link_holder, int link)
{
	/* If this fails, the link has ended with the link holder. */
	send_link_holder_order(link_holder, LINK_HOLDER_DETACH, (struct link_holder_order){ .link = link }, NULL);
}

size_t link_holder__detaching_nr(struct link_holder *link_holder)
{
	int nr = order_link_holder(link_holder, LINK_HOLDER_DETACHING, (struct link_holder_order){}, NULL);

	return nr < 0 ? 0 : nr;
}

void link_holder__settle(struct link_holder *link_holder)
{
	order_link_holder(link_holder, LINK_HOLDER_SETTLE, (struct link_holder_order){}, NULL);
}

/* ---- begin and end ---- */

struct link_holder *link_holder__open(bool ejects)
{
	struct link_holder *link_holder = calloc(1, sizeof(*link_holder));
	int err;

	if (!link_holder)
		return NULL;
	err = helper__start(&(struct helper_plan){
		.name = "allocsnap-links",
		.shown = "allocsnap: places probes, and takes them away",
		.has_own_session = true,
		.work = keep_links,
		.self = &ejects,
	}, &link_holder->helper);
	if (!err)
		return link_holder;
	free(link_holder);
	errno = -err;
	return NULL;
}

const struct helper *link_holder__helper(const struct link_holder *link_holder)
{
	return &link_holder->helper;
}

void link_holder__close(struct link_holder *link_holder)
{
	if (!link_holder)
		return;
	helper__end(&link_holder->helper, SIGCONT);
	free(link_holder->closed);
	free(link_holder);
}
