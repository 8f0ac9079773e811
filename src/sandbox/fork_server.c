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

#include "base/child.h"
#include "sandbox/channel.h"
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

static __attribute__((noreturn)) void be_spawner(int fd, read_fn read, uint64_t memory_bytes)
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

int spawner__start(struct spawner *spawner, read_fn read, uint64_t memory_bytes)
{
	int end[2];
	int err = channel__pair(end);

	*spawner = (struct spawner){ .fd = -1, .end_fd = -1 };
	if (err)
		return err;
	spawner->pid = fork();
	if (!spawner->pid)
		be_spawner(end[1], read, memory_bytes);
	close(end[1]);
	if (spawner->pid < 0) {
		err = -errno;
		close(end[0]);
		return err;
	}
	spawner->fd = end[0];
	spawner->end_fd = syscall(SYS_pidfd_open, spawner->pid, 0);
	if (spawner->end_fd >= 0)
		return 0;
	err = -errno;
	spawner__stop(spawner);
	return err;
}

static int is_spawner_too_slow(void *slices)
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
static int catch_up(struct spawner *spawner)
{
	struct renewed late;
	int slices = 0;
	int err = receive_renewed(&(struct channel){ spawner->fd, is_spawner_too_slow, &slices }, &late);

	spawner->owes_answer = err;
	return err;
}

int spawner__renew(struct spawner *spawner, int fd, pid_t *ret_pid, int *ret_status)
{
	int slices = PATIENCE_SLICES;
	const struct channel orders = { spawner->fd, is_spawner_too_slow, &slices };
	struct renewed renewed;
	int err = spawner->fd < 0 ? -EPIPE : 0;

	if (!err && spawner->owes_answer)
		err = catch_up(spawner);
	if (!err)
		err = channel__send(&orders, HERE_IS, NULL, 0, fd);
	if (!err) {
		err = receive_renewed(&orders, &renewed);
		spawner->owes_answer = err;
	}
	if (!err && renewed.pid < 0)
		err = renewed.pid;
	if (err)
		return err;
	*ret_pid = renewed.pid;
	*ret_status = renewed.status;
	return 0;
}

void spawner__stop(struct spawner *spawner)
{
	if (spawner->fd < 0)
		return;
	close(spawner->fd);
	if (spawner->end_fd >= 0)
		close(spawner->end_fd);
	spawner->fd = spawner->end_fd = -1;
	kill(spawner->pid, SIGCONT); /* in case another process has stopped it */
	waitpid(spawner->pid, NULL, 0);
}
