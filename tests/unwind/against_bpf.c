// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * against_bpf STOPPER.SO STACKS EVERY HOW COMMAND…: runs and records a command that stops behind
 * every EVERYth allocation (stopper.c), and compares the traceback that the kernel's side has taken
 * of that block with what elfutils' libdwfl says of the stopped thread. HOW is auto, dwarf or fp.
 * Prints, with tabs:
 *
 *	stacks, complete, limited, same, false complete, guessed, frames, NAME=stacks for each other end
 *
 * complete: it says that it found the root. same: frame by frame what libdwfl says, as far as it
 * goes. false complete: it says so, and libdwfl went on. Status 1 if a stack is not the same.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/reason.h"
#include "bpf_types.h"
#include "collect/recorded.h"
#include "stopper.h"
#include "unwind_frame.h"

#define FRAMES_MAX 2048
#define SHOWN_MAX 3

struct stack {
	uint32_t nr;
	uint64_t pc[FRAMES_MAX];
};

struct result {
	uint64_t stacks, complete, limited, same, false_complete, guessed, frames, shown;
	uint64_t end[UNWIND_END_NR];
};

static const char *const end_name[] = {
#define X(name, meaning) #name,
	UNWIND_ENDS(X)
#undef X
};

/* ---- libdwfl ---- */

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_linux_proc_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
};

static int take_frame(Dwfl_Frame *frame, void *context)
{
	struct stack *stack = context;

	if (stack->nr == FRAMES_MAX || !dwfl_frame_pc(frame, &stack->pc[stack->nr], NULL))
		return DWARF_CB_ABORT;
	stack->nr++;
	return DWARF_CB_OK;
}

/* Frames from the allocator's caller on. */
static Dwfl *ask_dwfl(pid_t pid, const struct stop *stop, struct stack *stack)
{
	Dwfl *dwfl = dwfl_begin(&callbacks);
	uint32_t first = 0;

	stack->nr = 0;
	dwfl_report_begin(dwfl);
	if (dwfl_linux_proc_report(dwfl, pid) || dwfl_report_end(dwfl, NULL, NULL) ||
	    dwfl_linux_proc_attach(dwfl, pid, false) < 0) {
		fprintf(stderr, "against_bpf: %s\n", dwfl_errmsg(-1));
		exit(2);
	}
	dwfl_getthread_frames(dwfl, stop->tid, take_frame, stack);
	while (first < stack->nr && stack->pc[first] != stop->caller)
		first++;
	stack->nr -= first;
	memmove(stack->pc, stack->pc + first, stack->nr * sizeof(*stack->pc));
	return dwfl;
}

/* ---- the kernel's side ---- */

static bool find_traceback(const struct collector *collector, pid_t pid, uint64_t address,
			   struct traceback *ret)
{
	const struct allocsnap_bpf *bpf = collector->bpf;
	struct block_key key = { .address = address };
	struct process process;
	struct block block;
	uint32_t tgid = pid;

	if (bpf_map_lookup_elem(bpf_map__fd(bpf->maps.processes), &tgid, &process))
		return false;
	key.image = process.image;
	return !bpf_map_lookup_elem(bpf_map__fd(bpf->maps.blocks), &key, &block) &&
	       !bpf_map_lookup_elem(bpf_map__fd(bpf->maps.tracebacks), &block.traceback, ret);
}

/* ---- comparing ---- */

static void show(const char *who, const uint64_t *pc, uint32_t nr, Dwfl *dwfl)
{
	for (uint32_t i = 0; i < nr; i++) {
		Dwfl_Module *module = dwfl_addrmodule(dwfl, pc[i]);
		Dwarf_Addr start = 0;
		const char *name = module ? dwfl_module_info(module, NULL, &start, NULL, NULL, NULL,
							     NULL, NULL) : "?";

		fprintf(stderr, "  %s %2u %#" PRIx64 " %s+%#" PRIx64 "\n", who, i, pc[i], name,
			pc[i] - start);
	}
}

