// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What probes could do to a process, tried on a child of ours. */
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

#include "collect/trials.h"
#include "collect/trials_private.h"
#include "collect/uprobe_multi.h"

/* A child that waits, and then does something and exits: with 0 where all went well. */
struct trial_child {
	pid_t pid;
	int go; /* a byte lets it */
};

/* A handler, as the kernel logs who dies without one. */
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

static int start(struct trial_child *child, int (*act)(void))
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

/* -EFAULT: it has not come through. */
static int end(const struct trial_child *child, bool goes)
{
	bool went = goes && write(child->go, "", 1) == 1;
	int status;

	close(child->go);
	while (waitpid(child->pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return went && !status ? 0 : -EFAULT;
}

static int try_with(const struct trial_child *child, int program, uint64_t offset, bool of_returns)
{
	uint64_t cookie = 0;
	int link = uprobe_multi_attach(program, &(struct uprobe_multi){
		.path = "/proc/self/exe",
		.pid = child->pid,
		.attach_type = UPROBE_MULTI_ATTACH_TYPE,
		.of_returns = of_returns,
		.nr = 1,
		.offset = &offset,
		.cookie = &cookie,
	});
	int err = end(child, link >= 0);

	if (link < 0)
		return link;
	close(link);
	return err;
}

/* Kernels without links of many probes are from before all that is tried so. */
static int try_in_child(void (*function)(void), bool of_returns, int (*act)(void))
{
	uint64_t offset = trial_offset((uintptr_t)function);
	int err = trial_uprobe_multi(), program;
	struct trial_child child = {};

	if (err)
		return err == -EINVAL ? 0 : err;
	program = trial_load_as(UPROBE_MULTI_ATTACH_TYPE);
	if (program < 0)
		return program;
	err = offset ? start(&child, act) : -ENOENT;
	if (!err)
		err = try_with(&child, program, offset, of_returns);
	close(program);
	return err;
}

#ifdef __x86_64__

/* ---- nops of five bytes ---- */

__attribute__((naked, noinline, noclone, used, aligned(16))) static void with_nop5(void)
{
	asm volatile(".byte 0x0f, 0x1f, 0x44, 0, 0\n\tret");
}

static void (*volatile call_nop5)(void) = with_nop5;

/* The kernel makes a call of the nop when it is hit. */
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
	return try_in_child(with_nop5, false, hit_and_fork);
}

/* ---- returns under a filter ---- */

__attribute__((naked, noinline, noclone, used, aligned(16))) static void returning(void)
{
	asm volatile("push %rbp\n\tpop %rbp\n\tret");
}

static void (*volatile call_returning)(void) = returning;

/* Nothing may be asked of the kernel then but to end. */
static int filter_all(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int filter_and_return(void)
{
	if (prctl(PR_SET_DUMPABLE, 0) || filter_all())
		return 1;
	call_returning();
	return 0;
}

int trial_filtered_return(void)
{
	return try_in_child(returning, true, filter_and_return);
}

#else

int trial_nop5(void)
{
	return 0;
}

int trial_filtered_return(void)
{
	return 0;
}

#endif
