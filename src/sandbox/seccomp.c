// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sandbox/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/privileges.h"
#include "elf/machine.h"

#define NOBODY 65534
#define OWN_USERS 0xa11c0000u /* plus a PID: outside of the ranges that adduser, systemd and domains use, and not -2 */

/* ---- the user ---- */

#define TO_CHANGE_USER (CAPABILITY(CAP_SETUID) | CAPABILITY(CAP_SETGID))

static int become(uint32_t id)
{
	return setresgid(id, id, id) || setresuid(id, id, id) ? -errno : 0;
}

/*
 * Changes to a user that no other process has. Daemons run as nobody, and each of them could kill
 * or trace this process. A user namespace may not have the user (EINVAL): then this becomes nobody, or stays what
 * it is. It may forbid changes of groups (EPERM).
 * Root without these capabilities, in a container or a service, stays root: without capabilities,
 * and without files.
 */
static int drop_user(void)
{
	int err;

	if (geteuid() || (capabilities_held() & TO_CHANGE_USER) != TO_CHANGE_USER)
		return 0;
	if (setgroups(0, NULL) && errno != EPERM)
		return -errno;
	err = become(OWN_USERS + getpid());
	err = err == -EINVAL ? become(NOBODY) : err;
	return err == -EINVAL ? 0 : err;
}

int confine_drop_rights(void)
{
	int err = drop_user();

	if (!err)
		err = capabilities_keep(0);
	if (!err && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		err = -errno;
	return err;
}

/* ---- limits and system calls ---- */

/* A sanitizer's shadow memory exceeds any limit. */
#if defined(__SANITIZE_ADDRESS__)
#define HAS_SHADOW 1
#else
#define HAS_SHADOW 0
#endif

/*
 * The memory that this process had before: the program that forked may be an embedding one, with
 * much data.
 */
static uint64_t data_bytes(void)
{
	unsigned long long data_pages = 0;
	char text[256] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		sscanf(text, "%*u %*u %*u %*u %*u %llu", &data_pages);
	if (fd >= 0)
		close(fd);
	return data_pages * sysconf(_SC_PAGESIZE);
}

#define STACK_BYTES (64u << 20)

static int limit_resources(uint64_t memory_bytes)
{
	const struct { int what; uint64_t most; } limits[] = {
		{ RLIMIT_NPROC, 0 },
		{ RLIMIT_FSIZE, 0 },
		{ RLIMIT_CORE, 0 },
		{ RLIMIT_MEMLOCK, 0 },
		{ RLIMIT_MSGQUEUE, 0 },
		{ RLIMIT_STACK, STACK_BYTES },
		{ RLIMIT_DATA, memory_bytes && !HAS_SHADOW ? memory_bytes + data_bytes() : RLIM_INFINITY },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit limit;

		if (getrlimit(limits[i].what, &limit))
			return -errno;
		/* A lower limit was set on purpose, and raising it needs privileges. */
		if (limit.rlim_max > limits[i].most)
			limit.rlim_max = limits[i].most;
		limit.rlim_cur = limit.rlim_max;
		if (limit.rlim_max != RLIM_INFINITY && setrlimit(limits[i].what, &limit))
			return -errno;
	}
	return 0;
}

enum condition {
	ALWAYS,
	EQUALS,	 /* allowed if the argument is the value */
	WITHOUT, /* allowed if the argument has none of these bits */
	NEVER_WITH, /* refused if the argument has one of these bits, even if a later row allows the call */
};

/* The allowed system calls. A call may have several rows. */
static const struct allowed {
	int call;
	enum condition condition;
	int argument;
	uint32_t value;
} allowed[] = {
	{ __NR_read }, { __NR_readv }, { __NR_pread64 }, { __NR_lseek }, { __NR_fstat },
	{ __NR_newfstatat, EQUALS, 3, AT_EMPTY_PATH }, /* the C library's fstat() */
	{ __NR_close }, { __NR_dup },
	{ __NR_fcntl, EQUALS, 1, F_DUPFD_CLOEXEC },
	{ __NR_fcntl, EQUALS, 1, F_GETFD },
	{ __NR_fcntl, EQUALS, 1, F_GETFL },
	{ __NR_mmap, NEVER_WITH, 3, MAP_SHARED | MAP_GROWSDOWN }, /* RLIMIT_DATA does not count such mappings */
	{ __NR_mmap, WITHOUT, 2, PROT_EXEC },
	{ __NR_mprotect, WITHOUT, 2, PROT_EXEC },
	{ __NR_munmap }, { __NR_mremap }, { __NR_brk }, { __NR_madvise },
	{ __NR_recvmsg }, { __NR_sendmsg },
	{ __NR_futex }, { __NR_sched_yield }, { __NR_clock_nanosleep },
	{ __NR_clock_gettime }, { __NR_gettimeofday }, { __NR_getrandom }, { __NR_sysinfo },
	{ __NR_getpid }, { __NR_gettid },
	{ __NR_rt_sigaction }, { __NR_rt_sigprocmask }, { __NR_rt_sigreturn }, /* direct.c */
	{ __NR_restart_syscall },
	{ __NR_exit }, { __NR_exit_group },
};

#define ROW_STEPS 5
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (field))
#define SKIP_IF(test, value, yes, no) BPF_JUMP(BPF_JMP | (test) | BPF_K, (value), (yes), (no))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)
#define CALL_NUMBER offsetof(struct seccomp_data, nr)
#define ARGUMENT(i) (offsetof(struct seccomp_data, args) + 8 * (i)) /* the low half of the argument: little-endian */

