// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * walk WITHOUT_FP WITH_FP: how much more a return probe with a traceback costs than one that does nothing, in one
 * run: by unwind tables in a program without frame pointers, and by the kernel's bpf_get_stack() in the same program
 * with them. The tables come from a recording of both.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/recording/collector.h"
#include "walk.skel.h"
#include "walk_target.h"

#define CALLS 2000
#define ROUNDS 41

/* main() and what the C library has below it, as unwind tables see them. */
#define BELOW_LINKS 4
/* The kernel sees main() alone, because the C library has no frame pointers. */
#define BELOW_LINKS_BY_KERNEL 1

struct chain {
	pid_t pid;
	int order, answer;
	const char *path;
};

static const unsigned int sizes[] = { 5, 10, 20, 60 }; /* frames */

#define SIZES ARRAY_SIZE(sizes)

static double ns[SIZES][2][2][ROUNDS]; /* [][0]: by tables, [1]: by the kernel; [0]: nothing, [1]: walk */
static unsigned long long found[SIZES][2];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct chain start(const char *path)
{
	struct chain target = { .path = path };
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || (target.pid = fork()) < 0)
		die(path);
	if (!target.pid) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		close(in[1]);
		execl(path, path, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	target.order = in[1];
	target.answer = out[0];
	return target;
}

static double ask(const struct chain *target, enum walk_probe which, unsigned int links)
{
	const struct walk_order order = { which, links, CALLS };
	double answer;

	if (write(target->order, &order, sizeof(order)) != sizeof(order) ||
	    read(target->answer, &answer, sizeof(answer)) != sizeof(answer))
		die(target->path);
	return answer;
}

/* ---- probes ---- */

/* The tables, and what else is of the recording. */
static int share_maps(struct walk_bpf *walk, const struct allocsnap_bpf *bpf)
{
	struct bpf_map *map, *theirs;
	int err = 0;

	bpf_object__for_each_map(map, walk->obj) {
		theirs = bpf_object__find_map_by_name(bpf->obj, bpf_map__name(map));
		if (theirs && !bpf_map__is_internal(map) && !err)
			err = bpf_map__reuse_fd(map, bpf_map__fd(theirs));
	}
	return err;
}

static struct walk_bpf *load(const struct collector *collector)
{
	struct walk_bpf *walk = walk_bpf__open();

	if (!walk || share_maps(walk, collector->bpf))
		die("maps");
	walk->rodata->settings = collector->bpf->rodata->settings;
	if (walk_bpf__load(walk))
		die("programs");
	return walk;
}

/* The links go with the object. */
static void attach(const struct walk_bpf *walk, const struct chain *target)
{
	const struct {
		const struct bpf_program *program;
		const char *function;
	} probes[] = {
		{ walk->progs.nothing, "probed_nothing" },
		{ walk->progs.by_tables, "probed_tables" },
		{ walk->progs.by_kernel, "probed_kernel" },
	};

	for (size_t i = 0; i < WALK_PROBE_NR; i++) {
		LIBBPF_OPTS(bpf_uprobe_opts, options, .retprobe = true,
			    .func_name = probes[i].function);

		if (!bpf_program__attach_uprobe_opts(probes[i].program, target->pid, target->path,
						     0, &options))
			die(probes[i].function);
	}
}

/* ---- measuring ---- */

static void measure_one(const struct chain *target, const struct walk_bpf *walk, size_t size,
			int by_kernel, int round)
{
	unsigned int links = sizes[size] - (by_kernel ? BELOW_LINKS_BY_KERNEL : BELOW_LINKS);

	ns[size][by_kernel][0][round] = ask(target, WALK_NOTHING, links);
	ns[size][by_kernel][1][round] = ask(target, by_kernel ? WALK_BY_KERNEL : WALK_BY_TABLES,
					    links);
	found[size][by_kernel] = walk->bss->nframe;
}

static int ascending(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static double median_cost(size_t size, int by_kernel)
{
	double cost[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		cost[i] = ns[size][by_kernel][1][i] - ns[size][by_kernel][0][i];
	qsort(cost, ROUNDS, sizeof(*cost), ascending);
	return cost[ROUNDS / 2];
}

static void print(void)
{
	printf("ns for each traceback, over an empty return probe (median of %d rounds of %d):\n"
	       "%32s %32s\n%8s %8s %14s %8s %8s %14s %8s\n",
	       ROUNDS, CALLS, "by unwind tables", "bpf_get_stack, with frame pointers", "frames",
	       "ns", "ns per frame", "frames", "ns", "ns per frame", "ratio");
	for (size_t i = 0; i < SIZES; i++) {
		double ours = median_cost(i, 0), kernel = median_cost(i, 1);

		printf("%8llu %8.0f %14.1f %8llu %8.0f %14.1f %8.2f\n", found[i][0], ours,
		       ours / found[i][0], found[i][1], kernel, kernel / found[i][1], ours / kernel);
	}
	puts("aims: 40 ns per frame, a ratio of 0.50 at 20 frames");
}

static void pin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void record(struct collector *collector, const struct chain *target)
{
	struct reason why = { "" };

	ask(target, WALK_NOTHING, 1); /* the first call resolves all functions */
	if (!collector__start(collector, target->pid, &why))
		return;
	fprintf(stderr, "walk: %s\n", why.text);
	exit(1);
}

int main(int argc, char **argv)
{
	const struct collector_options options = { .unwinder = COLLECTOR_UNWIND_DWARF };
	struct collector *collector = collector__open(&options, NULL);
	struct chain target[2];
	struct walk_bpf *walk;

	if (argc != 3 || !collector)
		die("usage: walk WITHOUT_FP WITH_FP, as root");
	pin();
	walk = load(collector);
	for (int i = 0; i < 2; i++) {
		target[i] = start(argv[1 + i]);
		record(collector, &target[i]);
		attach(walk, &target[i]);
	}
	for (int round = 0; round < ROUNDS; round++)
		for (size_t size = 0; size < SIZES; size++)
			for (int i = 0; i < 2; i++)
				measure_one(&target[i], walk, size, i, round);
	print();
	for (int i = 0; i < 2; i++) {
		close(target[i].order);
		waitpid(target[i].pid, NULL, 0);
	}
	walk_bpf__destroy(walk);
	collector__close(collector);
	return 0;
}