/* Frame 0 is stopper.so's own, at another place by now. */
static void compare(struct result *result, const struct traceback *ours, const struct stack *theirs,
		    Dwfl *dwfl)
{
	uint32_t nr = ours->nframe - 1;
	bool is_whole = ours->total_nframe == ours->nframe;
	bool is_root = ours->end == UNWIND_ROOT && is_whole;
	bool is_same = nr <= theirs->nr && !memcmp(ours->pc + 1, theirs->pc, nr * sizeof(*ours->pc));
	bool is_false = is_root && nr != theirs->nr;

	result->stacks++;
	result->complete += is_root;
	result->limited += !is_whole;
	result->same += is_same;
	result->false_complete += is_false;
	result->guessed += (ours->guessed[0] | ours->guessed[1]) != 0;
	result->frames += ours->nframe;
	result->end[ours->end]++;
	if ((is_same && !is_false) || result->shown++ >= SHOWN_MAX)
		return;
	fprintf(stderr, "against_bpf: not the same (we: %s)\n", end_name[ours->end]);
	show("we  ", ours->pc + 1, nr, dwfl);
	show("dwfl", theirs->pc, theirs->nr, dwfl);
}

static void sample(struct result *result, const struct collector *collector, pid_t pid,
		   const struct stop *stop)
{
	static struct stack theirs;
	struct traceback ours;
	Dwfl *dwfl;

	if (!find_traceback(collector, pid, stop->address, &ours))
		return; /* of before the recording */
	dwfl = ask_dwfl(pid, stop, &theirs);
	if (theirs.nr)
		compare(result, &ours, &theirs, dwfl);
	dwfl_end(dwfl);
}

/* ---- running ---- */

static struct stop *make_stop(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct stop *stop = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, sizeof(*stop)))
		stop = mmap(NULL, sizeof(*stop), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (stop == MAP_FAILED) {
		perror(path);
		exit(2);
	}
	return stop;
}

static void follow(struct result *result, struct collector *collector, pid_t pid,
		   struct stop *stop, uint64_t stacks)
{
	int status;

	while (waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status)) {
		collector__refresh(collector);
		if (stop->is_taken)
			sample(result, collector, pid, stop);
		if (result->stacks >= stacks) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return;
		}
		kill(pid, SIGCONT);
	}
}

static void print(const struct result *result)
{
	printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64,
	       result->stacks, result->complete, result->limited, result->same,
	       result->false_complete, result->guessed, result->frames);
	for (int i = 0; i < UNWIND_END_NR; i++)
		if (result->end[i])
			printf("\t%s=%" PRIu64, end_name[i], result->end[i]);
	putchar('\n');
}

int main(int argc, char **argv)
{
	struct collector_options options = { .traceback_limit = COLLECTOR_TRACEBACK_LIMIT_MAX };
	char path[] = "/tmp/allocsnap-stop.XXXXXX";
	struct result result = { 0 };
	struct reason why = { "" };
	struct collector *collector;
	struct stop *stop;
	pid_t pid = -1;

	if (argc < 6)
		return 2;
	options.unwinder = !strcmp(argv[4], "fp")    ? COLLECTOR_UNWIND_FP :
			   !strcmp(argv[4], "dwarf") ? COLLECTOR_UNWIND_DWARF :
						       COLLECTOR_UNWIND_AUTO;
	close(mkstemp(path));
	stop = make_stop(path);
	stop->every = atoi(argv[3]);
	setenv("STOPPER", path, 1);
	setenv("LD_PRELOAD", argv[1], 1);
	collector = collector__open(&options, &why);
	if (!collector || collector__run(collector, (const char *const *)argv + 5, &pid, &why)) {
		fprintf(stderr, "against_bpf: %s\n", why.text);
		unlink(path);
		return 2;
	}
	follow(&result, collector, pid, stop, strtoull(argv[2], NULL, 10));
	collector__close(collector);
	unlink(path);
	print(&result);
	return result.same != result.stacks || result.false_complete;
}
