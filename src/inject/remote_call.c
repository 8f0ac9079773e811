// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "inject/remote_call.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/reason.h"
#include "inject/inject_private.h"
#include "inject/stopped_threads.h"
#include "helper/helper.h"

/* ---- tracer ---- */

struct tracer {
	int result;
	_Alignas(16) char outcome[];
};

static timer_t life;

int tracer_renew(void)
{
	const struct itimerspec limit = {
		.it_value = { TRACER_LIMIT_NS / SECOND_NS, TRACER_LIMIT_NS % SECOND_NS },
	};

	return timer_settime(life, 0, &limit, NULL) ? -errno : 0;
}

/* A signal other than SIGKILL would wait until a stopped child goes on. */
static int limit_own_life(pid_t parent)
{
	struct sigevent end = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };

	if (setsid() < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) || timer_create(CLOCK_MONOTONIC, &end, &life))
		return -errno;
	return tracer_renew() ?: getppid() == parent ? 0 : -ESRCH;
}

static void trace_and_exit(struct tracer *tracer, pid_t parent, int (*work)(void *argument, void *outcome), void *argument)
{
	int err = limit_own_life(parent);

	prctl(PR_SET_NAME, "allocsnap-trace");
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 }); /* if it may: threads wait for it */
	tracer->result = err ?: work(argument, tracer->outcome);
	_exit(0);
}

/* All signals stay blocked in the child: signals from a terminal or a service manager are for the parent. */
static int run_in_child(struct tracer *tracer, int (*work)(void *argument, void *outcome), void (*attend)(void *argument),
			void *argument)
{
	pid_t parent = getpid(), pid = helper_fork();

	if (!pid)
		trace_and_exit(tracer, parent, work, argument);
	if (pid < 0)
		return -errno;
	if (attend)
		attend(argument);
	helper_wait(pid); /* -ECHILD: it has ended, and this process ignores SIGCHLD */
	return tracer->result;
}

int run_as_tracer(int (*work)(void *argument, void *outcome), void (*attend)(void *argument), void *argument, void *outcome,
		  size_t outcome_bytes)
{
	size_t bytes = sizeof(struct tracer) + outcome_bytes;
	struct tracer *tracer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int result;

	if (tracer == MAP_FAILED)
		return -ENOMEM;
	tracer->result = -ETIMEDOUT;
	if (outcome_bytes)
		memcpy(tracer->outcome, outcome, outcome_bytes);
	result = run_in_child(tracer, work, attend, argument);
	if (outcome_bytes)
		memcpy(outcome, tracer->outcome, outcome_bytes);
	munmap(tracer, bytes);
	return result;
}

uint64_t tracer_has_ended(uint64_t lived_ns, struct reason *why)
{
	reason_set(why, -ETIMEDOUT, lived_ns < TRACER_LIMIT_NS ? "the process that stops its threads was killed" :
		   "it took more than a second while its threads stood still");
	return lived_ns;
}

/* ---- remote call ---- */

#define ROOM_BYTES (24u << 10)
#define ROOM_SEARCH (64u << 10) /* of the deep end of the stack */
#define ROOM_MAGIC "asinroom"	/* at its beginning: one who was killed had it */
#define TEXT_AT 16
#define TEXT_BYTES 64
#define XSTATE_AT 8192
#define BREAK_OFF_NS (SECOND_NS / 20)
#define FRAME_BYTES 320

/* Parts of a signal frame that the kernel's headers do not name (arch/x86/include/uapi/asm/sigcontext.h). */
#define XSTATE_WORDS 464 /* struct _fpx_sw_bytes in the xstate */
#define XSTATE_MAGIC1 0x46505853u
#define XSTATE_MAGIC2 0x46505845u
#define FRAME_FLAGS 7 /* UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS */
#define FLAGS_NONE 0x202 /* interrupts: as in any user program */
#define STACK_FLAGS_NONE 0x7fff /* no alternate stack has them: rt_sigreturn leaves it as it is */

/* The frame of a signal handler, from its return address on: struct ucontext and struct sigcontext. */
struct signal_frame {
	uint64_t sigreturn;
	uint64_t flags, link, stack_address, stack_flags, stack_bytes;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
	uint64_t segments, error, trap, old_mask, cr2, xstate, reserved[8];
	uint64_t mask;
};

_Static_assert(sizeof(struct signal_frame) <= FRAME_BYTES, "frames have a place each");
_Static_assert(TEXT_AT + TEXT_BYTES + FRAME_BYTES * (REMOTE_UNDO_MAX + 1) + 8 <= XSTATE_AT, "the room holds all");

/* ---- the room ---- */

