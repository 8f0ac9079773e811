// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * no_calls: allocates where each system call is counted. Commands:
 *	thread NR   a thread that makes NR rounds of calls of malloc's family, at depths up to DEEPEST
 *	quit
 * A filter of the kernel passes the thread's calls to a handler, but for those by which glibc's allocator gets memory, and what
 * ends the thread. The answer: {"asked": N, "twice": N, "tid": N, "others": N, "pages": N}: rt_sigprocmask() with nothing to do,
 * which asks whether memory can be read; how often about a page that was asked about before; gettid(); all other calls; pages of
 * the stack that the thread has used.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "workload.h"

#define DEEPEST 100
#define LIVE 500
#define PAGE 4096
#define PAGES_MAX 4096

static uintptr_t asked_page[PAGES_MAX], lowest, highest;
static unsigned int asked, twice, asked_tid, others;
static int own_tid;

static void note_page(uintptr_t address)
{
	for (unsigned int i = 0; i < asked; i++)
		if (asked_page[i] == address / PAGE) {
			twice++;
			return;
		}
	if (asked < PAGES_MAX)
		asked_page[asked++] = address / PAGE;
}

/* Answers instead of the kernel: such memory can be read. */
static void count_call(int signal, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)signal;
	registers[REG_RAX] = -EINVAL;
	if (info->si_syscall == SYS_rt_sigprocmask && registers[REG_RDI] == -1 && !registers[REG_RDX]) {
		note_page(registers[REG_RSI]);
	} else if (info->si_syscall == SYS_gettid) {
		registers[REG_RAX] = own_tid;
		asked_tid++;
	} else {
		others++;
	}
}

static void filter_calls(void)
{
	static const int passed[] = {
		SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_rt_sigreturn, SYS_exit, SYS_exit_group, SYS_write,
	};
	enum { NR = sizeof(passed) / sizeof(*passed) };
	struct sock_filter code[NR + 3] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
	const struct sock_fprog program = { NR + 3, code };

	for (int i = 0; i < NR; i++)
		code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, passed[i], NR - i, 0);
	code[NR + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
	code[NR + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		_exit(9);
}

/* ---- the work ---- */

static void *live[LIVE];

SITE static void make_calls(unsigned int random)
{
	void **place = &live[random % LIVE];
	size_t size = 1 + random % (random % 97 ? 700 : 20000);

	switch (random % 5) {
	case 0:
		*place = realloc(*place, size);
		break;
	case 1:
		free(*place);
		*place = calloc(1, size);
		break;
	case 2:
		free(*place);
		if (posix_memalign(place, 64, size))
			_exit(8);
		break;
	default:
		free(*place);
		*place = malloc(size);
	}
	if (!*place)
		_exit(7);
}

SITE static void descend(unsigned int random, int more)
{
	volatile char frame[64 + 16 * (random % 7)];

	frame[0] = 0;
	if ((uintptr_t)frame < lowest)
		lowest = (uintptr_t)frame;
	if (more)
		descend(random * 1103515245 + 12345, more - 1);
	else
		make_calls(random >> 8);
	frame[0]++;
}

static void *work(void *rounds)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	unsigned int random = 1;

	lowest = here;
	highest = (uintptr_t)pthread_self(); /* the C library's part of the thread, above its stack */
	own_tid = gettid();
	filter_calls();
	for (long i = 0; i < (long)(intptr_t)rounds; i++) {
		random = random * 1664525 + 1013904223;
		descend(random, (random >> 16) % DEEPEST);
	}
	answer("{\"asked\": %u, \"twice\": %u, \"tid\": %u, \"others\": %u, \"pages\": %u}", asked, twice, asked_tid, others,
	       (unsigned int)(highest / PAGE - lowest / PAGE + 1));
	syscall(SYS_exit, 0); /* the C library would make other calls */
	return NULL;
}

/* One after the other: they never wait for each other's locks. */
static void run_thread(long rounds)
{
	pthread_t thread;

	asked = twice = asked_tid = others = 0;
	if (pthread_create(&thread, NULL, work, (void *)(intptr_t)rounds))
		_exit(6);
	pthread_join(thread, NULL);
	answer("{\"done\": %ld}", rounds);
}

int main(void)
{
	const struct sigaction counts = { .sa_sigaction = count_call, .sa_flags = SA_SIGINFO };
	const char *command;
	long rounds;

	sigaction(SIGSYS, &counts, NULL);
	ready();
	while (strcmp(command = next_command(), "quit"))
		if (sscanf(command, "thread %ld", &rounds) == 1)
			run_thread(rounds);
	return 0;
}
