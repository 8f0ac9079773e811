// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Kinds of frames: realigned and grown ones, large ones, calls that do not return, signals. */
#define _GNU_SOURCE /* REG_RIP */
#include <alloca.h>
#include <elf.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "unwind.h"

static volatile size_t some_bytes = 1000, many_bytes = 3 << 20;

/* ---- sizes ---- */

/* The CFA is found through a pointer to it that is saved in the frame. */
SITE static void realigned(void)
{
	_Alignas(64) char buf[256];
	char *more = alloca(some_bytes);

	STAYS_BEHIND(buf);
	STAYS_BEHIND(more);
	KEEP_BLOCK(101);
}

SITE static void large(void)
{
	char buf[2 << 20];

	STAYS_BEHIND(buf);
	realigned();
	STAYS_BEHIND(buf);
}

SITE static void larger(void)
{
	char *buf = alloca(many_bytes);

	STAYS_BEHIND(buf);
	large();
	STAYS_BEHIND(buf);
}

/* ---- a call that does not return ---- */

static jmp_buf back;

SITE __attribute__((noreturn, used)) static void leaves(void)
{
	KEEP_BLOCK(102);
	longjmp(back, 1);
}

/* The return address belongs to the next function, whose call frame information is wrong for this frame. */
__asm__("\t.text\n"
	"\t.type ends_with_call, @function\n"
	"ends_with_call:\n"
	"\t.cfi_startproc\n"
	"\tsub $72, %rsp\n"
	"\t.cfi_adjust_cfa_offset 72\n"
	"\tcall leaves\n"
	"\t.cfi_endproc\n"
	"\t.size ends_with_call, . - ends_with_call\n"
	"\t.type is_interrupted, @function\n"
	"is_interrupted:\n"
	"\t.cfi_startproc\n"
	"\tud2\n"
	"\tret\n"
	"\t.cfi_endproc\n"
	"\t.size is_interrupted, . - is_interrupted\n");
void ends_with_call(void), is_interrupted(void);

SITE static void no_return(void)
{
	if (!setjmp(back))
		ends_with_call();
}

/* ---- signals ---- */

#define ALTERNATE_BYTES (64 << 10)

SITE static void on_inner_signal(int number)
{
	STAYS_BEHIND(&number);
	KEEP_BLOCK(103);
}

SITE static void on_outer_signal(int number)
{
	STAYS_BEHIND(&number);
	raise(SIGUSR2);
	KEEP_BLOCK(104);
}

SITE static void on_illegal(int number, siginfo_t *info, void *context)
{
	STAYS_BEHIND(&number);
	STAYS_BEHIND(info);
	KEEP_BLOCK(105);
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

/* ---- the vDSO ---- */

#define PAGE_BYTES 4096
#define VDSO_PAGES_MAX 8
#define TRAP_FLAG 0x100 /* one instruction, then SIGTRAP */

static char *vdso;
static size_t vdso_bytes;

/* It is no ELF file any more. Its code stays. The kernel lets us change the whole mapping only. */
static void spoil_vdso(void)
{
	vdso = (char *)getauxval(AT_SYSINFO_EHDR);
	for (vdso_bytes = PAGE_BYTES; vdso_bytes <= VDSO_PAGES_MAX * PAGE_BYTES; vdso_bytes += PAGE_BYTES)
		if (!mprotect(vdso, vdso_bytes, PROT_READ | PROT_WRITE | PROT_EXEC))
			break;
	if (!vdso || vdso_bytes > VDSO_PAGES_MAX * PAGE_BYTES)
		_exit(1);
	memset(vdso, 0, EI_NIDENT);
}

SITE static void on_step(int number, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	STAYS_BEHIND(&number);
	STAYS_BEHIND(info);
	if ((char *)regs[REG_RIP] < vdso || (char *)regs[REG_RIP] >= vdso + vdso_bytes)
		return;
	KEEP_BLOCK(107);
	regs[REG_EFL] &= ~TRAP_FLAG;
}

SITE static void calls_vdso(void)
{
	struct timespec now;

	__asm__ volatile("pushf\n\torq %0, (%%rsp)\n\tpopf" : : "i"(TRAP_FLAG) : "memory", "cc");
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	STAYS_BEHIND(&now);
}

static void handle_signals(void)
{
	static char alternate[ALTERNATE_BYTES];
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) };
	struct sigaction outer = { .sa_handler = on_outer_signal, .sa_flags = SA_ONSTACK };
	struct sigaction inner = { .sa_handler = on_inner_signal };
	struct sigaction step = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	struct sigaction illegal = { .sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO };

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &outer, NULL);
	sigaction(SIGUSR2, &inner, NULL);
	sigaction(SIGILL, &illegal, NULL);
	sigaction(SIGTRAP, &step, NULL);
}

SITE static void signals(void)
{
	raise(SIGUSR1);
}

SITE static void first_instruction(void)
{
	is_interrupted();
}

/* ---- a handler that jumps out, a function on another stack ---- */

static ucontext_t main_context, coroutine_context;

SITE static void allocates(void)
{
	KEEP_BLOCK(106);
}

static void in_coroutine(void)
{
	allocates();
	STAYS_BEHIND(NULL);
}

/* The function that makecontext() starts has no caller. */
SITE static void coroutine(void)
{
	static char stack[ALTERNATE_BYTES];

	getcontext(&coroutine_context);
	coroutine_context.uc_stack.ss_sp = stack;
	coroutine_context.uc_stack.ss_size = sizeof(stack);
	coroutine_context.uc_link = &main_context;
	makecontext(&coroutine_context, in_coroutine, 0);
	swapcontext(&main_context, &coroutine_context);
}

/* A stack that was switched to by hand, and begins with nothing: no context, no rule, no address. */
static char by_hand_stack[ALTERNATE_BYTES];

SITE static void by_hand(void)
{
	void **top = (void **)(by_hand_stack + sizeof(by_hand_stack) - 64);

	__asm__ volatile("mov %%rsp, %%rbx\n\t"
			 "mov %0, %%rsp\n\t"
			 "call *%1\n\t"
			 "mov %%rbx, %%rsp"
			 : : "r"(top), "r"(allocates)
			 : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
}

int main(void)
{
	static const struct order orders[] = {
		{ "large", larger },
		{ "no_return", no_return },
		{ "signals", signals },
		{ "first_instruction", first_instruction },
		{ "calls_vdso", calls_vdso },
		{ "coroutine", coroutine },
		{ "by_hand", by_hand },
		{},
	};

	handle_signals();
	spoil_vdso();
	ready();
	obey_orders(orders);
	return 0;
}
