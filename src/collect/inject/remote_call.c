// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/inject/remote_call.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/reason.h"
#include "collect/inject/inject_private.h"
#include "collect/inject/stopped_threads.h"

#define ROOM_BYTES (16u << 10)
#define ROOM_SEARCH (64u << 10) /* of the deep end of the stack */
#define ROOM_MAGIC "asinroom"	/* at its beginning: one who was killed had it */
#define TEXT_AT 16
#define TEXT_BYTES 64
#define CALL_LIMIT_NS (10ull * 1000 * 1000 * 1000)

/* Parts of a signal frame that the kernel's headers do not name (arch/x86/include/uapi/asm/sigcontext.h). */
#define XSTATE_WORDS 464 /* struct _fpx_sw_bytes in the xstate */
#define XSTATE_MAGIC1 0x46505853u
#define XSTATE_MAGIC2 0x46505845u
#define FRAME_FLAGS 7 /* UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS */
/*
 * If this process is killed after the thread has come to a stop of PTRACE_SYSCALL, and before it has seen that, the kernel
 * sends the thread SIGTRAP. So the frame lets all signals in but that one.
 */
#define SIGTRAP_MASK (UINT64_C(1) << (SIGTRAP - 1))
#define STACK_FLAGS_NONE 0x7fff /* no alternate stack has them: rt_sigreturn leaves it as it is */

/* The frame of a signal handler, from its return address on: struct ucontext and struct sigcontext. */
struct signal_frame {
	uint64_t sigreturn;
	uint64_t flags, link, stack_address, stack_flags, stack_bytes;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
	uint64_t segments, error, trap, old_mask, cr2, xstate, reserved[8];
	uint64_t mask;
};

/* ---- the room ---- */

/* Never used, or left by an injector that was killed. */
static bool is_free_room(int mem_fd, uint64_t at)
{
	static const uint8_t zero[ROOM_BYTES];
	uint8_t byte[ROOM_BYTES];

	return pread(mem_fd, byte, sizeof(byte), at) == sizeof(byte) &&
	       (!memcmp(byte, zero, sizeof(byte)) || !memcmp(byte, ROOM_MAGIC, strlen(ROOM_MAGIC)));
}

static bool write_room(struct remote_caller *caller, uint64_t at, const void *bytes, size_t length)
{
	return pwrite(caller->mem_fd, bytes, length, at) == (ssize_t)length;
}

static bool is_in_use(const struct stopped_threads *threads, const struct maps_line *stack, uint64_t end)
{
	for (size_t i = 0; i < threads->thread_nr; i++) {
		uint64_t rsp = threads->thread[i].registers.rsp;

		if (rsp >= stack->start && rsp < stack->end && rsp < end + 4096)
			return true;
	}
	return false;
}

/*
 * At exec the kernel gives the stack 128 KiB, whose deep end programs seldom reach. Memory that is zero there was never
 * written. The stack of a thread would not do: that of a coroutine may be small, with other memory below it.
 */
static uint64_t find_room(const struct stopped_threads *threads, const struct target_maps *maps, int mem_fd)
{
	for (size_t i = 0; i < maps->line_nr; i++) {
		const struct maps_line *line = &maps->line[i];

		if (strcmp(line->path, "[stack]") || line->perms[1] != 'w')
			continue;
		for (uint64_t at = line->start; at + ROOM_BYTES < line->end && at < line->start + ROOM_SEARCH; at += PAGE_BYTES)
			if (!is_in_use(threads, line, at + ROOM_BYTES) && is_free_room(mem_fd, at))
				return at;
	}
	return 0;
}

/* A frame's room is at the deep end of the stack, where no other code runs. The call may be one that maps pages. */
static bool is_amid_call(const struct stopped_thread *thread, const struct target_maps *maps, const struct call_gate *gate)
{
	uint64_t rip = thread->registers.rip, rsp = thread->registers.rsp;
	const struct maps_line *line = target_maps_find(maps, rsp);

	return line && !strcmp(line->path, "[stack]") && rsp < line->start + ROOM_SEARCH + ROOM_BYTES &&
	       (rip - gate->syscall < 16 || rip - gate->sigreturn < 16);
}

