// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * refusals MODE [LIBRARY…]: a process into which nothing may be injected. It prints "ready" when it is as the mode says, and ends
 * with stdin. The modes are the rows of `modes`.
 */
#include <dlfcn.h>
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define REACH (2ul << 30)
#ifndef SYS_mseal
#define SYS_mseal 462
#endif

static char **library; /* the arguments behind MODE */

static uint8_t *page_of_malloc(void)
{
	return (uint8_t *)((uintptr_t)malloc & ~(PAGE - 1));
}

/* As another tool's hook would: the entry's first byte, and back; then a byte that is never executed. */
static void set_hook(void)
{
	uint8_t *page = page_of_malloc();

	if (mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
		err(2, "mprotect");
	for (size_t i = 0; i + 8 < PAGE; i++)
		if (!memcmp(page + i, "\x66\x2e\x0f\x1f\x84", 5)) { /* padding between functions */
			page[i] = 0x90;
			break;
		}
	mprotect(page, PAGE, PROT_READ | PROT_EXEC);
}

/* The same code, but not the file's mapping. */
static void copy_code(void)
{
	static uint8_t kept[PAGE];
	uint8_t *page = page_of_malloc();

	memcpy(kept, page, PAGE);
	if (mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
		err(2, "mprotect");
	memcpy(page, kept, PAGE);
}

static void map_twice(void)
{
	unsigned long start, end, offset;
	char line[4200], path[4096];
	FILE *maps = fopen("/proc/self/maps", "re");
	int fd;

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx r-xp %lx %*s %*s %4095s", &start, &end, &offset, path) == 4 &&
		    (uintptr_t)malloc >= start && (uintptr_t)malloc < end)
			break;
	fd = open(path, O_RDONLY);
	if (fd < 0 || mmap(NULL, end - start, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, offset) == MAP_FAILED)
		err(2, "%s", path);
	close(fd);
	fclose(maps);
}

static void fill_room_to(uintptr_t end)
{
	uintptr_t middle = (uintptr_t)malloc & ~(PAGE - 1);

	for (size_t bytes = 1ul << 30; bytes >= PAGE; bytes /= 2)
		for (uintptr_t at = middle - REACH; at + bytes <= end; at += bytes)
			mmap((void *)at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

/* No gap is left near the C library. */
static void fill_room(void)
{
	fill_room_to(((uintptr_t)malloc & ~(PAGE - 1)) + REACH);
}

/* Where the kernel maps what has no address: below what it has mapped at the program's start. Java reserves so much. */
static void fill_room_below(void)
{
	fill_room_to(getauxval(AT_SYSINFO_EHDR));
}

static int born[2]; /* a child that sleeps has written to it */

static __attribute__((noreturn)) int sleep_for_ever(void *)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(born[1], "x", 1) != 1)
		_exit(1);
	for (;;)
		syscall(SYS_pause);
}

static void wait_for_birth(void)
{
	char byte;

	if (read(born[0], &byte, 1) != 1)
		err(2, "read");
}

static void share_memory(void)
{
	static uint8_t stack[16384];

	if (clone(sleep_for_ever, stack + sizeof(stack), CLONE_VM, NULL) < 0)
		err(2, "clone");
	wait_for_birth();
}

static void *run_vfork(void *)
{
	static uint8_t stack[16384];

	clone(sleep_for_ever, stack + sizeof(stack), CLONE_VM | CLONE_VFORK, NULL);
	return NULL;
}

static void stay_in_vfork(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, run_vfork, NULL);
	wait_for_birth();
}

/* A child that waits for ever holds up this thread in the kernel, although it has memory of its own. */
static void *run_fork_and_wait(void *)
{
	if (!syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL))
		sleep_for_ever(NULL);
	return NULL;
}

static void stay_in_kernel(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, run_fork_and_wait, NULL);
	wait_for_birth();
}

static void trace(pid_t tid)
{
	int pipes[2];
	char byte;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (pipe(pipes))
		err(2, "pipe");
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (ptrace(PTRACE_SEIZE, tid, 0, 0) || write(pipes[1], "x", 1) != 1)
			err(2, "ptrace");
		for (;;)
			pause();
	}
	if (read(pipes[0], &byte, 1) != 1)
		err(2, "read");
}

static void be_traced(void)
{
	trace(getpid());
}

static pid_t other_thread;

