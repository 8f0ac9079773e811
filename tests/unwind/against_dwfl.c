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
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "unwind/unwind_table.h"

/* Unwinds a stopped thread with our tables and our step, natively. */

#define FRAMES_MAX 2048

struct stack {
	uint32_t nr;
	int end; /* enum unwind_end; UNWIND_GOES_ON: FRAMES_MAX reached */
	uint64_t pc[FRAMES_MAX];
};

struct unwind_memory {
	pid_t pid;
};

static int read_memory(const struct unwind_memory *memory, uint64_t address, void *ret, size_t size)
{
	struct iovec from = { (void *)address, size }, to = { ret, size };

	return process_vm_readv(memory->pid, &to, 1, &from, 1, 0) != (ssize_t)size;
}

static int unwind_memory__read(struct unwind_memory *memory, bpf_u64 address, bpf_u64 *ret_word)
{
	return read_memory(memory, address, ret_word, sizeof(*ret_word));
}

struct unwind_rows {
	int unused;
};

static unwind_row unwind_rows__at(const struct unwind_rows *, bpf_u32)
{
	return 0;
}

#include "shared/unwind_step.h"

/* The words of enum unwind_end, and how many there are. */
static const char *const end_name[] = {
#define X(name, meaning) #name,
	UNWIND_ENDS(X)
#undef X
};
static const uint32_t end_nr = ARRAY_SIZE(end_name);

/* ---- tables, one for each file ---- */

static struct object {
	dev_t device;
	ino_t inode; /* 0: the vDSO */
	struct unwind_table *table;
} *objects;
static size_t object_nr;

static struct unwind_table *find_table(dev_t device, ino_t inode)
{
	for (size_t i = 0; i < object_nr; i++)
		if (objects[i].device == device && objects[i].inode == inode)
			return objects[i].table;
	return NULL;
}

static struct unwind_table *keep_table(dev_t device, ino_t inode, struct unwind_table *table)
{
	objects = reallocarray(objects, object_nr + 1, sizeof(*objects));
	objects[object_nr++] = (struct object){ device, inode, table };
	return table;
}

/* ---- mappings ---- */

struct mapping {
	uint64_t start, end, offset;
	const struct unwind_table *table; /* NULL: no file, or none with a table */
};

struct target {
	struct unwind_memory memory;
	struct mapping *mapping;
	size_t mapping_nr, mapping_alloc;
};

static struct unwind_table *table_of_file(struct target *target, const struct mapping *mapping)
{
	struct unwind_table *table = NULL;
	char path[96];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, target->memory.pid,
		 mapping->start, mapping->end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st)) {
		table = find_table(st.st_dev, st.st_ino);
		if (!table && !unwind_table__from_file(fd, &table, NULL))
			keep_table(st.st_dev, st.st_ino, table);
	}
	close(fd);
	return table;
}

static struct unwind_table *table_of_vdso(struct target *target, const struct mapping *mapping)
{
	struct unwind_table *table = find_table(0, 0);
	size_t size = mapping->end - mapping->start;
	void *image = table ? NULL : malloc(size);

	if (image && !read_memory(&target->memory, mapping->start, image, size) &&
	    !unwind_table__from_memory(image, size, &table, NULL))
		keep_table(0, 0, table);
	free(image);
	return table;
}

/* "7f1c…-7f1c… r-xp 00026000 08:01 1234   /usr/lib/…"; only what can be executed */
static void take_line(struct target *target, const char *line)
{
	struct mapping mapping = { 0 };
	char flags[8], path[512] = "";

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %511s", &mapping.start,
		   &mapping.end, flags, &mapping.offset, path) < 4 ||
	    flags[2] != 'x')
		return;
	if (!strcmp(path, "[vdso]"))
		mapping.table = table_of_vdso(target, &mapping);
	else if (*path == '/')
		mapping.table = table_of_file(target, &mapping);
	array_push(target, mapping, mapping);
}

/* Reads the current mappings. All threads must be stopped. */
static void target__look(struct target *target)
{
	char path[64], line[1024];
	FILE *maps;

	target->mapping_nr = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", target->memory.pid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps))
		take_line(target, line);
	if (maps)
		fclose(maps);
}

/* Tables stay, over several processes. */
static struct target *target__open(pid_t pid)
{
	struct target *target = calloc(1, sizeof(*target));

	target->memory.pid = pid;
	return target;
}

static void target__close(struct target *target)
{
	free(target->mapping);
	free(target);
}

/* ---- unwinding ---- */

static const struct mapping *mapping_at(const struct target *target, uint64_t pc)
{
	for (size_t i = 0; i < target->mapping_nr; i++)
		if (pc >= target->mapping[i].start && pc < target->mapping[i].end)
			return &target->mapping[i];
	return NULL;
}

static struct unwind_rule rule_at(const struct mapping *mapping, uint64_t pc)
{
	static const struct unwind_rule none;
	uint64_t vaddr;

	if (!mapping->table ||
	    unwind_table__vaddr(mapping->table, pc - mapping->start + mapping->offset, &vaddr))
		return none;
	return unwind_table__rule(mapping->table, vaddr);
}