int remote_caller_choose(struct stopped_threads *threads, const struct target_maps *maps, const struct call_gate *gate,
			 int mem_fd, struct remote_caller *ret, struct reason *why)
{
	*ret = (struct remote_caller){ .gate = gate, .mem_fd = mem_fd, .room = find_room(threads, maps, mem_fd) };
	if (!is_gate_whole(gate, mem_fd))
		return reason_set(why, -ENOTSUP, "a breakpoint lies on the instructions by which it makes system calls");
	if (!ret->room || !write_room(ret, ret->room, ROOM_MAGIC, strlen(ROOM_MAGIC)))
		return reason_set(why, -EAGAIN, "no unused room on its stack");
	for (size_t i = 0; i < threads->thread_nr; i++)
		if (is_amid_call(&threads->thread[i], maps, gate))
			return reason_set(why, -EAGAIN, "thread %d still makes a call for an injector that was killed",
					  threads->thread[i].tid);
	for (size_t i = 0; i < threads->thread_nr && !ret->thread; i++)
		if (!threads->thread[i].signal)
			ret->thread = &threads->thread[i];
	return ret->thread ? 0 : reason_set(why, -EAGAIN, "all its threads are receiving signals");
}

void remote_caller_renew(struct remote_caller *caller)
{
	caller->frame = 0;
}

int remote_caller_put(struct remote_caller *caller, const void *bytes, uint64_t length, uint64_t *ret_address)
{
	*ret_address = caller->room + TEXT_AT;
	return length <= TEXT_BYTES && write_room(caller, caller->room + TEXT_AT, bytes, length) ? 0 : -EIO;
}

void remote_caller_end(struct remote_caller *caller)
{
	static const uint8_t zero[ROOM_BYTES];

	if (!caller->is_lost)
		write_room(caller, caller->room, zero, sizeof(zero));
}

/* ---- the frame ---- */

/* An interrupted call is made again, as the kernel would do it. */
static void restart_call(struct user_regs_struct *registers)
{
	if ((long)registers->orig_rax < 0)
		return;
	switch ((long)registers->rax) {
	case -512: /* ERESTARTSYS */
	case -513: /* ERESTARTNOINTR */
	case -514: /* ERESTARTNOHAND */
		registers->rax = registers->orig_rax;
		registers->rip -= 2;
		break;
	case -516: /* ERESTART_RESTARTBLOCK */
		registers->rax = SYS_restart_syscall;
		registers->rip -= 2;
	}
}

static struct signal_frame describe_frame(const struct remote_caller *caller, uint64_t xstate)
{
	struct user_regs_struct r = caller->thread->registers;

	restart_call(&r);
	return (struct signal_frame){
		.sigreturn = caller->gate->sigreturn, .flags = FRAME_FLAGS, .stack_flags = STACK_FLAGS_NONE,
		.r8 = r.r8, .r9 = r.r9, .r10 = r.r10, .r11 = r.r11, .r12 = r.r12, .r13 = r.r13, .r14 = r.r14, .r15 = r.r15,
		.rdi = r.rdi, .rsi = r.rsi, .rbp = r.rbp, .rbx = r.rbx, .rdx = r.rdx, .rax = r.rax, .rcx = r.rcx,
		.rsp = r.rsp, .rip = r.rip, .eflags = r.eflags, .segments = (r.cs & 0xffff) | (uint64_t)r.ss << 48,
		.xstate = xstate, .mask = caller->mask | SIGTRAP_MASK,
	};
}