static void *run_other_thread(void *ready)
{
	other_thread = gettid();
	pthread_barrier_wait(ready);
	for (;;)
		pause();
	return NULL;
}

/* As if the debugger came when some threads are stopped already. */
static void be_traced_in_part(void)
{
	pthread_barrier_t ready;
	pthread_t thread;

	pthread_barrier_init(&ready, NULL, 2);
	pthread_create(&thread, NULL, run_other_thread, &ready);
	pthread_barrier_wait(&ready);
	trace(other_thread);
}

/* A return into the bytes of a jump, as far as an outside process can see. */
static void *run_amid_malloc(void *ready)
{
	uintptr_t word[8];

	for (int i = 0; i < 8; i++)
		word[i] = (uintptr_t)malloc + i;
	__asm__ volatile("" : : "m"(word));
	pthread_barrier_wait(ready);
	for (;;) {
		pause();
		__asm__ volatile("" : : "m"(word));
	}
	return NULL;
}

static void stay_amid_malloc(void)
{
	pthread_barrier_t ready;
	pthread_t thread;

	pthread_barrier_init(&ready, NULL, 2);
	pthread_create(&thread, NULL, run_amid_malloc, &ready);
	pthread_barrier_wait(&ready);
}

static void load_libraries(void)
{
	for (; *library; library++)
		if (!dlopen(*library, RTLD_NOW | RTLD_LOCAL))
			errx(2, "%s", dlerror());
}

static void seal_code(void)
{
	if (syscall(SYS_mseal, page_of_malloc(), PAGE, 0))
		err(3, "mseal");
}

static void limit_files(void)
{
	struct rlimit limit = { 3, 3 };

	setrlimit(RLIMIT_NOFILE, &limit);
}

static void limit_memory(void)
{
	struct rlimit limit = { 1 << 20, 1 << 20 };

	setrlimit(RLIMIT_AS, &limit);
}

static void lock_memory(void)
{
	if (mlockall(MCL_FUTURE))
		err(2, "mlockall");
}

/* It may be injected, or be refused: new code must not be mapped writable. */
static void deny_write_exec(void)
{
	if (prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0))
		err(3, "prctl");
}

/* The handler gets no call as long as the byte is 0. */
static void handle_own_calls(void)
{
	static char selector;

	if (prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, 0, 0, &selector))
		err(3, "prctl");
}

/* The program's own first page, in place of each page of the allocator that lies in the sampler's room. */
static void map_over_sampler(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	unsigned long start, end;
	char line[4200];
	Dl_info libc;
	FILE *maps = fopen("/proc/self/maps", "re");

	dladdr(malloc, &libc);
	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx r-xp", &start, &end) == 2 && strstr(line, "libc.so.6") &&
		    start - (uintptr_t)libc.dli_fbase > 16 << 20)
			for (; start < end; start += PAGE)
				if (mmap((void *)start, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
					err(2, "mmap");
	fclose(maps);
	close(fd);
}

static void do_nothing(void)
{
}

static const struct mode {
	const char *name;
	void (*prepare)(void), (*at_line)(void);
} modes[] = {
	{ "hook", set_hook },
	{ "copied", copy_code },
	{ "twice", map_twice },
	{ "far", fill_room },
	{ "far-below", fill_room_below },
	{ "shared", share_memory },
	{ "vfork", stay_in_vfork },
	{ "kernel", stay_in_kernel },
	{ "traced", be_traced },
	{ "partly-traced", be_traced_in_part },
	{ "amid", stay_amid_malloc },
	{ "libraries", load_libraries },
	{ "sealed", seal_code },
	{ "files", limit_files },
	{ "memory", limit_memory },
	{ "locked", lock_memory },
	{ "mdwe", deny_write_exec },
	{ "dispatch", handle_own_calls },
	{ "overmapped", do_nothing, map_over_sampler },
	{ "plain", do_nothing },
	{},
};

int main(int argc, char **argv)
{
	const struct mode *mode = modes;
	char byte;

	while (mode->name && (argc < 2 || strcmp(argv[1], mode->name)))
		mode++;
	if (!mode->name)
		errx(2, "which mode?");
	free(malloc(1));
	library = argv + 2;
	if (pipe(born))
		err(2, "pipe");
	mode->prepare();
	if (write(1, "ready\n", 6) != 6)
		return 2;
	while (read(0, &byte, 1) == 1) {
		if (mode->at_line)
			mode->at_line();
		free(malloc(100));
	}
	_exit(0);
}