/*
 * As the kernel's side does, a return address that is not in code ends the walk and is no frame: glibc's swapcontext
 * has wrong rules for the instructions between the two stacks, and the new stack may hold anything there.
 */
static int step_from(struct target *target, struct unwind_frame *frame, struct stack *stack)
{
	uint64_t pc = unwind_rule_address(frame);
	const struct mapping *mapping = mapping_at(target, pc);

	if (mapping || frame->is_exact)
		stack->pc[stack->nr++] = frame->pc;
	return mapping ? unwind_step(rule_at(mapping, pc), frame, &target->memory) : UNWIND_NO_CODE;
}

static void target__unwind(struct target *target, const struct user_regs_struct *regs,
		     struct stack *ret)
{
	struct unwind_frame frame = {
		.pc = regs->rip, .sp = regs->rsp, .fp = regs->rbp, .is_exact = 1,
	};

	ret->nr = 0;
	ret->end = UNWIND_GOES_ON;
	while (ret->end == UNWIND_GOES_ON && ret->nr < FRAMES_MAX)
		ret->end = step_from(target, &frame, ret);
}

/* A child whose threads can all be stopped at any moment, and go on undisturbed. */

#define THREADS_MAX 64

struct thread {
	pid_t tid;
	bool is_stopped;
	int signal; /* that it was about to get */
};

struct threads {
	pid_t pid;
	size_t nr;
	struct thread thread[THREADS_MAX];
};

#define TICK_US 50

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(2);
}

static void pause_us(unsigned int us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000L }, NULL);
}

/* ---- what we know of them ---- */

static struct thread *find(struct threads *threads, pid_t tid)
{
	for (size_t i = 0; i < threads->nr; i++)
		if (threads->thread[i].tid == tid)
			return &threads->thread[i];
	must(threads->nr < THREADS_MAX, "more threads than expected");
	threads->thread[threads->nr] = (struct thread){ .tid = tid };
	return &threads->thread[threads->nr++];
}

static void forget(struct threads *threads, pid_t tid)
{
	*find(threads, tid) = threads->thread[threads->nr - 1];
	threads->nr--;
}

/* A stop is on the way to a signal, or an event of ptrace's own (PTRACE_EVENT_…, above it). */
static void note(struct threads *threads, pid_t tid, int status)
{
	struct thread *thread;

	if (!WIFSTOPPED(status)) {
		forget(threads, tid);
		return;
	}
	thread = find(threads, tid);
	thread->is_stopped = true;
	thread->signal = status >> 16 ? 0 : WSTOPSIG(status);
}

/* False if there was nothing to hear. */
static bool hear(struct threads *threads, int flags)
{
	int status;
	pid_t tid = waitpid(-1, &status, __WALL | flags);

	if (tid <= 0)
		return false;
	note(threads, tid, status);
	return true;
}

/* ---- the child ---- */

static void become(int wait_fd, char **argv)
{
	int null = open("/dev/null", O_RDWR);
	char byte;

	if (read(wait_fd, &byte, 1) < 0)
		_exit(126);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	if (!getenv("UNWIND_STDERR"))
		dup2(null, STDERR_FILENO);
	execvp(*argv, argv);
	_exit(127);
}

/* Runs a command with nothing as its input and output. What goes wrong ends us. */
static void threads__start(struct threads *threads, char **argv)
{
	int go[2];

	must(!pipe2(go, O_CLOEXEC), "pipe");
	*threads = (struct threads){ .pid = fork() };
	if (!threads->pid) {
		close(go[1]);
		become(go[0], argv);
	}
	must(threads->pid > 0, "fork");
	must(!ptrace(PTRACE_SEIZE, threads->pid, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL),
	     "PTRACE_SEIZE");
	find(threads, threads->pid);
	close(go[0]);
	close(go[1]);
}

/* Lets the stopped threads go on. */
static void threads__resume(struct threads *threads)
{
	for (size_t i = 0; i < threads->nr; i++) {
		struct thread *thread = &threads->thread[i];

		if (thread->is_stopped)
			ptrace(PTRACE_CONT, thread->tid, 0, thread->signal);
		thread->is_stopped = false;
	}
}

/* For so long; false if the child has ended meanwhile. */
static bool threads__run(struct threads *threads, unsigned int us)
{
	for (unsigned int past = 0; threads->nr && past < us; past += TICK_US) {
		threads__resume(threads);
		pause_us(TICK_US);
		while (hear(threads, WNOHANG))
			;
	}
	threads__resume(threads);
	return threads->nr;
}

static bool all_stopped(const struct threads *threads)
{
	for (size_t i = 0; i < threads->nr; i++)
		if (!threads->thread[i].is_stopped)
			return false;
	return true;
}

/* All of them; false if the child has ended. */
static bool threads__stop(struct threads *threads)
{
	for (size_t i = 0; i < threads->nr; i++)
		ptrace(PTRACE_INTERRUPT, threads->thread[i].tid, 0, 0);
	while (!all_stopped(threads) && hear(threads, 0))
		;
	return threads->nr;
}

static void threads__kill(struct threads *threads)
{
	if (threads->nr)
		kill(threads->pid, SIGKILL);
	while (threads->nr && hear(threads, 0))
		threads__resume(threads);
}

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
