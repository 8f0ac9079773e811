// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Tries in a child process whether probes would kill a process. */
#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "collect/probe/feature_probes.h"
#include "collect/probe/feature_probes_private.h"
#include "collect/probe/uprobe_multi.h"

/* A child that waits, then acts and exits; with 0 if everything went well. */
struct trial_child {
	pid_t pid;
	int go; /* writing a byte lets the child act */
};

/* Handles fatal signals, because the kernel logs a process that dies without a handler. */
static void give_up(int)
{
	_exit(1);
}

static int wait_and_act(int go, int (*act)(void))
{
	char byte;

	signal(SIGSEGV, give_up);
	signal(SIGILL, give_up);
	signal(SIGTRAP, give_up);
	return read(go, &byte, 1) == 1 ? act() : 1;
}

static int start_trial_child(struct trial_child *child, int (*act)(void))
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	child->pid = fork();
	if (!child->pid) {
		close(ends[1]);
		_exit(wait_and_act(ends[0], act));
	}
	close(ends[0]);
	child->go = ends[1];
	if (child->pid > 0)
		return 0;
	close(ends[1]);
	return -EAGAIN;
}

/* -EFAULT: the child did not survive. */
static int end_trial_child(const struct trial_child *child, bool goes)
{
	bool went = goes && write(child->go, "", 1) == 1;
	int status;

	close(child->go);
	while (waitpid(child->pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return went && !status ? 0 : -EFAULT;
}

static int try_with(const struct trial_child *child, int program, uint64_t offset)
{
	uint64_t cookie = 0;
	int link = uprobe_multi_attach(program, &(struct uprobe_multi){
		.path = "/proc/self/exe",
		.pid = child->pid,
		.attach_type = UPROBE_MULTI_ATTACH_TYPE,
		.nr = 1,
		.offset = &offset,
		.cookie = &cookie,
	});
	int err = end_trial_child(child, link >= 0);

	if (link < 0)
		return link;
	close(link);
	return err;
}

/* Kernels without links of many probes are older than the behaviour that is tried here. */
static int try_in_child(void (*function)(void), int (*act)(void))
{
	uint64_t offset = trial_offset((uintptr_t)function);
	int err = trial_uprobe_multi(), program;
	struct trial_child child = {};

	if (err)
		return err == -EINVAL ? 0 : err;
	program = trial_load_as(UPROBE_MULTI_ATTACH_TYPE);
	if (program < 0)
		return program;
	err = offset ? start_trial_child(&child, act) : -ENOENT;
	if (!err)
		err = try_with(&child, program, offset);
	close(program);
	return err;
}

/* ---- filters of system calls ---- */

/* Allows only exit_group, and rt_sigreturn to return from a signal handler; any other call kills the process. */
static int filter_all(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { ARRAY_SIZE(filter), filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static volatile sig_atomic_t is_ill;

static void note_sigill(int)
{
	is_ill = 1;
}

#define NO_SUCH_CALL 2
#define CALL_IS_HIDDEN 3

/* The uretprobe system call sends SIGILL to a caller that is not at a hijacked return. */
static int call_filtered(long call)
{
	signal(SIGILL, note_sigill);
	if (syscall(call) < 0 && !is_ill)
		return errno == ENOSYS ? NO_SUCH_CALL : CALL_IS_HIDDEN;
	if (prctl(PR_SET_DUMPABLE, 0) || filter_all())
		return 1;
	syscall(call);
	return 0;
}

int trial_filtered_call(long call)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(call_filtered(call));
	if (pid < 0)
		return -errno;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SUCH_CALL)
		return -ENOSYS;
	if (WIFEXITED(status) && WEXITSTATUS(status) == CALL_IS_HIDDEN)
		return -EACCES;
	return status ? -EFAULT : 0;
}

#ifdef __x86_64__

/* ---- nops of five bytes ---- */

__attribute__((naked, noinline, noclone, used, aligned(16))) static void with_nop5(void)
{
	asm volatile(".byte 0x0f, 0x1f, 0x44, 0, 0\n\tret");
}

static void (*volatile call_nop5)(void) = with_nop5;

/* The kernel replaces the nop by a call when it is hit. */
static int hit_and_fork(void)
{
	int status;
	pid_t child;

	for (int i = 0; i < 10; i++)
		call_nop5();
	child = fork();
	if (!child) {
		call_nop5();
		_exit(0);
	}
	return child < 0 || waitpid(child, &status, 0) != child || status;
}

int trial_nop5(void)
{
	return try_in_child(with_nop5, hit_and_fork);
}

/* ---- returns by a system call ---- */

#define URETPROBE 335 /* arch/x86/entry/syscalls/syscall_64.tbl */

/* Whether the kernel has this function. True if that is not known. */
static bool kernel_has(const char *function)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool has = !btf || btf__find_by_name_kind(btf, function, BTF_KIND_FUNC) >= 0;

	btf__free(btf);
	return has;
}

/* If the process already has a filter, that filter may answer for unknown calls, whether they exist or not. */
int trial_return_call(void)
{
	int err = trial_filtered_call(URETPROBE);

	if (err != -EACCES)
		return err;
	return kernel_has("__x64_sys_uretprobe") ? -EFAULT : -ENOSYS;
}

#else

int trial_nop5(void)
{
	return 0;
}

int trial_return_call(void)
{
	return -ENOSYS;
}

#endif
