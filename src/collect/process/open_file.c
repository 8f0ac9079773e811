// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/process/open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "collect/process/open_orders.h"
#include "helper/channel.h"

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20 /* Linux 5.12 */
#endif

#define MINUTE_NS (60 * SECOND_NS)
#define PATIENCE_NS (2 * SECOND_NS)
#define FAILURES_MAX 4	  /* number of failures that count: each halves the time limit */
#define SILENT_MAX 64
#define SILENCE_DOUBLED 6 /* at most 64 minutes */
#define OF_PATHS ~0u	  /* stands for the unknown device that a path leads to */

struct silent {
	uint32_t device;
	uint32_t times;
	uint64_t until_ns;
};

struct file_opener {
	pid_t pid;
	int fd;	    /* the socket to the process that starts workers; -1: there is none */
	int end_fd;
	file_system_fn ask;
	int program_fd;
	uint32_t own_device; /* of the recorder's own files: if that device hangs, so does the recorder */
	struct channel worker; /* fd is -1 if there is no worker */
	uint64_t deadline_ns;
	unsigned int failed_nr; /* failures, minus one for each minute since */
	uint64_t failed_at_ns;
	struct silent silent[SILENT_MAX];
	size_t silent_nr; /* never decreases: a new entry replaces the oldest */
};

/* ---- file systems that do not answer ---- */

static struct silent *find_silent(struct file_opener *opener, uint32_t device)
{
	for (size_t i = 0; device && i < opener->silent_nr && i < SILENT_MAX; i++)
		if (opener->silent[i].device == device)
			return &opener->silent[i];
	return NULL;
}

static bool is_left_alone(struct file_opener *opener, uint32_t device)
{
	const struct silent *silent = find_silent(opener, device);

	return silent && monotonic_now_ns() < silent->until_ns;
}

/* Returns true if this device was not known to be silent. */
static bool leave_alone(struct file_opener *opener, uint32_t device)
{
	struct silent *silent = find_silent(opener, device);
	bool is_new = !silent;

	if (!silent)
		silent = &opener->silent[opener->silent_nr++ % SILENT_MAX];
	if (is_new)
		*silent = (struct silent){ .device = device };
	silent->until_ns = monotonic_now_ns() + (MINUTE_NS << silent->times);
	silent->times += silent->times < SILENCE_DOUBLED && device != OF_PATHS;
	return is_new;
}

/* The time limit: the recording does nothing else meanwhile, and anyone can have many file systems. */
static uint64_t patience_ns(struct file_opener *opener)
{
	uint64_t minutes = (monotonic_now_ns() - opener->failed_at_ns) / MINUTE_NS;

	opener->failed_at_ns += minutes * MINUTE_NS;
	opener->failed_nr -= minutes < opener->failed_nr ? minutes : opener->failed_nr;
	return PATIENCE_NS >> opener->failed_nr;
}

static void count_failure(struct file_opener *opener)
{
	if (!opener->failed_nr)
		opener->failed_at_ns = monotonic_now_ns();
	opener->failed_nr += opener->failed_nr < FAILURES_MAX;
}

/* ---- workers ---- */

static int is_too_long(void *who)
{
	const struct file_opener *opener = who;

	return monotonic_now_ns() >= opener->deadline_ns ? -ETIMEDOUT : 0;
}

/* The worker ends itself: when it sees its socket closed, or by its alarm. */
static void dismiss_open_worker(struct file_opener *opener)
{
	if (opener->worker.fd >= 0)
		close(opener->worker.fd);
	opener->worker.fd = -1;
}

static int hire_open_worker(struct file_opener *opener)
{
	const struct channel orders = { opener->fd, is_too_long, opener };
	int end[2], err = channel__pair(end);

	if (err)
		return err;
	err = channel__send(&orders, OPEN_WORKER, NULL, 0, end[1]);
	close(end[1]);
	opener->worker = (struct channel){ end[0], is_too_long, opener };
	if (!err && opener->program_fd >= 0)
		err = channel__send(&opener->worker, OPEN_PROGRAM, NULL, 0, opener->program_fd);
	return err;
}