/* The registers of the processor's extensions, in the form that the kernel writes to a signal frame. */
static ssize_t read_xstate(const struct remote_caller *caller, uint8_t *xstate, size_t room)
{
	struct iovec piece = { xstate, room - 8 }; /* whole words */
	uint32_t head[6] = { XSTATE_MAGIC1 }, magic2 = XSTATE_MAGIC2;
	size_t bytes;

	if (ptrace(PTRACE_GETREGSET, caller->thread->tid, (void *)NT_X86_XSTATE, &piece) || piece.iov_len < 576)
		return -EIO;
	bytes = piece.iov_len;
	memcpy(&head[2], xstate + XSTATE_WORDS, 8); /* the features that are in use */
	head[1] = bytes + sizeof(magic2);
	head[4] = bytes;
	memcpy(xstate + XSTATE_WORDS, head, 5 * sizeof(*head));
	memcpy(xstate + bytes, &magic2, sizeof(magic2));
	return bytes + sizeof(magic2);
}

static int write_signal_frame(struct remote_caller *caller)
{
	uint8_t xstate[ROOM_BYTES - 2048] __attribute__((aligned(64)));
	ssize_t bytes = read_xstate(caller, xstate, sizeof(xstate));
	uint64_t at = caller->room + 1024; /* a multiple of 64 */
	struct signal_frame frame;

	if (bytes < 0)
		return bytes;
	frame = describe_frame(caller, at);
	if (!write_room(caller, at, xstate, bytes) || !write_room(caller, at - 8 - 512, &frame, sizeof(frame)))
		return -EIO;
	caller->frame = at - 8 - 512; /* 8 below a multiple of 16, as behind a call */
	return 0;
}

/* ---- a call ---- */

static bool is_call_stop(int status)
{
	return status >= 0 && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP && !(status >> 16);
}

/* Runs the thread up to the call, and then to its end. */
static int run_call(struct remote_caller *caller)
{
	pid_t tid = caller->thread->tid;

	for (int i = 0; i < 2; i++) {
		if (ptrace(PTRACE_SYSCALL, tid, 0, 0))
			return -EIO;
		pass_moment("a stop is not yet seen");
		if (!is_call_stop(wait_for_trace_stop(tid, CALL_LIMIT_NS)))
			return -EIO;
		pass_moment(i ? "at the end of a call" : "at the beginning of a call");
	}
	return 0;
}

static int begin_remote_call(struct remote_caller *caller, long number, const uint64_t *a)
{
	struct user_regs_struct registers = caller->thread->registers;
	uint64_t all = UINT64_MAX;
	pid_t tid = caller->thread->tid;
	int err;

	if (ptrace(PTRACE_GETSIGMASK, tid, sizeof(caller->mask), &caller->mask))
		return -EIO;
	err = caller->frame ? 0 : write_signal_frame(caller);
	if (err)
		return err;
	pass_moment("before a call");
	registers.rip = caller->gate->syscall;
	registers.rsp = caller->frame;
	registers.rax = number;
	registers.orig_rax = UINT64_MAX; /* the call that was interrupted waits until its registers are back */
	registers.rdi = a[0];
	registers.rsi = a[1];
	registers.rdx = a[2];
	registers.r10 = a[3];
	registers.r8 = a[4];
	registers.r9 = a[5];
	if (ptrace(PTRACE_SETREGS, tid, 0, &registers))
		return -EIO;
	pass_moment("registers set");
	if (ptrace(PTRACE_SETSIGMASK, tid, sizeof(all), &all))
		return -EIO;
	pass_moment("signals blocked");
	return 0;
}

static void end_remote_call(struct remote_caller *caller)
{
	ptrace(PTRACE_SETSIGMASK, caller->thread->tid, sizeof(caller->mask), &caller->mask);
	pass_moment("signals let in");
	set_thread_registers(caller->thread);
	pass_moment("registers back");
}

long remote_call(struct remote_caller *caller, long number, const uint64_t arguments[6])
{
	struct user_regs_struct registers;
	long result = -EIO;
	int err;

	if (caller->is_lost)
		return -EIO;
	err = begin_remote_call(caller, number, arguments) ?: run_call(caller);
	if (!err && !ptrace(PTRACE_GETREGS, caller->thread->tid, 0, &registers))
		result = registers.rax;
	caller->is_lost = err;
	if (!err)
		end_remote_call(caller);
	return result;
}
