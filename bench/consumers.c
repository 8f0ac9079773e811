// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Measures what a hit of a probe costs if many processes have a link of their own, by PID. The kernel walks over all
 * links of a probe at each hit and asks each one whether it is for this process. A shared link has no such walk, but every
 * process that runs the code hits it. The probed function is this program's own, and the processes are its children.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "collect/probe/uprobe_multi.h"
#include "floor.skel.h"

#define LINKS_MAX 512
#define HITS 20000
#define ROUNDS 15

void hit(void);
__asm__(".text\n.globl hit\n.type hit, @function\nhit:\n\tpush %rbx\n\tpop %rbx\n\tret\n.size hit, . - hit\n");

static pid_t child[LINKS_MAX];
static int link_fd[LINKS_MAX];

static void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "consumers: %s: %s\n", what, strerror(-err));
	for (size_t i = 0; i < LINKS_MAX && child[i]; i++)
		kill(child[i], SIGKILL);
	exit(1);
}

/* Where the function lies in its file. */
static uint64_t offset_of_hit(void)
{
	unsigned long start, end, offset;
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t found = 0;

	must(maps ? 0 : -errno, "maps");
	while (fscanf(maps, "%lx-%lx %*s %lx%*[^\n]", &start, &end, &offset) == 3)
		if (start <= (uintptr_t)hit && (uintptr_t)hit < end)
			found = (uintptr_t)hit - start + offset;
	fclose(maps);
	must(found ? 0 : -ENOENT, "the function's mapping");
	return found;
}

static int attach(const struct bpf_program *program, pid_t pid)
{
	uint64_t offset = offset_of_hit(), cookie = 0;
	const struct uprobe_multi one = {
		.path = "/proc/self/exe",
		.pid = pid,
		.attach_type = bpf_program__expected_attach_type(program),
		.nr = 1,
		.offset = &offset,
		.cookie = &cookie,
	};
	int fd = uprobe_multi_attach(bpf_program__fd(program), &one);

	must(fd, "attach");
	return fd;
}

static double time_of_hits(void)
{
	struct timespec begin, end;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	for (int i = 0; i < HITS; i++)
		hit();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	return ((end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec) / HITS;
}

static int compare_times(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median_of_hits(void)
{
	double ns[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		ns[i] = time_of_hits();
	qsort(ns, ROUNDS, sizeof(*ns), compare_times);
	return ns[ROUNDS / 2];
}

static void start_children(void)
{
	for (size_t i = 0; i < LINKS_MAX; i++) {
		child[i] = fork();
		must(child[i] < 0 ? -errno : 0, "fork");
		if (child[i])
			continue;
		pause();
		_exit(0);
	}
}

static void end_children(void)
{
	for (size_t i = 0; i < LINKS_MAX; i++)
		kill(child[i], SIGKILL);
	while (wait(NULL) > 0)
		;
}

/* Our own link comes last: the kernel walks over the others first. */
static void measure_links(const struct bpf_program *program, const char *what)
{
	static const size_t numbers[] = { 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512 };
	size_t nr = 0;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		int own;

		for (; nr < numbers[i]; nr++)
			link_fd[nr] = attach(program, child[nr]);
		own = attach(program, getpid());
		printf("%-12s %3zu links of other processes: %6.0f ns a hit\n", what, nr, median_of_hits());
		fflush(stdout);
		close(own);
	}
	while (nr)
		close(link_fd[--nr]);
}

int main(void)
{
	struct floor_bpf *bpf = floor_bpf__open();

	must(bpf ? 0 : -errno, "open");
	if (!uprobe_session_works()) {
		puts("this kernel has no uprobe sessions (6.13)");
		return 0;
	}
	bpf_program__set_expected_attach_type(bpf->progs.both_ends, UPROBE_SESSION_ATTACH_TYPE);
	bpf_program__set_expected_attach_type(bpf->progs.only_entry, UPROBE_MULTI_ATTACH_TYPE);
	bpf_program__set_autoload(bpf->progs.perf_entry, false);
	bpf_program__set_autoload(bpf->progs.perf_return, false);
	must(floor_bpf__load(bpf), "load");
	printf("%-12s no probe:                        %6.1f ns a call\n", "", median_of_hits());
	start_children();
	measure_links(bpf->progs.only_entry, "entry");
	measure_links(bpf->progs.both_ends, "session");
	end_children();
	return 0;
}
