// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "helper/channel.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int channel__pair(int ret_end[2])
{
	const struct timeval slice = { .tv_usec = CHANNEL_SLICE_MS * 1000 };
	int end[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end))
		return -errno;
	setsockopt(end[0], SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof(slice));
	setsockopt(end[0], SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof(slice));
	memcpy(ret_end, end, sizeof(end));
	return 0;
}

static int have_patience(const struct channel *channel)
{
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

union with_fd {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static void attach_fd(struct msghdr *msg, union with_fd *control, int fd)
{
	memset(control, 0, sizeof(*control));
	control->header = (struct cmsghdr){
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(fd)),
	};
	memcpy(CMSG_DATA(&control->header), &fd, sizeof(fd));
	msg->msg_control = control;
	msg->msg_controllen = sizeof(*control);
}

int channel__send(const struct channel *channel, uint32_t kind, const struct iovec *piece,
		  int piece_nr, int fd)
{
	struct iovec pieces[CHANNEL_PIECES_MAX + 1];
	struct message head = { .kind = kind };
	struct msghdr msg = { .msg_iov = pieces, .msg_iovlen = piece_nr + 1 };
	union with_fd control;
	int err = 0;

	for (int i = 0; i < piece_nr; i++) {
		pieces[i + 1] = piece[i];
		head.bytes += piece[i].iov_len;
	}
	pieces[0] = (struct iovec){ &head, sizeof(head) };
	if (fd >= 0)
		attach_fd(&msg, &control, fd);
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

/* If the caller wants no descriptor, the kernel closes those that arrive. */
int channel__head(const struct channel *channel, struct message *ret, int *ret_fd)
{
	struct iovec piece = { ret, 1 };
	struct msghdr msg = { .msg_iov = &piece, .msg_iovlen = 1 };
	union with_fd control = {};
	int err;

	if (ret_fd) {
		*ret_fd = -1;
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	err = receive_message(channel, &msg); /* reads one byte: a descriptor comes with the first byte */
	if (!err && ret_fd && msg.msg_controllen >= sizeof(control.header) &&
	    control.header.cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(&control.header), sizeof(*ret_fd));
	if (!err)
		err = channel__receive(channel, (char *)ret + 1, sizeof(*ret) - 1);
	if (err && ret_fd && *ret_fd >= 0)
		close(*ret_fd);
	return err;
}