/* Never used, or left by an injector that was killed. */
static bool is_free_room(int mem_fd, uint64_t at)
{
	static const uint8_t zero[ROOM_BYTES];
	uint8_t byte[ROOM_BYTES];

	return pread(mem_fd, byte, sizeof(byte), at) == sizeof(byte) &&
	       (!memcmp(byte, zero, sizeof(byte)) || !memcmp(byte, ROOM_MAGIC, strlen(ROOM_MAGIC)));
}

static bool write_room(const struct remote_caller *caller, uint64_t at, const void *bytes, size_t length)
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
 * written. The stack of a thread would not do: a coroutine's may be small, with other memory below it.
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

/*
 * Where the program has been at the deep end before, that is dead memory, as long as the only thread on this stack makes the
 * call: it runs nothing else until it has its registers back. NULL: another one is there, or none.
 */
static struct stopped_thread *find_thread_above(struct stopped_threads *threads, const struct target_maps *maps, uint64_t *ret_room)
{
	struct stopped_thread *found = NULL;
	uint64_t room = 0;

	for (size_t i = 0; i < threads->thread_nr; i++) {
		const struct maps_line *line = target_maps_find(maps, threads->thread[i].registers.rsp);

		if (!line || strcmp(line->path, "[stack]") || line->perms[1] != 'w')
			continue;
		if (found || line->start + ROOM_BYTES >= line->end || is_in_use(threads, line, line->start + ROOM_BYTES))
			return NULL;
		found = &threads->thread[i];
		room = line->start;
	}
	*ret_room = room;
	return found;
}

/* A frame's room is at the deep end of the stack, where no other code runs. The call may be one that maps pages. */
static bool is_amid_call(const struct stopped_thread *thread, const struct target_maps *maps, const struct call_gate *gate)
{
	uint64_t rip = thread->registers.rip, rsp = thread->registers.rsp;
	const struct maps_line *line = target_maps_find(maps, rsp);

	return line && !strcmp(line->path, "[stack]") && rsp < line->start + ROOM_SEARCH + ROOM_BYTES &&
	       (rip - gate->syscall < 16 || rip - gate->sigreturn < 16);
}

int check_no_open_call(const struct stopped_threads *threads, const struct target_maps *maps, const struct call_gate *gate,
		       struct reason *why)
{
	for (size_t i = 0; i < threads->thread_nr; i++)
		if (is_amid_call(&threads->thread[i], maps, gate))
			return reason_set(why, -EAGAIN, "thread %d still makes a call for an injector that was killed",
					  threads->thread[i].tid);
	return 0;
}

/* A thread that can make calls; `only`: NULL, or no other one. What holds for a moment only says more than what holds for good. */
static int choose_thread(struct stopped_threads *threads, const struct stopped_thread *only, int mem_fd,
			 struct stopped_thread **ret, struct reason *why)
{
	struct reason why_not;
	int worst = 0;

	for (size_t i = 0; i < threads->thread_nr; i++) {
		int err;

		if (only && only != &threads->thread[i])
			continue;
		err = check_calling_thread(threads->pid, &threads->thread[i], mem_fd, &why_not);
		if (!err) {
			*ret = &threads->thread[i];
			return 0;
		}
		if (!worst || (err == -EBUSY && worst != -EBUSY))
			worst = reason_set(why, err, "%s", why_not.text);
	}
	return worst;
}

int remote_caller_choose(struct stopped_threads *threads, const struct target_maps *maps, const struct call_gate *gate,
			 int mem_fd, struct remote_caller *ret, struct reason *why)
{
	const struct stopped_thread *only = NULL;

	*ret = (struct remote_caller){
		.gate = gate, .mem_fd = mem_fd, .room = find_room(threads, maps, mem_fd),
		.until_ns = threads->begun_ns + TRACER_PATIENCE_NS,
	};
	if (!is_gate_whole(gate, mem_fd))
		return reason_set(why, -ENOTSUP, "a breakpoint lies on the instructions by which it makes system calls");
	if (check_no_open_call(threads, maps, gate, why))
		return -EAGAIN;
	if (!ret->room)
		only = find_thread_above(threads, maps, &ret->room);
	if (!ret->room || !write_room(ret, ret->room, ROOM_MAGIC, strlen(ROOM_MAGIC)))
		return reason_set(why, -EAGAIN, "no unused room on its stack");
	return choose_thread(threads, only, mem_fd, &ret->thread, why);
}

int remote_caller_put(struct remote_caller *caller, const void *bytes, uint64_t length, uint64_t *ret_address)
{
	*ret_address = caller->room + TEXT_AT;
	return length <= TEXT_BYTES && write_room(caller, caller->room + TEXT_AT, bytes, length) ? 0 : -EIO;
}