/* A worker sends nothing without an order: a readable socket means that it has ended. */
static bool is_waiting(const struct file_opener *opener)
{
	struct pollfd end = { .fd = opener->worker.fd, .events = POLLIN };

	return opener->worker.fd >= 0 && !poll(&end, 1, 0);
}

static int receive_open_answer(struct file_opener *opener, struct open_answer *answer, int *ret_fd)
{
	struct message head;
	int err = channel__head(&opener->worker, &head, ret_fd);

	if (err)
		return err;
	err = head.kind != OPEN_ANSWER || head.bytes != sizeof(*answer) ? -EPROTO : 0;
	if (!err)
		err = channel__receive(&opener->worker, answer, sizeof(*answer));
	if (err && *ret_fd >= 0)
		close(*ret_fd);
	return err;
}

/* Returns the descriptor, or a negative errno. */
static int send_open_order(struct file_opener *opener, enum open_order_kind kind, int given, const void *body,
			   size_t bytes, struct open_answer *answer)
{
	const struct iovec piece = { (void *)body, bytes };
	int fd = -1, err = 0;

	opener->deadline_ns = monotonic_now_ns() + patience_ns(opener);
	if (!is_waiting(opener)) {
		dismiss_open_worker(opener);
		err = hire_open_worker(opener);
	}
	if (!err)
		err = channel__send(&opener->worker, kind, &piece, 1, given);
	if (!err)
		err = receive_open_answer(opener, answer, &fd);
	if (err)
		dismiss_open_worker(opener);
	if (err == -ETIMEDOUT)
		count_failure(opener);
	if (err || answer->err)
		return err ?: answer->err;
	return fd < 0 ? -EPROTO : fd;
}

/* ---- files ---- */

static int open_again(int at)
{
	char again[64];
	struct stat st;

	snprintf(again, sizeof(again), "/proc/self/fd/%d", at);
	if (fstat(at, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENODEV;
	at = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* its owner may hold a lease, for 45 s after our call */
	return at < 0 ? -errno : at;
}

/* A file of an unknown file system may be stacked on any other. */
static enum file_system_kind kind_of(struct file_opener *opener, int at, struct file_system *ret)
{
	*ret = (struct file_system){ .fd = at };
	if (opener->ask(opener->program_fd, ret)) {
		*ret = (struct file_system){ 0 };
		return FILE_SYSTEM_STACKED;
	}
	return ret->device && ret->device == opener->own_device ? FILE_SYSTEM_LOCAL : file_system_kind(ret);
}

static int order_file(struct file_opener *opener, enum file_system_kind kind, int at,
		      struct file_system *of, struct opened_file *ret)
{
	struct open_answer answer = {};
	uint32_t device = of->device;
	int fd;

	if (is_left_alone(opener, device))
		return -ETIMEDOUT;
	if (kind == FILE_SYSTEM_STACKED)
		fd = send_open_order(opener, OPEN_STACKED, at, &opener->own_device, sizeof(device), &answer);
	else
		fd = send_open_order(opener, OPEN_REMOTE, at, NULL, 0, &answer);
	if (fd == -ETIMEDOUT && device)
		ret->is_first_silence = leave_alone(opener, device);
	ret->is_copy = answer.is_copy;
	if (kind == FILE_SYSTEM_STACKED && *answer.of.type)
		*of = answer.of;
	return fd;
}

/* Converts the kernel's form of a device (file_types.h) to that of struct mapped_file. */
static uint64_t device_of(const struct file_system *of)
{
	return (uint64_t)(of->device >> 20) << 32 | (of->device & 0xfffff);
}

void open_file(struct file_opener *opener, int at, struct opened_file *ret)
{
	struct file_system of = {};
	enum file_system_kind kind;

	*ret = (struct opened_file){ .fd = -1 };
	if (at < 0)
		return;
	kind = opener ? kind_of(opener, at, &of) : FILE_SYSTEM_LOCAL;
	ret->fd = kind == FILE_SYSTEM_LOCAL ? open_again(at) : order_file(opener, kind, at, &of, ret);
	close(at);
	memcpy(ret->type, of.type, sizeof(ret->type));
	if (ret->is_copy) {
		ret->dev = device_of(&of);
		ret->inode = of.inode;
		ret->file = of.file;
	}
	if (ret->fd < 0) {
		errno = -ret->fd;
		ret->fd = -1;
	}
}

/* After a path that led to a file system that does not answer, no path is followed for a minute. */
static int order_path(struct file_opener *opener, int dir, const char *path)
{
	struct open_answer answer = {};
	int at = is_left_alone(opener, OF_PATHS) ? -ETIMEDOUT :
		 send_open_order(opener, OPEN_BELOW, dir, path, strlen(path) + 1, &answer);

	if (at == -ETIMEDOUT && !is_left_alone(opener, OF_PATHS))
		leave_alone(opener, OF_PATHS);
	return at;
}

/* A path that the kernel has cached needs no answer from a file system. */
int open_below(struct file_opener *opener, const char *root, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | (opener ? RESOLVE_CACHED : 0),
	};
	int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), at;

	if (dir < 0)
		return -1;
	at = syscall(SYS_openat2, dir, path, &how, sizeof(how));
	if (at < 0 && opener && (errno == EAGAIN || errno == EINVAL)) {
		at = order_path(opener, dir, path);
		errno = at < 0 ? -at : 0;
	}
	close(dir);
	return at < 0 ? -1 : at;
}

