// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * against_bpf STOPPER.SO STACKS EVERY SECONDS HOW COMMAND…: runs and records a command that stops
 * behind every EVERYth allocation (stopper.c), and compares the traceback that the kernel's side has
 * taken of that block with what elfutils' libdwfl says of the stopped thread. HOW is auto, dwarf or
 * fp. It ends with the command, after STACKS stacks or SECONDS. Prints, with tabs:
 *
 *	stacks, complete, limited, same, false complete, guessed, frames, NAME=stacks for each other end
 *
 * complete: the kernel's side reports that it found the root. same: all of its frames are libdwfl's.
 * false complete: it reports the root, and libdwfl does not find it there. Another program judges the
 * numbers. The command's own output goes nowhere.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
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
#include "collect/recording/collector.h"
#include "shared/bpf_types.h"
#include "shared/unwind_types.h"
#include "stopper.h"

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

/* Reports the current mappings to libdwfl; files that it knows already stay open. */
static void look(Dwfl *dwfl, pid_t pid)
{
	static pid_t attached;

	dwfl_report_begin(dwfl);
	if (!dwfl_linux_proc_report(dwfl, pid) && !dwfl_report_end(dwfl, NULL, NULL) &&
	    (attached == pid || dwfl_linux_proc_attach(dwfl, pid, false) >= 0)) {
		attached = pid;
		return;
	}
	fprintf(stderr, "against_bpf: %s\n", dwfl_errmsg(-1));
	exit(2);
}

/* Frames from the allocator's caller on. */
static void ask_dwfl(Dwfl *dwfl, pid_t pid, const struct stop *stop, struct stack *stack)
{
	uint32_t first = 0;

	stack->nr = 0;
	look(dwfl, pid);
	dwfl_getthread_frames(dwfl, stop->tid, take_frame, stack);
	while (first < stack->nr && stack->pc[first] != stop->caller)
		first++;
	stack->nr -= first;
	memmove(stack->pc, stack->pc + first, stack->nr * sizeof(*stack->pc));
}

/* ---- the kernel's side ---- */

static bool find_traceback(const struct collector *collector, pid_t pid, uint64_t address,
			   struct traceback *ret)
{
	const struct allocsnap_bpf *bpf = collector->bpf;
	struct block_key key;
	const struct target *target = find_target(&collector->targets, pid);
	struct block block;

	if (!target)
		return false;
	key = block_key_of(address, accounts_image(&collector->targets.accounts, target->slot), LAYER_HEAP);
	return (nursery_find(&collector->pass.nursery, &key, &block) ||
		!bpf_map_lookup_elem(bpf_map__fd(bpf->maps.blocks), &key, &block)) &&
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

/* Frame 0 is stopper.so's own, which has gone on to another place. */
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
	static Dwfl *dwfl;
	struct traceback ours;

	if (!find_traceback(collector, pid, stop->address, &ours))
		return; /* from before the recording */
	if (!dwfl)
		dwfl = dwfl_begin(&callbacks);
	ask_dwfl(dwfl, pid, stop, &theirs);
	if (theirs.nr)
		compare(result, &ours, &theirs, dwfl);
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

static pid_t running;

static void time_is_up(int)
{
	kill(running, SIGKILL);
}

static void follow(struct result *result, struct collector *collector, pid_t pid,
		   struct stop *stop, uint64_t stacks)
{
	int status;

	/* the alarm ends the program, and with it the wait */
	while (TEMP_FAILURE_RETRY(waitpid(pid, &status, WUNTRACED)) == pid && WIFSTOPPED(status)) {
		collector__refresh(collector);
		if (__atomic_load_n(&stop->is_whole, __ATOMIC_ACQUIRE))
			sample(result, collector, pid, stop);
		kill(pid, result->stacks < stacks ? SIGCONT : SIGKILL);
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

static enum collector_unwinder unwinder_of(const char *how)
{
	return !strcmp(how, "fp")    ? COLLECTOR_UNWIND_FP :
	       !strcmp(how, "dwarf") ? COLLECTOR_UNWIND_DWARF :
				       COLLECTOR_UNWIND_AUTO;
}

static void give_nowhere_to_write(void)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int own = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

	stdout = fdopen(own, "w");
	dup2(null, STDOUT_FILENO);
}

/* The command, recorded from its begin on. */
static struct collector *start(char **argv, pid_t *ret_pid)
{
	const struct collector_options options = {
		.domains = COLLECTOR_MALLOC,
		.traceback_limit = COLLECTOR_TRACEBACK_LIMIT_MAX,
		.unwinder = unwinder_of(argv[5]),
	};
	struct reason why = { "" };
	struct collector *collector = collector__open(&options, &why);

	if (collector && !collector__run(collector, (const char *const *)argv + 6, ret_pid, &why))
		return collector;
	fprintf(stderr, "against_bpf: %s\n", why.text);
	collector__close(collector);
	return NULL;
}

int main(int argc, char **argv)
{
	char path[] = "/tmp/allocsnap-stop.XXXXXX";
	struct result result = { 0 };
	struct collector *collector;
	struct stop *stop;

	if (argc < 7)
		return 2;
	give_nowhere_to_write();
	close(mkstemp(path));
	stop = make_stop(path);
	stop->every = atoi(argv[3]);
	setenv("STOPPER", path, 1);
	setenv("LD_PRELOAD", argv[1], 1);
	collector = start(argv, &running);
	if (collector) {
		signal(SIGALRM, time_is_up);
		alarm(atoi(argv[4]));
		follow(&result, collector, running, stop, strtoull(argv[2], NULL, 10));
		collector__close(collector);
		print(&result);
	}
	unlink(path);
	return collector ? 0 : 2;
}
