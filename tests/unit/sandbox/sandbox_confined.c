// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Operations that the process that reads ELF files must not be able to do; the tests try them from inside. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "sandbox_fixture.h"
#include "skip.h"

static char page[4096] __attribute__((aligned(4096)));
static const struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "/run/x" };

/* Each must fail with EPERM. */
#define TRY(name, ...) { #name, SYS_##name, { __VA_ARGS__ } }
static const struct attempt {
	const char *name;
	long nr;
	long argument[6];
} attempts[] = {
#ifdef SYS_open
	TRY(open, (long)"/etc/passwd", O_RDONLY),
	TRY(creat, (long)"/tmp/allocsnap-unit-created", 0600),
	TRY(stat, (long)"/etc/passwd", (long)page),
	TRY(fork),
	TRY(vfork),
	TRY(unlink, (long)"/tmp/allocsnap-unit-created"),
#endif
	TRY(openat, AT_FDCWD, (long)"/etc/passwd", O_RDONLY),
	TRY(openat2, AT_FDCWD, (long)"/etc/passwd", (long)page, 24),
	TRY(newfstatat, AT_FDCWD, (long)"/etc/passwd", (long)page, 0),
	TRY(memfd_create, (long)"x", 0),
	TRY(socket, AF_INET, SOCK_STREAM, 0),
	TRY(socketpair, AF_UNIX, SOCK_STREAM, 0, (long)page),
	TRY(connect, 3, (long)&address, sizeof(address)),
	TRY(bind, 3, (long)&address, sizeof(address)),
	TRY(ptrace, PTRACE_TRACEME),
	TRY(ptrace, PTRACE_ATTACH, 1),
	TRY(process_vm_readv, 1, (long)page, 1, (long)page, 1, 0),
	TRY(process_vm_writev, 1, (long)page, 1, (long)page, 1, 0),
	TRY(pidfd_open, 1, 0),
	TRY(kill, 1, 0),
	TRY(execve, (long)"/bin/true", 0, 0),
	TRY(execveat, 3, (long)"", 0, 0, AT_EMPTY_PATH),
	TRY(clone, SIGCHLD),
	TRY(clone3, (long)page, 64),
	TRY(unshare, CLONE_NEWUSER),
	TRY(setresuid, 0, 0, 0),
	TRY(capset, (long)page, (long)page),
	TRY(prctl, 4 /* PR_SET_DUMPABLE */, 1),
	TRY(setrlimit, 6 /* RLIMIT_NPROC */, (long)page),
	TRY(prlimit64, 0, 6, (long)page, 0),
	TRY(mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	TRY(mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
	TRY(mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0),
	TRY(mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0),
	TRY(mprotect, (long)page, 4096, PROT_READ | PROT_EXEC),
	TRY(write, 1, (long)page, 1),
	TRY(ioctl, 1, 0),
	TRY(fcntl, 3, F_SETOWN, 1),
	TRY(bpf, BPF_MAP_CREATE, (long)page, 64),
	TRY(perf_event_open, (long)page, 0, -1, -1, 0),
	TRY(io_uring_setup, 1, (long)page),
	TRY(mount, (long)"x", (long)"/mnt", (long)"tmpfs", 0, 0),
	TRY(chdir, (long)"/"),
	TRY(seccomp, 0, 0, 0),
};

static bool is_refused(const struct attempt *try)
{
	const long *a = try->argument;

	return syscall(try->nr, a[0], a[1], a[2], a[3], a[4], a[5]) == -1 && errno == EPERM;
}

/* Tries every operation, and answers with a line of those that were not refused. */
static void try_all(int fd)
{
	const struct channel channel = { .fd = fd };
	struct message head;
	struct reason why;
	int object, len;

	parser_question(&channel, &head, &object);
	len = sprintf(why.text, "%zu tried, allowed:", ARRAY_SIZE(attempts));
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++)
		if (!is_refused(&attempts[i]) && len < 400)
			len += sprintf(why.text + len, " %s", attempts[i].name);
	/* The one operation that must work. */
	if (pread(object, page, 4, 0) != 4 || memcmp(page, "\177ELF", 4))
		sprintf(why.text + len, " but not to read");
	parser_answer_why(&channel, why.text);
}

Test(sandbox_confined, cannot_open_connect_trace_or_start_anything)
{
	struct sandbox *sandbox = parser_with(try_all, 0);
	struct symbols *symbols = symbols__new(sandbox__source(sandbox));
	uint32_t object = open_object(symbols, "/proc/self/exe", "/x");
	struct symbol frame[SYMBOL_INLINE_MAX];
	char want[64];

	sprintf(want, "%zu tried, allowed:", ARRAY_SIZE(attempts));
	cr_expect_eq(symbols__lookup(symbols, object, 0x1000, frame), 1);
	cr_assert_not_null(symbols__unreadable(symbols, object));
	cr_expect_str_eq(symbols__unreadable(symbols, object), want);
	symbols__free(symbols);
	sandbox__close(sandbox);
}

/* ---- seen from outside ---- */

/* The line of /proc/PID/status that begins so. */
static const char *status_of(pid_t pid, const char *name)
{
	static char line[256];
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	cr_assert(file);
	while (fgets(line, sizeof(line), file) && strncmp(line, name, strlen(name)))
		;
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	return line + strlen(name);
}

static int descriptors_of(pid_t pid)
{
	char path[64];
	int nr = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	cr_assert(dir);
	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr - 2;
}

Test(sandbox_confined, runs_as_its_own_user_with_one_socket)
{
	struct sandbox *sandbox;
	unsigned int user;
	char ids[64];
	pid_t pid[2];
	int fd = open("/etc/passwd", O_RDONLY); /* not closed on exec, nor for it */

	if (geteuid())
		skip_because("only root becomes another user");
	sandbox = parser_with(NULL, 0);
	pid[0] = parser_fork_server();
	pid[1] = parser_reader();
	user = 0xa11c0000u + pid[0];
	snprintf(ids, sizeof(ids), "\t%u\t%u\t%u\t%u", user, user, user, user);
	for (int i = 0; i < 2; i++) {
		cr_expect_str_eq(status_of(pid[i], "Uid:"), ids);
		cr_expect_str_eq(status_of(pid[i], "Gid:"), ids);
		cr_expect_str_eq(status_of(pid[i], "Groups:"), "\t ");
		cr_expect_str_eq(status_of(pid[i], "CapEff:"), "\t0000000000000000");
		cr_expect_str_eq(status_of(pid[i], "CapPrm:"), "\t0000000000000000");
		cr_expect_str_eq(status_of(pid[i], "NoNewPrivs:"), "\t1");
		/* The process that starts readers also holds a descriptor that watches the recorder. */
		cr_expect_eq(descriptors_of(pid[i]), i ? 4 : 5, "/dev/null three times and a socket");
	}
	cr_expect_str_eq(status_of(pid[1], "Seccomp:"), "\t2");
	sandbox__close(sandbox);
	cr_expect(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "nobody is left");
	cr_expect(kill(pid[1], 0) && errno == ESRCH, "nor its child");
	close(fd);
}

/* A service may have lower limits of its own than the ones that we set. */
Test(sandbox_confined, works_with_lower_resource_limits)
{
	const struct rlimit low = { 4 << 20, 4 << 20 };
	struct sandbox *sandbox;

	cr_assert(!setrlimit(RLIMIT_STACK, &low));
	sandbox = parser_with(NULL, 0); /* it opens */
	sandbox__close(sandbox);
}