const char *open_file_strerror(int errnum)
{
	if (errnum == ETIMEDOUT)
		return "its file system does not answer";
	if (errnum == EWOULDBLOCK)
		return "a process holds a lease on it";
	if (errnum == EFBIG)
		return "it is too large to copy from a file system that may stop answering";
	return strerror(errnum);
}

/* ---- begin and end ---- */

static int start_open_workers(struct file_opener *opener)
{
	pid_t self = getpid();
	int end[2], err = channel__pair(end);

	if (err)
		return err;
	opener->fd = end[0];
	opener->pid = fork();
	if (!opener->pid)
		open_workers_run(end[1], self, opener->ask);
	err = -errno;
	close(end[1]);
	if (opener->pid < 0)
		return err;
	opener->end_fd = syscall(SYS_pidfd_open, opener->pid, 0);
	return opener->end_fd < 0 ? -errno : 0;
}

struct file_opener *file_opener__new(file_system_fn ask)
{
	struct file_opener *opener = calloc(1, sizeof(*opener));
	int err = opener ? 0 : -ENOMEM;

	if (!err) {
		opener->fd = opener->end_fd = opener->worker.fd = opener->program_fd = -1;
		opener->ask = ask;
		err = start_open_workers(opener);
	}
	if (!err)
		return opener;
	file_opener__free(opener);
	errno = -err;
	return NULL;
}

/* Workers that hang are abandoned. */
void file_opener__free(struct file_opener *opener)
{
	if (!opener)
		return;
	dismiss_open_worker(opener);
	if (opener->fd >= 0)
		close(opener->fd);
	if (opener->end_fd >= 0)
		close(opener->end_fd);
	if (opener->pid > 0) {
		kill(opener->pid, SIGCONT); /* if another process has stopped it */
		waitpid(opener->pid, NULL, 0);
	}
	free(opener);
}

void file_opener__use(struct file_opener *opener, int program_fd)
{
	struct file_system own = {};

	opener->program_fd = program_fd;
	own.fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	if ((int)own.fd < 0)
		return;
	if (!opener->ask(program_fd, &own))
		opener->own_device = own.device;
	close(own.fd);
}

int file_opener__end_fd(const struct file_opener *opener)
{
	return opener->end_fd;
}

bool file_opener__has_ended(const struct file_opener *opener)
{
	struct pollfd end = { .fd = opener->end_fd, .events = POLLIN };

	return poll(&end, 1, 0) > 0;
}