/*
 * The steps of one row. The call's number is loaded before them, and also after them if the row
 * does not decide.
 */
static size_t filter_add_call(struct sock_filter *step, const struct allowed *row)
{
	const struct sock_filter always[] = {
		SKIP_IF(BPF_JEQ, row->call, 0, 1), RETURN(SECCOMP_RET_ALLOW),
	};
	const struct sock_filter test[] = {
		[EQUALS] = SKIP_IF(BPF_JEQ, row->value, 0, 1),
		[WITHOUT] = SKIP_IF(BPF_JSET, row->value, 1, 0),
		[NEVER_WITH] = SKIP_IF(BPF_JSET, row->value, 0, 1),
	};
	const struct sock_filter conditional[ROW_STEPS] = {
		SKIP_IF(BPF_JEQ, row->call, 0, 4), LOAD(ARGUMENT(row->argument)),
		test[row->condition],
		RETURN(row->condition == NEVER_WITH ? REFUSE : SECCOMP_RET_ALLOW), LOAD(CALL_NUMBER),
	};
	size_t nr = row->condition == ALWAYS ? ARRAY_SIZE(always) : ARRAY_SIZE(conditional);

	for (size_t i = 0; i < nr; i++)
		step[i] = row->condition == ALWAYS ? always[i] : conditional[i];
	return nr;
}

static int filter_calls(void)
{
	struct sock_filter step[5 + ROW_STEPS * ARRAY_SIZE(allowed)] = {
		LOAD(offsetof(struct seccomp_data, arch)), SKIP_IF(BPF_JEQ, machine_here() | __AUDIT_ARCH_64BIT | __AUDIT_ARCH_LE, 1, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS), LOAD(CALL_NUMBER),
	};
	struct sock_fprog program = { .filter = step };
	size_t nr = 4;

	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
		nr += filter_add_call(step + nr, &allowed[i]);
	step[nr++] = (struct sock_filter)RETURN(REFUSE);
	program.len = nr;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) ? -errno : 0;
}

#define LANDLOCK_ALL ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1) /* all access rights of Landlock's first version */

static void let_read_below(int rules, const char *folder)
{
	struct landlock_path_beneath_attr below = {
		.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
		.parent_fd = open(folder, O_PATH | O_CLOEXEC),
	};

	if (below.parent_fd < 0)
		return;
	syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0);
	close(below.parent_fd);
}

/* A second lock besides the filter, if the kernel has Landlock: no path can be opened, except to read below these folders. */
static void close_file_systems(const char *const *folder, size_t folder_nr)
{
	const struct landlock_ruleset_attr nothing = { .handled_access_fs = LANDLOCK_ALL };
	int fd = syscall(SYS_landlock_create_ruleset, &nothing, sizeof(nothing), 0);

	if (fd < 0)
		return;
	for (size_t i = 0; i < folder_nr; i++)
		let_read_below(fd, folder[i]);
	syscall(SYS_landlock_restrict_self, fd, 0);
	close(fd);
}

int confine_to_reading(uint64_t memory_bytes)
{
	int err = limit_resources(memory_bytes);

	close_file_systems(NULL, 0);
	return err ?: filter_calls();
}

/* Libraries, certificates, and where names of hosts are looked up. */
static const char *const system_folders[] = { "/etc", "/lib", "/lib64", "/run", "/usr" };

int confine_to_downloads(uint64_t file_bytes)
{
	const struct rlimit file = { file_bytes, file_bytes }, core = {};

	close_file_systems(system_folders, ARRAY_SIZE(system_folders));
	return setrlimit(RLIMIT_FSIZE, &file) || setrlimit(RLIMIT_CORE, &core) ? -errno : 0;
}
