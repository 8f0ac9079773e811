// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * against_dwfl STACKS SECONDS COMMAND…: runs a command, again and again if it ends, and stops its
 * threads at random moments. Each stopped thread is unwound by us and by elfutils' libdwfl, until
 * there are so many stacks or so many seconds have passed. Prints, with tabs:
 *
 *	stacks, complete, same, false complete, frames, NAME=stacks for each other end
 *
 * complete: as many frames as libdwfl has. That is without the root while ld.so starts the program:
 * its first code has no rules. same: frame by frame what libdwfl says; where we have stopped
 * earlier, up to there. false complete: we found the root and libdwfl went on.
 * Each stack that is not the same is printed to stderr. Status 1 if there is one.
 */
#include <elfutils/libdwfl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <time.h>
#include <unistd.h>

#include "target.h"
#include "threads.h"

#define PAUSE_US_MAX 3000
#define SHOWN_MAX 3

struct result {
	uint64_t stacks, complete, same, false_complete, frames, shown;
	uint64_t end[16];
};

/* ---- libdwfl ---- */

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_linux_proc_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
};

static int take_frame(Dwfl_Frame *frame, void *context)
{
	struct stack *stack = context;
	bool is_activation;

	if (stack->nr == FRAMES_MAX || !dwfl_frame_pc(frame, &stack->pc[stack->nr], &is_activation))
		return DWARF_CB_ABORT;
	stack->nr++;
	return DWARF_CB_OK;
}

/* A new one each time, since a Dwfl remembers old mappings. */
static Dwfl *attach(pid_t pid)
{
	Dwfl *dwfl = dwfl_begin(&callbacks);

	dwfl_report_begin(dwfl);
	if (dwfl_linux_proc_report(dwfl, pid) || dwfl_report_end(dwfl, NULL, NULL) ||
	    dwfl_linux_proc_attach(dwfl, pid, true) < 0) {
		fprintf(stderr, "against_dwfl: %s\n", dwfl_errmsg(-1));
		exit(2);
	}
	return dwfl;
}

/* ---- comparing ---- */

static bool same_frames(const struct stack *ours, const struct stack *theirs)
{
	return ours->nr <= theirs->nr && !memcmp(ours->pc, theirs->pc, ours->nr * sizeof(*ours->pc));
}

static void show(const char *who, const struct stack *stack, Dwfl *dwfl)
{
	for (uint32_t i = 0; i < stack->nr; i++) {
		Dwfl_Module *module = dwfl_addrmodule(dwfl, stack->pc[i]);
		Dwarf_Addr start = 0;
		const char *name = module ? dwfl_module_info(module, NULL, &start, NULL, NULL, NULL,
							     NULL, NULL)
					  : "?";

		fprintf(stderr, "  %s %2u %#" PRIx64 " %s+%#" PRIx64 "\n", who, i, stack->pc[i],
			name, stack->pc[i] - start);
	}
}

static void compare(struct result *result, const struct stack *ours, const struct stack *theirs,
		    Dwfl *dwfl)
{
	bool is_root = !strcmp(end_name[ours->end], "ROOT");
	bool is_same = same_frames(ours, theirs);
	bool is_false = is_root && ours->nr != theirs->nr;

	result->stacks++;
	result->complete += is_same && ours->nr == theirs->nr;
	result->same += is_same;
	result->false_complete += is_false;
	result->frames += ours->nr;
	result->end[ours->end]++;
	if ((is_same && !is_false) || result->shown++ >= SHOWN_MAX)
		return;
	fprintf(stderr, "against_dwfl: not the same (we: %s)\n", end_name[ours->end]);
	show("we  ", ours, dwfl);
	show("dwfl", theirs, dwfl);
}

static void sample(struct result *result, struct target *target, const struct threads *threads)
{
	static struct stack ours, theirs;
	Dwfl *dwfl = attach(threads->pid);

	target__look(target);
	for (size_t i = 0; i < threads->nr; i++) {
		pid_t tid = threads->thread[i].tid;
		struct user_regs_struct regs;

		if (ptrace(PTRACE_GETREGS, tid, 0, &regs))
			continue;
		target__unwind(target, &regs, &ours);
		theirs.nr = 0;
		dwfl_getthread_frames(dwfl, tid, take_frame, &theirs);
		compare(result, &ours, &theirs, dwfl);
	}
	dwfl_end(dwfl);
}

/* ---- running ---- */

static void run_once(struct result *result, uint64_t stacks, time_t until, char **argv)
{
	struct threads threads;
	struct target *target;

	threads__start(&threads, argv);
	target = target__open(threads.pid);
	while (result->stacks < stacks && time(NULL) < until &&
	       threads__run(&threads, rand() % PAUSE_US_MAX) && threads__stop(&threads))
		sample(result, target, &threads);
	threads__kill(&threads);
	target__close(target);
}

static void print(const struct result *result)
{
	printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, result->stacks,
	       result->complete, result->same, result->false_complete, result->frames);
	for (uint32_t i = 0; i < end_nr; i++)
		if (result->end[i])
			printf("\t%s=%" PRIu64, end_name[i], result->end[i]);
	putchar('\n');
}

int main(int argc, char **argv)
{
	struct result result = { 0 };
	uint64_t stacks;
	time_t until;

	if (argc < 4) {
		fprintf(stderr, "usage: against_dwfl STACKS SECONDS COMMAND…\n");
		return 2;
	}
	stacks = strtoull(argv[1], NULL, 10);
	until = time(NULL) + atoi(argv[2]);
	while (result.stacks < stacks && time(NULL) < until)
		run_once(&result, stacks, until, argv + 3);
	print(&result);
	return result.same != result.stacks || result.false_complete;
}
