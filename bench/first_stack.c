// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * first_stack: how long tracebacks are incomplete where code is new to the recording: at the begin
 * of `attach` and `run`, behind a dlopen, in a child that calls exec. The program that is recorded is this
 * one, which allocates each 50 us. Prints for each when the first block was seen and when the last
 * traceback that is not complete was taken, since the recording or the code began.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/recording/collector.h"
#include "shared/bpf_types.h"
#include "shared/unwind_types.h"

#define SPACING_US 50
#define LOOP_MS 800
#define LOOK_MS 1500

/* Between us and the program that is recorded. */
static struct shared {
	volatile int may_go;
	volatile uint64_t begun_ns;
} *shared;

static char copy[] = "/tmp/allocsnap-first.XXXXXX"; /* of this program: a file not seen yet */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* ---- the recorded program ---- */

static void *through_malloc(void)
{
	return malloc(100);
}

static void *volatile kept;

static void allocate(void *(*call)(void))
{
	uint64_t end_ns = now_ns() + LOOP_MS * 1000000ULL;

	while (now_ns() < end_ns) {
		kept = call();
		usleep(SPACING_US);
	}
}

static void *(*sqlite3_malloc_)(int);
static char *(*create_message)(const char *text);

static void *through_sqlite3(void)
{
	return sqlite3_malloc_(100);
}

static void *through_llvm(void)
{
	return create_message("a message");
}

static void wait_for_leave(void)
{
	while (!shared->may_go)
		usleep(1000);
	shared->begun_ns = now_ns();
}

static void *symbol_of(const char *library, const char *name)
{
	void *handle = dlopen(library, RTLD_NOW);

	return handle ? dlsym(handle, name) : NULL;
}

static void just_allocate(void)
{
	allocate(through_malloc);
}

static void load_sqlite3(void)
{
	wait_for_leave();
	sqlite3_malloc_ = symbol_of("libsqlite3.so.0", "sqlite3_malloc");
	if (sqlite3_malloc_)
		allocate(through_sqlite3);
}

static void load_llvm(void)
{
	wait_for_leave();
	create_message = symbol_of("libLLVM-14.so.1", "LLVMCreateMessage");
	if (create_message)
		allocate(through_llvm);
}

static void start_child(void)
{
	wait_for_leave();
	if (!fork())
		execl(copy, copy, "allocate", NULL);
	wait(NULL);
}

/* ---- recording ---- */

static void print_blocks(const struct collector *collector, const char *name)
{
	int blocks = bpf_map__fd(collector->bpf->maps.blocks);
	int tracebacks = bpf_map__fd(collector->bpf->maps.tracebacks);
	uint64_t first_ns = UINT64_MAX, last_ns = shared->begun_ns, nr = 0, cut_nr = 0;
	struct block_key key = {}, *at = NULL;
	struct traceback traceback;
	struct block block;

	for (; !bpf_map_get_next_key(blocks, at, &key); at = &key) {
		if (bpf_map_lookup_elem(blocks, &key, &block) || block.birth_ns < shared->begun_ns ||
		    bpf_map_lookup_elem(tracebacks, &block.traceback, &traceback))
			continue;
		nr++;
		first_ns = block.birth_ns < first_ns ? block.birth_ns : first_ns;
		if (traceback.end == UNWIND_ROOT)
			continue;
		cut_nr++;
		last_ns = block.birth_ns > last_ns ? block.birth_ns : last_ns;
	}
	if (!nr)
		printf("first stack: %-16s nothing was seen\n", name);
	else
		printf("first stack: %-16s first block after %6.1f ms, incomplete until %6.1f ms: %" PRIu64
		       " of %" PRIu64 " blocks\n", name, (first_ns - shared->begun_ns) / 1e6,
		       (last_ns - shared->begun_ns) / 1e6, cut_nr, nr);
}

static void look(struct collector *collector)
{
	struct pollfd event = { .fd = collector__event_fd(collector), .events = POLLIN };
	uint64_t end_ns = now_ns() + LOOK_MS * 1000000ULL;

	shared->may_go = 1;
	while (now_ns() < end_ns) {
		poll(&event, 1, 10);
		collector__refresh(collector);
	}
}

static int start(struct collector *collector, void (*program)(void), pid_t *ret_pid,
		 struct reason *why)
{
	const char *const argv[] = { copy, "allocate", NULL };

	if (!program)
		return collector__run(collector, argv, ret_pid, why);
	*ret_pid = fork();
	if (*ret_pid)
		return collector__start(collector, *ret_pid, why);
	program();
	_exit(0);
}

static int measure(const char *name, void (*program)(void), bool follows)
{
	const struct collector_options options = { .follow_forks = follows };
	struct reason why = { "" };
	struct collector *collector = collector__open(&options, &why);
	pid_t pid = 0;
	int err = -1;

	shared->may_go = 0;
	shared->begun_ns = now_ns();
	if (collector)
		err = start(collector, program, &pid, &why);
	if (!err) {
		look(collector);
		print_blocks(collector, name);
	} else {
		fprintf(stderr, "first_stack: %s: %s\n", name, why.text);
	}
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	collector__close(collector);
	return err;
}

static bool make_copy(const char *path)
{
	char command[256];

	close(mkstemp(copy));
	snprintf(command, sizeof(command), "cp '%s' %s && chmod 700 %s", path, copy, copy);
	return !system(command);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*program)(void);
		bool follows;
	} cases[] = {
		{ "attach", just_allocate, false },
		{ "run", NULL, false },
		{ "dlopen sqlite3", load_sqlite3, false },
		{ "dlopen LLVM", load_llvm, false },
		{ "a child's exec", start_child, true },
	};
	int err = 0;

	if (argc > 1) {
		allocate(through_malloc);
		return 0;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || !make_copy(argv[0]))
		return 1;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		err |= measure(cases[i].name, cases[i].program, cases[i].follows);
	unlink(copy);
	return !!err;
}
