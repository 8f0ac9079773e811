// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * slow_files HOW FOLDER PROGRAM [ARGUMENT…]: becomes PROGRAM, run from a file system of its own at FOLDER, which a
 * child of it serves by the kernel's raw FUSE protocol. The mount is seen by these two only, and ends with them.
 *
 * HOW has letters: "h": requests of processes that are called allocsnap… are read and never answered;
 * "o": PROGRAM is run through an overlay file system that lies on it. "-": neither.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "program"
#define PROGRAM_NODE 2
#define BYTES_MAX (256 << 10)

static struct {
	int fd;	     /* of /dev/fuse */
	int program; /* the file that it has */
	off_t bytes;
	bool hangs;
} slow;

static void fail(const char *what)
{
	perror(what);
	_exit(1);
}

static void reply(const struct fuse_in_header *to, int err, const void *body, size_t bytes)
{
	static char answer[sizeof(struct fuse_out_header) + BYTES_MAX];
	struct fuse_out_header head = {
		.len = sizeof(head) + (err ? 0 : bytes), .error = -err, .unique = to->unique,
	};

	memcpy(answer, &head, sizeof(head));
	if (!err && bytes)
		memcpy(answer + sizeof(head), body, bytes);
	if (write(slow.fd, answer, head.len) < 0 && errno != ENOENT)
		fail("reply");
}

/* Nothing may be remembered: each look at a file is a request. */
static struct fuse_attr attributes(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node, .nlink = 1, .blksize = 4096,
		.mode = node == PROGRAM_NODE ? S_IFREG | 0755 : S_IFDIR | 0755,
		.size = node == PROGRAM_NODE ? slow.bytes : 0,
	};
}

static void look_up(const struct fuse_in_header *to, const char *name)
{
	const struct fuse_entry_out entry = { .nodeid = PROGRAM_NODE, .attr = attributes(PROGRAM_NODE) };

	reply(to, to->nodeid == FUSE_ROOT_ID && !strcmp(name, NAME) ? 0 : ENOENT, &entry, sizeof(entry));
}

static void give(const struct fuse_in_header *to, const struct fuse_read_in *read)
{
	static char bytes[BYTES_MAX];
	size_t most = read->size < sizeof(bytes) ? read->size : sizeof(bytes);
	ssize_t got = pread(slow.program, bytes, most, read->offset);

	reply(to, got < 0 ? EIO : 0, bytes, got < 0 ? 0 : got);
}

static void answer(const struct fuse_in_header *to, const void *body)
{
	const struct fuse_init_in *init = body;
	const struct fuse_init_out version = {
		.major = 7, .minor = 31, .max_readahead = init->max_readahead, .max_write = 65536,
	};
	const struct fuse_attr_out attr = { .attr = attributes(to->nodeid) };
	const struct fuse_open_out opened = { .fh = 1 };
	const struct fuse_statfs_out statfs = { 0 };

	switch (to->opcode) {
	case FUSE_INIT:
		return reply(to, 0, &version, sizeof(version));
	case FUSE_LOOKUP:
		return look_up(to, body);
	case FUSE_GETATTR:
		return reply(to, 0, &attr, sizeof(attr));
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		return reply(to, 0, &opened, sizeof(opened));
	case FUSE_READ:
		return give(to, body);
	case FUSE_STATFS:
		return reply(to, 0, &statfs, sizeof(statfs));
	case FUSE_RELEASE:
	case FUSE_FLUSH:
	case FUSE_ACCESS:
		return reply(to, 0, NULL, 0);
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return; /* have no answer */
	}
	reply(to, ENOSYS, NULL, 0);
}

static bool is_of_recording(pid_t pid)
{
	char path[64], comm[16] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return false;
	if (read(fd, comm, sizeof(comm) - 1) < 0)
		*comm = '\0';
	close(fd);
	return !strncmp(comm, "allocsnap", strlen("allocsnap"));
}

static void serve_questions(void)
{
	static char request[BYTES_MAX];
	const struct fuse_in_header *head = (const void *)request;

	for (;;) {
		ssize_t got = read(slow.fd, request, sizeof(request));

		if (got < 0 && errno == ENODEV)
			_exit(0); /* unmounted */
		if (got < (ssize_t)sizeof(*head))
			continue;
		if (!slow.hangs || !is_of_recording(head->pid))
			answer(head, request + sizeof(*head));
	}
}

static void mount_slow(const char *folder)
{
	char options[128];

	slow.fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (slow.fd < 0 || unshare(CLONE_NEWNS))
		fail("/dev/fuse");
	mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL); /* fails where / is no mount point */
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 slow.fd);
	if (mount("slow", folder, "fuse.slow", 0, options))
		fail("mount");
}

static void start_server(void)
{
	pid_t parent = getpid();

	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	serve_questions();
}

/* Two lower folders, since one alone needs an upper one. */
static void mount_overlay(const char *folder)
{
	char other[4096], over[4096], options[9000];

	snprintf(other, sizeof(other), "%s.other", folder);
	snprintf(over, sizeof(over), "%s.over", folder);
	mkdir(other, 0755);
	mkdir(over, 0755);
	snprintf(options, sizeof(options), "lowerdir=%s:%s", folder, other);
	if (mount("over", over, "overlay", 0, options))
		fail("overlay");
}

int main(int argc, char **argv)
{
	char program[4200];
	struct stat st;

	if (argc < 4)
		return 2;
	slow.program = open(argv[3], O_RDONLY | O_CLOEXEC);
	if (slow.program < 0 || fstat(slow.program, &st))
		fail(argv[3]);
	slow.bytes = st.st_size;
	slow.hangs = strchr(argv[1], 'h');
	mount_slow(argv[2]);
	start_server();
	if (strchr(argv[1], 'o'))
		mount_overlay(argv[2]);
	snprintf(program, sizeof(program), "%s%s/" NAME, argv[2], strchr(argv[1], 'o') ? ".over" : "");
	close(slow.fd);
	argv[3] = program;
	execv(program, argv + 3);
	fail("execv");
}
