// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sandbox/fork_server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helper/helper.h"
#include "helper/channel.h"
#include "sandbox/messages.h"
#include "sandbox/seccomp.h"

#define PATIENCE_SLICES (10000 / CHANNEL_SLICE_MS) /* the spawner has little to do */

struct renewed {
	int32_t pid; /* or a negative errno */
	int32_t status;
};

/* ---- in the spawner ---- */

static __attribute__((noreturn)) void be_reader(int fd, read_fn read, uint64_t memory_bytes,
						pid_t parent)
{
	prctl(PR_SET_NAME, "allocsnap-names");
	if (dup2(fd, CONFINED_FD) < 0 || syscall(SYS_close_range, CONFINED_FD + 1, ~0u, 0) ||
	    confine_to_reading(memory_bytes, parent))
		_exit(127);
	if (!channel__send(&(struct channel){ .fd = CONFINED_FD }, READY, NULL, 0, -1))
		read(CONFINED_FD);
	_exit(0);
}

/* If the reader has ended before, its exit status is still available. */
static void end_reader(pid_t reader, int *ret_status)
{
	if (reader <= 0)
		return;
	kill(reader, SIGKILL);
	waitpid(reader, ret_status, 0);
}

static __attribute__((noreturn)) void be_fork_server(int fd, read_fn read, uint64_t memory_bytes)
{
	const struct channel orders = { .fd = CONFINED_FD };
	struct renewed renewed = { .status = -1 };
	pid_t reader = 0, self = getpid(), parent = getppid();
	struct message order;
	int end, recording;

	prctl(PR_SET_NAME, "allocsnap-spawn");
	child_show_as("allocsnap: reads ELF files, without privileges");
	if (confine_drop_rights(fd))
		_exit(127);
	recording = syscall(SYS_pidfd_open, parent, 0);
	while (child_has_order(recording) && !channel__head(&orders, &order, &end)) {
		end_reader(reader, &renewed.status);
		reader = end < 0 ? -EBADF : fork();
		if (!reader)
			be_reader(end, read, memory_bytes, self);
		close(end);
		renewed.pid = reader < 0 ? -EAGAIN : reader;
		if (channel__send(&orders, HERE_IS, &(struct iovec){ &renewed, sizeof(renewed) }, 1, -1))
			break;
	}
	end_reader(reader, &renewed.status);
	_exit(0);
}

/* ---- in the recording process ---- */

int fork_server__start(struct fork_server *fork_server, read_fn read, uint64_t memory_bytes)
{
	int end[2];
	int err = channel__pair(end);

	*fork_server = (struct fork_server){ .fd = -1, .end_fd = -1 };
	if (err)
		return err;
	fork_server->pid = fork();
	if (!fork_server->pid)
		be_fork_server(end[1], read, memory_bytes);
	close(end[1]);
	if (fork_server->pid < 0) {
		err = -errno;
		close(end[0]);
		return err;
	}
	fork_server->fd = end[0];
	fork_server->end_fd = syscall(SYS_pidfd_open, fork_server->pid, 0);
	if (fork_server->end_fd >= 0)
		return 0;
	err = -errno;
	fork_server__stop(fork_server);
	return err;
}

static int is_fork_server_too_slow(void *slices)
{
	return --*(int *)slices < 0 ? -ETIMEDOUT : 0;
}

static int receive_renewed(const struct channel *orders, struct renewed *ret)
{
	struct message head;
	int err = channel__head(orders, &head, NULL);

	if (!err && head.bytes != sizeof(*ret))
		err = -EPROTO;
	return err ?: channel__receive(orders, ret, sizeof(*ret));
}

/*
 * Receives the late answer to an earlier order, which names another process and must not pass for
 * the answer to the next order. If there is none yet (another process has stopped the spawner),
 * this costs a short wait for each file.
 */
static int catch_up(struct fork_server *fork_server)
{
	struct renewed late;
	int slices = 0;
	int err = receive_renewed(&(struct channel){ fork_server->fd, is_fork_server_too_slow, &slices }, &late);

	fork_server->owes_answer = err;
	return err;
}

int fork_server__renew(struct fork_server *fork_server, int fd, pid_t *ret_pid, int *ret_status)
{
	int slices = PATIENCE_SLICES;
	const struct channel orders = { fork_server->fd, is_fork_server_too_slow, &slices };
	struct renewed renewed;
	int err = fork_server->fd < 0 ? -EPIPE : 0;

	if (!err && fork_server->owes_answer)
		err = catch_up(fork_server);
	if (!err)
		err = channel__send(&orders, HERE_IS, NULL, 0, fd);
	if (!err) {
		err = receive_renewed(&orders, &renewed);
		fork_server->owes_answer = err;
	}
	if (!err && renewed.pid < 0)
		err = renewed.pid;
	if (err)
		return err;
	*ret_pid = renewed.pid;
	*ret_status = renewed.status;
	return 0;
}

void fork_server__stop(struct fork_server *fork_server)
{
	if (fork_server->fd < 0)
		return;
	close(fork_server->fd);
	if (fork_server->end_fd >= 0)
		close(fork_server->end_fd);
	fork_server->fd = fork_server->end_fd = -1;
	kill(fork_server->pid, SIGCONT); /* in case another process has stopped it */
	waitpid(fork_server->pid, NULL, 0);
}