/* ---- frames ---- */

/* An interrupted call is made again, as the kernel would do it; its time limit, if it has one, begins anew. */
static void restart_call(struct user_regs_struct *registers)
{
	if ((long)registers->orig_rax < 0)
		return;
	switch ((long)registers->rax) {
	case -512: /* ERESTARTSYS */
	case -513: /* ERESTARTNOINTR */
	case -514: /* ERESTARTNOHAND */
	case -516: /* ERESTART_RESTARTBLOCK */
		registers->rax = registers->orig_rax;
		registers->rip -= 2;
	}
}

/* The thread as it was. */
static struct signal_frame describe_last_frame(const struct remote_caller *caller)
{
	struct user_regs_struct r = caller->thread->registers;

	restart_call(&r);
	return (struct signal_frame){
		.sigreturn = caller->gate->sigreturn, .flags = FRAME_FLAGS, .stack_flags = STACK_FLAGS_NONE,
		.r8 = r.r8, .r9 = r.r9, .r10 = r.r10, .r11 = r.r11, .r12 = r.r12, .r13 = r.r13, .r14 = r.r14, .r15 = r.r15,
		.rdi = r.rdi, .rsi = r.rsi, .rbp = r.rbp, .rbx = r.rbx, .rdx = r.rdx, .rax = r.rax, .rcx = r.rcx,
		.rsp = r.rsp, .rip = r.rip, .eflags = r.eflags, .segments = (r.cs & 0xffff) | (uint64_t)r.ss << 48,
		.xstate = caller->room + XSTATE_AT, .mask = caller->mask,
	};
}

/* A call with all signals blocked, which returns to the next frame. */
static struct signal_frame describe_call_frame(const struct remote_caller *caller, long number, const uint64_t *a)
{
	const struct user_regs_struct *r = &caller->thread->registers;

	return (struct signal_frame){
		.sigreturn = caller->gate->sigreturn, .flags = FRAME_FLAGS, .stack_flags = STACK_FLAGS_NONE,
		.rax = number, .rdi = a[0], .rsi = a[1], .rdx = a[2], .r10 = a[3], .r8 = a[4], .r9 = a[5],
		.rsp = caller->frame, .rip = caller->gate->syscall, .eflags = FLAGS_NONE,
		.segments = (r->cs & 0xffff) | (uint64_t)r->ss << 48, .mask = UINT64_MAX,
	};
}

/* The registers of the processor's extensions, in the form that the kernel writes to a signal frame. */
static int write_xstate(const struct remote_caller *caller)
{
	uint8_t xstate[ROOM_BYTES - XSTATE_AT] __attribute__((aligned(64)));
	struct iovec piece = { xstate, sizeof(xstate) - 8 }; /* whole words */
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
	return write_room(caller, caller->room + XSTATE_AT, xstate, bytes + sizeof(magic2)) ? 0 : -EIO;
}

/* Each frame lies below those that were written before it, and is never changed: a call may be about to return to it. */
static uint64_t frame_address(const struct remote_caller *caller, uint32_t frame)
{
	return caller->room + XSTATE_AT - 8 - FRAME_BYTES * (frame + 1); /* 8 below a multiple of 16, as behind a call */
}

static int push_frame(struct remote_caller *caller, const struct signal_frame *frame)
{
	uint64_t at = frame_address(caller, caller->frame_nr);

	if (caller->frame_nr > REMOTE_UNDO_MAX || !write_room(caller, at, frame, sizeof(*frame)))
		return -EIO;
	caller->frame_nr++;
	caller->frame = at;
	return 0;
}

static int write_last_frame(struct remote_caller *caller)
{
	struct signal_frame frame;

	if (caller->frame)
		return 0;
	if (ptrace(PTRACE_GETSIGMASK, caller->thread->tid, sizeof(caller->mask), &caller->mask))
		return -EIO;
	frame = describe_last_frame(caller);
	return write_xstate(caller) ?: push_frame(caller, &frame);
}

int remote_caller_undo(struct remote_caller *caller, long number, const uint64_t arguments[6])
{
	struct signal_frame frame;
	int err = write_last_frame(caller);

	if (err)
		return err;
	frame = describe_call_frame(caller, number, arguments);
	return push_frame(caller, &frame);
}

void remote_caller_forget_undos(struct remote_caller *caller)
{
	if (caller->frame)
		caller->frame = frame_address(caller, 0);
}

