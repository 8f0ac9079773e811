// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * backtraces: takes backtraces in a handler of SIGPROF, while it is in the C library's allocator most of
 * the time. It is linked statically, and avoids calloc, which calls memset by a stub without call frame
 * information that ends every backtrace.
 *
 *	go N     until it has N backtraces; answers how many of them reach the caller of run()
 *	quit
 */
#include <execinfo.h>
#include <signal.h>
#include <sys/time.h>

#include "workload.h"

#define FRAMES_MAX 64

static void *volatile caller;
static volatile long look_nr, whole_nr;

static void look(int)
{
	void *frame[FRAMES_MAX];
	int nr = backtrace(frame, FRAMES_MAX);

	if (!caller)
		return;
	look_nr++;
	for (int i = 0; i < nr; i++)
		whole_nr += frame[i] == caller;
}

SITE void allocate(int depth)
{
	if (depth) {
		allocate(depth - 1);
		return;
	}
	for (int i = 0; i < 100; i++) {
		void *volatile p = malloc(64);

		free(p);
	}
}

SITE void run(long nr)
{
	look_nr = whole_nr = 0;
	caller = __builtin_return_address(0);
	while (look_nr < nr)
		allocate(5);
	caller = NULL;
}

int main(void)
{
	const struct itimerval each_ms = { { 0, 1000 }, { 0, 1000 } };
	const char *command;
	void *frame[1];

	backtrace(frame, 1); /* loads the unwinder's library */
	signal(SIGPROF, look);
	ready();
	while (strcmp(command = next_command(), "quit")) {
		setitimer(ITIMER_PROF, &each_ms, NULL);
		run(atol(command + 3));
		setitimer(ITIMER_PROF, &(struct itimerval){}, NULL);
		answer("{\"done\": {\"looks\": %ld, \"whole\": %ld}}", look_nr, whole_nr);
	}
}
