/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INJECT_STOPPED_THREADS_H
#define ALLOCSNAP_INJECT_STOPPED_THREADS_H

/*
 * Stops all threads of a process by ptrace, and lets them go on. If this process is killed in between, the kernel lets
 * them go on. A program sees nothing of it but the time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct reason;
struct stopped_thread;
struct stopped_threads;
struct target_maps;

struct stopped_thread {
	pid_t tid;
	bool is_stopped; /* it was seen to stop */
	bool has_moved; /* its registers were changed */
	struct user_regs_struct registers;
};

struct stopped_threads {
	pid_t pid;
	struct stopped_thread *thread;
	size_t thread_nr, thread_alloc;
	pid_t *plain; /* before the stop, sorted */
	size_t plain_nr, plain_alloc;
	uint64_t begun_ns;
	uint64_t stopped_ns; /* filled when they go on */
};

/*
 * Is called in a tracer (remote_call.h): when that ends, the kernel gives up the threads that did not stop in time, and what they
 * were asked to do. A call that the stop has ended with EINTR will be made again. 0; -EAGAIN: one does not stop; -EPERM;
 * -ESRCH; -ENOMEM. After an error all threads go on.
 */
int stop_threads(pid_t pid, struct stopped_threads *ret, struct reason *why);

/*
 * Lets the only thread run until it has made a system call, and stops it again. A call for memory does not count: CPython
 * exchanges the functions of its raw domain for a few allocations, here and there at its start, and the C library may ask for
 * memory then. But it counts when pymalloc has got its first arena, of arena_bytes. 0; -EAGAIN: no such call until until_ns
 * (monotonic_now_ns()), or a signal has stopped it; -ESRCH.
 */
int run_to_next_call(struct stopped_threads *threads, uint64_t arena_bytes, uint64_t until_ns, struct reason *why);

/* Stops threads that have begun since, as stop_threads() does. */
int stop_new_threads(struct stopped_threads *threads, struct reason *why);

/* Lets them go on, and frees. stopped_ns and thread_nr stay. A stop signal that came meanwhile stops the process now. */
void resume_threads(struct stopped_threads *threads);

/* 0 or -errno */
int set_thread_registers(struct stopped_thread *thread);

/* Waits until a thread that ptrace lets go on has stopped. The status of waitpid(), or -errno. until_ns: monotonic_now_ns() */
int wait_for_trace_stop(pid_t tid, uint64_t until_ns);

/*
 * Searches the stacks of stopped threads for addresses: all of a stack of 8 MiB; the last MiB of one that lies in larger
 * memory (a heap). Contexts that a program keeps elsewhere (coroutines that a signal preempted) are not found.
 */

struct stack_search {
	bool (*is_wanted)(uint64_t address, const void *context);
	const void *context;
	bool in_frames; /* only where a signal has interrupted a thread, not in words that a function has left behind */
	bool (*is_pointer)(uint64_t address, const void *context); /* NULL, or: these ones anywhere */
};

/* Returns true and the thread if an address was found. */
bool find_on_stacks(const struct stopped_threads *threads, const struct target_maps *maps, int mem_fd,
		    const struct stack_search *search, pid_t *ret_tid);

/* Whether a range of memory has such an address, as a word. False, too, from where it cannot be read. */
bool find_in_memory(int mem_fd, uint64_t at, uint64_t end, const struct stack_search *search);

/* Whether a register of a stopped thread has one, vector registers included: it may be about to use it. */
bool find_in_registers(const struct stopped_thread *thread, const struct stack_search *search);

/* Conditions for a stopped thread whose registers will be changed. Everything is read; nothing is assumed. */

/*
 * It runs 64-bit code, is amid no restartable sequence (rseq(2)), its system calls reach the kernel (no syscall user
 * dispatch), and it has the descriptors of the process. Its seccomp filters are suspended then, until it goes on. 0; -EBUSY:
 * not at this moment; -ENOTSUP: not for good; -EPERM.
 */
int check_calling_thread(pid_t pid, const struct stopped_thread *thread, int mem_fd, struct reason *why);

/* The same for a thread that is moved to another copy of the instruction at which it is. It makes no calls there. */
int check_moved_thread(const struct stopped_thread *thread, int mem_fd, struct reason *why);

/*
 * The thread pointer of each thread in 64-bit code leads to itself, as the psABI for x86-64 has it (thread-local storage,
 * variant II): the sampler reads it. 0 or -ENOTSUP.
 */
int check_thread_pointers(const struct stopped_threads *threads, int mem_fd, struct reason *why);

#endif
