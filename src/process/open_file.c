// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/file_copy.h"
#include "base/privileges.h"
#include "helper/spawner.h"

/* ---- file system ---- */

/* A file system that the table does not name, and that has no disk, is remote. */
static enum file_system_kind file_system_kind(const struct file_system *of)
{
	/* A process reads the disk of fuseblk. ZFS manages its disks itself. */
	static const struct {
		const char *type;
		enum file_system_kind kind;
	} rows[] = {
		{ "fuseblk", FILE_SYSTEM_REMOTE },
		{ "overlay", FILE_SYSTEM_STACKED }, { "aufs", FILE_SYSTEM_STACKED },
		{ "ecryptfs", FILE_SYSTEM_STACKED }, { "shiftfs", FILE_SYSTEM_STACKED },
		{ "tmpfs", FILE_SYSTEM_LOCAL }, { "devtmpfs", FILE_SYSTEM_LOCAL },
		{ "ramfs", FILE_SYSTEM_LOCAL }, { "rootfs", FILE_SYSTEM_LOCAL },
		{ "hugetlbfs", FILE_SYSTEM_LOCAL }, { "zfs", FILE_SYSTEM_LOCAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!strncmp(of->type, rows[i].type, sizeof(of->type)))
			return rows[i].kind;
	return of->flags & FILE_SYSTEM_HAS_DISK ? FILE_SYSTEM_LOCAL : FILE_SYSTEM_REMOTE;
}

/* ---- open file ---- */

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20 /* Linux 5.12 */
#endif

#define MINUTE_NS (60 * SECOND_NS)
#define PATIENCE_NS (2 * SECOND_NS)
#define ALARM_SECONDS 3	  /* a hanging worker kills itself then */
#define WORKERS_MAX 64	  /* workers that hang, each in another file system */
#define FAILURES_MAX 4	  /* number of failures that count: each halves the time limit */
#define SILENT_MAX 64
#define SILENCE_DOUBLED 6 /* at most 64 minutes */
#define OF_PATHS ~0u	  /* stands for the unknown device that a path leads to */

/* Each message carries a descriptor. Each order gets one answer, except OPEN_PROGRAM. */
enum open_order_kind {
	OPEN_PROGRAM, /* the BPF program file_system_of */
	OPEN_BELOW,   /* a path with its NUL; with the directory. The answer carries an O_PATH descriptor */
	OPEN_WITHOUT_LINKS, /* the same for a path without symbolic links */
	OPEN_STACKED, /* uint32_t, the device that counts as local; an O_PATH descriptor. Answer: file or copy */
	OPEN_REMOTE,  /* no body; with an O_PATH descriptor. The answer carries a copy */
	OPEN_ANSWER,  /* struct open_answer; with the opened file */
};

struct open_answer {
	int32_t err;
	uint32_t is_copy;
	struct file_system of; /* the file system below a stacked one; of.type is "" if it is not known */
};

struct silent {
	uint32_t device;
	uint32_t times;
	uint64_t until_ns;
};

struct file_opener {
	struct spawner spawner;
	file_system_fn ask;
	int program_fd;
	uint32_t own_device; /* of the recorder's own files: if that device hangs, so does the recorder */
	struct channel worker; /* fd is -1 if there is no worker */
	struct patience patience;
	struct silent silent[SILENT_MAX];
	size_t silent_nr; /* never decreases: a new entry replaces the oldest */
};

/* ---- files, opened here or in a worker ---- */

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
	fd = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* its owner may hold a lease, for 45 s after our call */
	return fd < 0 ? -errno : fd;
}

/* No link below that folder leads out of it. */
static int find_below(int root, const char *path, uint64_t resolve)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve,
	};
	int at = syscall(SYS_openat2, root, path, &how, sizeof(how));

	return at < 0 ? -errno : at;
}

/* ---- in a worker: each system call may hang ---- */

struct open_worker {
	struct channel channel;
	file_system_fn ask;
	int program_fd;
};

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
static void ask_where(file_system_fn ask, int program_fd, int fd, struct file_system *ret)
{
	const size_t bytes = sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);

	if (page == MAP_FAILED)
		return;
	ret->address = (uintptr_t)page;
	if (ask(program_fd, ret))
		*ret = (struct file_system){};
	munmap(page, bytes);
}