/* The frame lies in one page, which the kernel writes at once, whatever happens to this process. */
int remote_caller_set_registers(struct remote_caller *caller, struct stopped_thread *thread)
{
	struct signal_frame frame;

	if (thread != caller->thread || !caller->frame)
		return set_thread_registers(thread) ? -EAGAIN : 0;
	frame = describe_last_frame(caller);
	if (!write_room(caller, frame_address(caller, 0), &frame, sizeof(frame)))
		return -EAGAIN;
	return caller->is_away || !set_thread_registers(thread) ? 0 : -EAGAIN;
}

/* ---- a call ---- */

static bool is_call_stop(int status)
{
	return WIFSTOPPED(status) && status >> 8 == (SIGTRAP | 0x80);
}

/*
 * SIGSTOP cannot be blocked. It stops the process as it would any other (a group stop), in which a tracee still runs if
 * its tracer wants it; the kernel stops it for good when the tracer lets it go, unless SIGCONT came before.
 */
static bool is_group_stop(int status)
{
	return WIFSTOPPED(status) && (status >> 16 == PTRACE_EVENT_STOP || status >> 8 == SIGSTOP);
}

/* Up to the beginning of the call, or to its end. */
static int run_to_call_stop(struct remote_caller *caller)
{
	int status, signal = 0;

	do {
		if (ptrace(PTRACE_SYSCALL, caller->thread->tid, 0, (void *)(long)signal))
			return -EIO;
		pass_moment("a stop is not yet seen");
		status = wait_for_trace_stop(caller->thread->tid, caller->until_ns);
		signal = status >> 8 == SIGSTOP ? SIGSTOP : 0;
	} while (status >= 0 && is_group_stop(status));
	return status >= 0 && is_call_stop(status) ? 0 : -EIO;
}

static int run_call(struct remote_caller *caller)
{
	int err = run_to_call_stop(caller);

	pass_moment("at the beginning of a call");
	err = err ?: run_to_call_stop(caller);
	pass_moment("at the end of a call");
	return err;
}

/* First the registers, whose way back restores the mask; then the mask. */
static int begin_remote_call(struct remote_caller *caller, long number, const uint64_t *a)
{
	struct user_regs_struct registers = caller->thread->registers;
	uint64_t all = UINT64_MAX;
	pid_t tid = caller->thread->tid;
	int err = write_last_frame(caller);

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
	if (!caller->is_away && ptrace(PTRACE_SETSIGMASK, tid, sizeof(all), &all))
		return -EIO;
	caller->is_away = true;
	pass_moment("signals blocked");
	return 0;
}

/* The thread does not run (its control group is frozen). Before its first call, nothing has happened. */
static bool has_not_begun(const struct remote_caller *caller)
{
	pid_t tid = caller->thread->tid;
	struct user_regs_struct registers;

	return caller->call_nr == 1 && !ptrace(PTRACE_INTERRUPT, tid, 0, 0) &&
	       wait_for_trace_stop(tid, caller->until_ns + BREAK_OFF_NS) >= 0 && !ptrace(PTRACE_GETREGS, tid, 0, &registers) &&
	       registers.rip == caller->gate->syscall;
}

long remote_call(struct remote_caller *caller, long number, const uint64_t arguments[6])
{
	struct user_regs_struct registers;
	long result = -EIO;
	int err;

	if (caller->is_lost)
		return -EIO;
	caller->call_nr++;
	err = begin_remote_call(caller, number, arguments) ?: run_call(caller);
	if (!err && !ptrace(PTRACE_GETREGS, caller->thread->tid, 0, &registers))
		result = registers.rax;
	caller->is_stuck = err;
	if (err && has_not_begun(caller))
		caller->call_nr = 0;
	else
		caller->is_lost = err;
	return result;
}

int check_caller_ran(const struct remote_caller *caller, struct reason *why)
{
	return caller->is_stuck ? reason_set(why, -EAGAIN, "thread %d does not run (its control group is frozen, or the machine is "
					     "busy): try again when it does", caller->thread->tid) : 0;
}

void remote_caller_end(struct remote_caller *caller)
{
	static const uint8_t zero[ROOM_BYTES];

	if (caller->is_lost)
		return;
	if (caller->is_away) {
		caller->is_lost = ptrace(PTRACE_SETSIGMASK, caller->thread->tid, sizeof(caller->mask), &caller->mask);
		pass_moment("signals let in");
		caller->is_lost = caller->is_lost || set_thread_registers(caller->thread);
		if (caller->is_lost)
			return; /* its last frame stays, and brings both back when it runs on */
		pass_moment("registers back");
		caller->is_away = false;
	}
	write_room(caller, caller->room, zero, sizeof(zero));
}
