// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "helper/channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"

void channel__slice(int fd)
{
	const struct timeval slice = { .tv_usec = CHANNEL_SLICE_MS * 1000 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof(slice));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof(slice));
}

int channel__pair(int ret_end[2])
{
	int end[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end))
		return -errno;
	channel__slice(end[0]);
	memcpy(ret_end, end, sizeof(end));
	return 0;
}

void channel__close(struct channel *channel)
{
	if (channel->fd >= 0)
		close(channel->fd);
	channel->fd = -1;
}

static int have_patience(const struct channel *channel)
{
	if (channel->until_ns && monotonic_now_ns() >= channel->until_ns)
		return -ETIMEDOUT;
	return channel->is_too_long ? channel->is_too_long(channel->who) : 0;
}

/* Called after a failed send or receive. 0: try again. */
static int check_channel_retry(const struct channel *channel)
{
	if (errno == EINTR)
		return 0;
	if (errno != EAGAIN)
		return errno == ECONNRESET ? -EPIPE : -errno;
	return have_patience(channel);
}

/* Removes the bytes that were transferred from the front of the pieces. */
static void skip_sent_bytes(struct msghdr *msg, size_t sent)
{
	while (msg->msg_iovlen && sent >= msg->msg_iov->iov_len) {
		sent -= msg->msg_iov->iov_len;
		msg->msg_iov++;
		msg->msg_iovlen--;
	}
	if (msg->msg_iovlen) {
		msg->msg_iov->iov_base = (char *)msg->msg_iov->iov_base + sent;
		msg->msg_iov->iov_len -= sent;
	}
}

union with_fds {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(CHANNEL_FDS_MAX * sizeof(int))];
};

static void attach_fds(struct msghdr *msg, union with_fds *control, const int *fd, int fd_nr)
{
	memset(control, 0, sizeof(*control));
	control->header = (struct cmsghdr){
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(fd_nr * sizeof(*fd)),
	};
	memcpy(CMSG_DATA(&control->header), fd, fd_nr * sizeof(*fd));
	msg->msg_control = control;
	msg->msg_controllen = CMSG_SPACE(fd_nr * sizeof(*fd));
}

int channel__send_fds(const struct channel *channel, uint32_t kind, const struct iovec *piece, int piece_nr,
		      const int *fd, int fd_nr)
{
	struct iovec pieces[CHANNEL_PIECES_MAX + 1];
	struct message head = { .kind = kind };
	struct msghdr msg = { .msg_iov = pieces, .msg_iovlen = piece_nr + 1 };
	union with_fds control;
	int err = 0;

	for (int i = 0; i < piece_nr; i++) {
		pieces[i + 1] = piece[i];
		head.bytes += piece[i].iov_len;
	}
	pieces[0] = (struct iovec){ &head, sizeof(head) };
	if (fd_nr)
		attach_fds(&msg, &control, fd, fd_nr);
	while (!err && msg.msg_iovlen) {
		ssize_t sent = sendmsg(channel->fd, &msg, MSG_NOSIGNAL);

		if (sent < 0) {
			err = check_channel_retry(channel);
			continue;
		}
		msg.msg_control = NULL;
		msg.msg_controllen = 0;
		skip_sent_bytes(&msg, sent);
		if (msg.msg_iovlen)
			err = have_patience(channel);
	}
	return err;
}

int channel__send(const struct channel *channel, uint32_t kind, const struct iovec *piece,
		  int piece_nr, int fd)
{
	return channel__send_fds(channel, kind, piece, piece_nr, &fd, fd >= 0);
}

static int receive_message(const struct channel *channel, struct msghdr *msg)
{
	int err = 0;

	while (!err && msg->msg_iovlen) {
		ssize_t got = recvmsg(channel->fd, msg, MSG_CMSG_CLOEXEC);

		if (!got)
			return -EPIPE;
		if (got < 0) {
			err = check_channel_retry(channel);
			continue;
		}
		skip_sent_bytes(msg, got);
		if (msg->msg_iovlen)
			err = have_patience(channel); /* the message may come one byte at a time */
	}
	return err;
}

int channel__receive(const struct channel *channel, void *to, size_t bytes)
{
	struct iovec piece = { to, bytes };
	struct msghdr msg = { .msg_iov = &piece, .msg_iovlen = bytes ? 1 : 0 };

	return receive_message(channel, &msg);
}

/* Takes as many descriptors as came. The room is exactly for fd_nr: the kernel closes descriptors beyond it. */
static void take_fds(const struct msghdr *msg, int *ret_fd)
{
	const struct cmsghdr *header = CMSG_FIRSTHDR(msg);

	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
}

int channel__head_fds(const struct channel *channel, struct message *ret, int *ret_fd, int fd_nr)
{
	struct iovec piece = { ret, 1 };
	struct msghdr msg = { .msg_iov = &piece, .msg_iovlen = 1 };
	union with_fds control;
	int err;

	for (int i = 0; i < fd_nr; i++)
		ret_fd[i] = -1;
	if (fd_nr) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_LEN(fd_nr * sizeof(*ret_fd));
	}
	err = receive_message(channel, &msg); /* reads one byte: descriptors come with the first byte */
	if (!err)
		take_fds(&msg, ret_fd);
	if (!err)
		err = channel__receive(channel, (char *)ret + 1, sizeof(*ret) - 1);
	for (int i = 0; err && i < fd_nr; i++)
		if (ret_fd[i] >= 0)
			close(ret_fd[i]);
	return err;
}

int channel__head(const struct channel *channel, struct message *ret, int *ret_fd)
{
	return channel__head_fds(channel, ret, ret_fd, ret_fd ? 1 : 0);
}

int channel__answer(const struct channel *channel, uint32_t kind, void *to, size_t bytes, int *ret_fd)
{
	struct message head;
	int err = channel__head(channel, &head, ret_fd);

	if (err)
		return err;
	err = head.kind != kind || head.bytes != bytes ? -EPROTO : channel__receive(channel, to, bytes);
	if (err && ret_fd && *ret_fd >= 0)
		close(*ret_fd);
	return err;
}

bool channel__is_quiet(const struct channel *channel)
{
	struct pollfd end = { .fd = channel->fd, .events = POLLIN };

	return channel->fd >= 0 && !poll(&end, 1, 0);
}