/* If the lower file system cannot be found out, the file is used directly: its open has been answered, at least. */
static int open_stacked(const struct open_worker *worker, int at, uint32_t local, struct open_answer *answer)
{
	int fd = open_regular(at);

	if (fd < 0)
		return fd;
	ask_where(worker->ask, worker->program_fd, fd, &answer->of);
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

static int run_open_order(struct open_worker *worker, const struct message *order, int given, const char *body,
			  struct open_answer *answer)
{
	uint32_t local;

	switch (order->kind) {
	case OPEN_BELOW:
		return find_below(given, body, 0);
	case OPEN_WITHOUT_LINKS:
		return find_below(given, body, RESOLVE_NO_SYMLINKS);
	case OPEN_STACKED:
		memcpy(&local, body, sizeof(local));
		return open_stacked(worker, given, local, answer);
	case OPEN_REMOTE:
		return open_remote(given, answer);
	}
	return -EPROTO;
}

static int serve_open_order(struct open_worker *worker, const struct message *order, int given)
{
	struct open_answer answer = {};
	char body[PATH_MAX] = "";
	int fd, err = order->bytes < sizeof(body) ? 0 : -EPROTO;

	err = err ?: channel__receive(&worker->channel, body, order->bytes);
	if (err)
		return err;
	if (order->kind == OPEN_PROGRAM) {
		worker->program_fd = dup(given);
		return 0;
	}
	alarm(ALARM_SECONDS);
	fd = run_open_order(worker, order, given, body, &answer);
	alarm(0);
	answer.err = fd < 0 ? fd : 0;
	err = channel__send(&worker->channel, OPEN_ANSWER,
			    &(struct iovec){ &answer, sizeof(answer) }, 1, fd);
	if (fd >= 0)
		close(fd);
	return err;
}

static int serve_open_orders(const void *opener)
{
	struct open_worker worker = {
		.channel = { .fd = CHILD_FD }, .ask = ((const struct file_opener *)opener)->ask, .program_fd = -1,
	};
	struct message order;
	int given, err = 0;

	while (!err && !channel__head(&worker.channel, &order, &given)) {
		err = serve_open_order(&worker, &order, given);
		if (given >= 0)
			close(given);
	}
	return 0;
}

static int keep_right_to_read(void)
{
	capabilities_keep(CAPABILITY(CAP_DAC_READ_SEARCH));
	return 0;
}

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

/* ---- workers ---- */

static int hire_open_worker(struct file_opener *opener, uint64_t until_ns)
{
	struct hired hired;
	int err = spawner__hire(&opener->spawner, until_ns, &hired);

	if (err)
		return err == -ETIMEDOUT ? err : -EPIPE;
	opener->worker = (struct channel){ .fd = hired.fd, .until_ns = until_ns };
	return opener->program_fd < 0 ? 0 : channel__send(&opener->worker, OPEN_PROGRAM, NULL, 0, opener->program_fd);
}

/* Returns the descriptor, or a negative errno. A worker whose socket is closed ends itself: at once, or by its alarm. */
static int send_open_order(struct file_opener *opener, enum open_order_kind kind, int given, const void *body,
			   size_t bytes, struct open_answer *answer)
{
	const struct iovec piece = { (void *)body, bytes };
	uint64_t until_ns;
	int fd = -1, err = 0;

	patience_recover(&opener->patience);
	until_ns = monotonic_now_ns() + (PATIENCE_NS >> opener->patience.failed_nr);
	if (!channel__is_quiet(&opener->worker)) {
		channel__close(&opener->worker);
		err = hire_open_worker(opener, until_ns);
	}
	opener->worker.until_ns = until_ns;
	err = err ?: channel__send(&opener->worker, kind, &piece, 1, given) ?:
	      channel__answer(&opener->worker, OPEN_ANSWER, answer, sizeof(*answer), &fd);
	if (err)
		channel__close(&opener->worker);
	if (err == -ETIMEDOUT)
		patience_lose(&opener->patience, FAILURES_MAX);
	if (err || answer->err)
		return err ?: answer->err;
	return fd < 0 ? -EPROTO : fd;
}

/* ---- files, opened for the recorder ---- */

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
	if (kind == FILE_SYSTEM_STACKED && *answer.of.type) {
		*of = answer.of;
		ret->below = answer.is_copy ? ret->below : answer.of.file;
	}
	return fd;
}

