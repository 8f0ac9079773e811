// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Runs in the processes that open files for the recording (open_file.h). Each system call here may hang. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/privileges.h"
#include "helper/helper.h"
#include "base/file_copy.h"
#include "collect/process/open_orders.h"
#include "helper/channel.h"

struct worker {
	struct channel channel;
	file_system_fn ask;
	int program_fd;
};

/* ---- files ---- */

/* Opens only regular files: opening a device or a FIFO could have an effect. */
static int open_regular(int at)
{
	char again[64];
	struct stat st;
	int fd;

	if (fstat(at, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENODEV;
	snprintf(again, sizeof(again), "/proc/self/fd/%d", at);
	fd = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* Closes fd, and returns the descriptor of a copy. */
static int copy_remote_file(int fd, struct open_answer *answer)
{
	struct file_copy *copy = file_copy__new(fd, OPEN_COPY_MAX);
	int copied = copy ? fcntl(file_copy__fd(copy), F_DUPFD_CLOEXEC, 0) : -1;
	int err = -errno;

	file_copy__free(copy);
	close(fd);
	answer->is_copy = copied >= 0;
	return copied < 0 ? err : copied;
}

/* Maps a page of the file without reading it: the mapping shows which lower file system has the file. */
static void ask_where(const struct worker *worker, int fd, struct file_system *ret)
{
	const size_t bytes = sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);

	if (page == MAP_FAILED)
		return;
	ret->address = (uintptr_t)page;
	if (worker->ask(worker->program_fd, ret))
		*ret->type = '\0';
	munmap(page, bytes);
}

/* If the lower file system cannot be found out, the file is used directly: its open has been answered, at least. */
static int open_stacked(const struct worker *worker, int at, uint32_t local, struct open_answer *answer)
{
	int fd = open_regular(at);

	if (fd < 0)
		return fd;
	ask_where(worker, fd, &answer->of);
	if (!*answer->of.type || answer->of.device == local ||
	    file_system_kind(&answer->of) != FILE_SYSTEM_REMOTE)
		return fd;
	return copy_remote_file(fd, answer);
}

static int open_remote(int at, struct open_answer *answer)
{
	int fd = open_regular(at);

	return fd < 0 ? fd : copy_remote_file(fd, answer);
}

/* No link below that root leads out of it. */
static int open_below_root(int root, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int at = syscall(SYS_openat2, root, path, &how, sizeof(how));

	return at < 0 ? -errno : at;
}

/* ---- orders ---- */

static int run_open_order(struct worker *worker, const struct message *order, int given, const char *body,
			  struct open_answer *answer)
{
	uint32_t local;

	switch (order->kind) {
	case OPEN_BELOW:
		return open_below_root(given, body);
	case OPEN_STACKED:
		memcpy(&local, body, sizeof(local));
		return open_stacked(worker, given, local, answer);
	case OPEN_REMOTE:
		return open_remote(given, answer);
	}
	return -EPROTO;
}

static int serve_open_order(struct worker *worker, const struct message *order, int given)
{
	struct open_answer answer = {};
	char body[PATH_MAX] = "";
	int fd, err = order->bytes < sizeof(body) ? 0 : -EPROTO;

	if (!err)
		err = channel__receive(&worker->channel, body, order->bytes);
	if (err)
		return err;
	if (order->kind == OPEN_PROGRAM) {
		worker->program_fd = dup(given);
		return 0;
	}
	alarm(OPEN_ALARM_SECONDS);
	fd = run_open_order(worker, order, given, body, &answer);
	alarm(0);
	answer.err = fd < 0 ? fd : 0;
	err = channel__send(&worker->channel, OPEN_ANSWER,
			    &(struct iovec){ &answer, sizeof(answer) }, 1, fd);
	if (fd >= 0)
		close(fd);
	return err;
}

static __attribute__((noreturn)) void run_open_worker(int fd, file_system_fn ask, pid_t parent)
{
	struct worker worker = { .channel = { .fd = CHILD_FD }, .ask = ask, .program_fd = -1 };
	struct message order;
	int given, err = 0;

	prctl(PR_SET_NAME, "allocsnap-open");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || dup2(fd, CHILD_FD) < 0 ||
	    syscall(SYS_close_range, CHILD_FD + 1, ~0u, 0))
		_exit(127);
	while (!err && !channel__head(&worker.channel, &order, &given)) {
		err = serve_open_order(&worker, &order, given);
		if (given >= 0)
			close(given);
	}
	_exit(0);
}

/* ---- the process that starts workers ---- */

static int reap_open_workers(void)
{
	int nr = 0;

	while (waitpid(-1, NULL, WNOHANG) > 0)
		nr++;
	return nr;
}

void open_workers_run(int fd, int recording, file_system_fn ask)
{
	const struct channel orders = { .fd = CHILD_FD };
	pid_t self = getpid(), worker;
	struct message order;
	int end, worker_nr = 0;

	prctl(PR_SET_NAME, "allocsnap-files");
	child_show_as("allocsnap: opens files of file systems that may hang");
	if (child_keep_only(fd))
		_exit(127);
	child_ignore_signals();
	capabilities_keep(CAPABILITY(CAP_DAC_READ_SEARCH));
	recording = syscall(SYS_pidfd_open, recording, 0);
	while (child_has_order(recording) && !channel__head(&orders, &order, &end)) {
		worker_nr -= reap_open_workers();
		worker = end < 0 || worker_nr >= OPEN_WORKERS_MAX ? -1 : fork();
		if (!worker)
			run_open_worker(end, ask, self);
		worker_nr += worker > 0;
		if (end >= 0)
			close(end); /* if there is no worker, the closed end is the answer */
	}
	_exit(0);
}
