/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_INJECT_STOPPED_THREADS_H
#define ALLOCSNAP_COLLECT_INJECT_STOPPED_THREADS_H

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
 * Is called in a tracer (tracer.h): when that ends, the kernel gives up the threads that did not stop in time, and what they
 * were asked to do. A call that the stop has ended with EINTR will be made again. 0; -EAGAIN: one does not stop; -EPERM;
 * -ESRCH; -ENOMEM. After an error all threads go on.
 */
int stop_threads(pid_t pid, struct stopped_threads *ret, struct reason *why);

/* Lets them go on, and frees. stopped_ns and thread_nr stay. A stop signal that came meanwhile stops the process now. */
void resume_threads(struct stopped_threads *threads);

/* 0 or -errno */
int set_thread_registers(struct stopped_thread *thread);

/* Waits until a thread that ptrace lets go on has stopped. The status of waitpid(), or -errno. until_ns: monotonic_now_ns() */
int wait_for_trace_stop(pid_t tid, uint64_t until_ns);

#endif