/* Converts a device from the kernel's form (file_types.h) to the form in struct mapped_file. */
static uint64_t device_of(const struct file_system *of)
{
	return (uint64_t)(of->device >> 20) << 32 | (of->device & 0xfffff);
}

static struct unwind_file ask_below(const struct file_opener *opener, int fd)
{
	struct file_system below = {};

	ask_where(opener->ask, opener->program_fd, fd, &below);
	return below.file;
}

void open_file(struct file_opener *opener, int at, struct opened_file *ret)
{
	struct file_system of = {};
	enum file_system_kind kind;

	*ret = (struct opened_file){ .fd = -1 };
	if (at < 0)
		return;
	kind = opener ? kind_of(opener, at, &of) : FILE_SYSTEM_LOCAL;
	ret->fd = kind == FILE_SYSTEM_LOCAL ? open_regular(at) : order_file(opener, kind, at, &of, ret);
	close(at);
	if (kind == FILE_SYSTEM_LOCAL && ret->fd >= 0 && file_system_kind(&of) == FILE_SYSTEM_STACKED)
		ret->below = ask_below(opener, ret->fd); /* our own files are local, whatever they lie on */
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
static int order_path(struct file_opener *opener, enum open_order_kind kind, int dir, const char *path)
{
	struct open_answer answer = {};
	int at = is_left_alone(opener, OF_PATHS) ? -ETIMEDOUT :
		 send_open_order(opener, kind, dir, path, strlen(path) + 1, &answer);

	if (at == -ETIMEDOUT && !is_left_alone(opener, OF_PATHS))
		leave_alone(opener, OF_PATHS);
	return at;
}

/* A path that the kernel has cached needs no answer from a file system. */
static int follow_path(struct file_opener *opener, enum open_order_kind kind, const char *root, const char *path)
{
	int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), at;

	if (dir < 0)
		return -1;
	at = find_below(dir, path, (opener ? RESOLVE_CACHED : 0) | (kind == OPEN_WITHOUT_LINKS ? RESOLVE_NO_SYMLINKS : 0));
	if (opener && (at == -EAGAIN || at == -EINVAL))
		at = order_path(opener, kind, dir, path);
	close(dir);
	if (at >= 0)
		return at;
	errno = -at;
	return -1;
}

int open_below(struct file_opener *opener, const char *root, const char *path)
{
	return follow_path(opener, OPEN_BELOW, root, path);
}

int open_below_without_links(struct file_opener *opener, const char *root, const char *path)
{
	return follow_path(opener, OPEN_WITHOUT_LINKS, root, path);
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

struct file_opener *file_opener__new(file_system_fn ask)
{
	struct file_opener *opener = calloc(1, sizeof(*opener));
	const struct spawner_plan plan = {
		.spawner = {
			.name = "allocsnap-files",
			.shown = "allocsnap: opens files of file systems that may hang",
			.give_up = keep_right_to_read,
		},
		.name = "allocsnap-open",
		.work = serve_open_orders,
		.self = opener,
		.worker_most = WORKERS_MAX,
	};
	int err;

	if (!opener)
		return NULL;
	opener->worker.fd = opener->program_fd = -1;
	opener->ask = ask;
	err = spawner__start(&opener->spawner, &plan);
	if (!err)
		return opener;
	free(opener);
	errno = -err;
	return NULL;
}

/* Workers that hang are abandoned. */
void file_opener__free(struct file_opener *opener)
{
	if (!opener)
		return;
	channel__close(&opener->worker);
	spawner__stop(&opener->spawner);
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

const struct helper *file_opener__helper(const struct file_opener *opener)
{
	return &opener->spawner.helper;
}
