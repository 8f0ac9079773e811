// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * capacity BLOCKS ROUNDS DIR MEMORY: records a program that holds so many blocks of 4,096 stacks. Prints the time from
 * the start of a drain to the synced file, in DIR and in the folder MEMORY of a file system without a disk; the memory
 * of the kernel and of the recorder for it; and the delays of the program. Leaves old.snap and new.snap in DIR; prints
 * a line each: NAME TAB VALUE. capacity.py makes a table of it.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collect.h"
#include "reason.h"
#include "snapshot.h"
#include "stacks.h"

#define ROOM 5	  /* --max-blocks is BLOCKS and 1/ROOM */
#define CHURN_MS 1000

/* Between us and the program that is recorded. */
static struct shared {
	volatile uint64_t blocks;  /* to have in all; the program allocates up to it */
	volatile uint64_t has;
	volatile uint64_t pairs;   /* of malloc and free, while is_busy */
	volatile bool is_busy;
} *shared;

/* ---- the program ---- */

static uint64_t bytes_of(uint32_t path)
{
	return 16 + path % 32;
}

static void be_busy(void)
{
	void *volatile block;

	while (shared->is_busy) {
		block = malloc(24);
		free(block);
		shared->pairs++;
	}
}

static void program(void)
{
	for (;;) {
		while (shared->has < shared->blocks) {
			keep_block(shared->has);
			shared->has++;
		}
		be_busy();
		usleep(1000);
	}
}

/* ---- measurements ---- */

static void must(int err, const char *what, const struct reason *why)
{
	if (!err)
		return;
	fprintf(stderr, "capacity: %s: %s\n", what, *why->text ? why->text : strerror(-err));
	exit(1);
}

static double now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static double cpu_seconds(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return used.tv_sec + used.tv_nsec / 1e9;
}

/* A line of a file of /proc, in KiB. */
static uint64_t read_kib(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	char line[128];
	uint64_t kib = 0;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			sscanf(line + strlen(name), ": %" SCNu64, &kib);
	if (file)
		fclose(file);
	return kib;
}

static uint64_t kernel_bytes(void)
{
	return 1024 * (read_kib("/proc/meminfo", "Slab") + read_kib("/proc/meminfo", "VmallocUsed") +
		       read_kib("/proc/meminfo", "Percpu"));
}

static uint64_t peak_bytes(void)
{
	return 1024 * read_kib("/proc/self/status", "VmHWM");
}

static void forget_peak(void)
{
	FILE *file = fopen("/proc/self/clear_refs", "we");

	if (file) {
		fputs("5", file);
		fclose(file);
	}
}

static void log_info(const char *name, double value)
{
	printf("%s\t%.3f\n", name, value);
}

static double pairs_a_second(double seconds)
{
	uint64_t before = shared->pairs;
	double begun = now();

	while (now() - begun < seconds)
		usleep(10000);
	return (shared->pairs - before) / (now() - begun);
}

static void have(struct collector *collector, uint64_t blocks)
{
	double refreshed = now();

	shared->blocks = blocks;
	while (shared->has < blocks) {
		usleep(10000);
		if (now() - refreshed < 1)
			continue;
		collector__refresh(collector);
		refreshed = now();
	}
}

/* One drain to one file, in old or another's place. */
static char *drain(struct collector *collector, pid_t pid, const char *dir, const char *name)
{
	const struct save_options options = { .dir = dir };
	struct reason why = { "" };
	double begun = now(), cpu = cpu_seconds(), drained;
	char *path, *to;

	forget_peak();
	must(collector__drain(collector, &why), "drain", &why);
	drained = now();
	must(collector__save(collector, pid, &options, &path, &why), "save", &why);
	log_info(name, now() - begun);
	log_info("drain s", drained - begun);
	log_info("cpu s", cpu_seconds() - cpu);
	log_info("peak bytes", peak_bytes());
	if (asprintf(&to, "%s/%s", dir, name) < 0 || rename(path, to))
		must(-errno, path, &why);
	free(path);
	return to;
}

static void measure_busy(struct collector *collector, pid_t pid, const char *dir)
{
	double idle, busy, begun;
	uint64_t pairs;

	shared->is_busy = true;
	usleep(100000);
	idle = pairs_a_second(CHURN_MS / 1e3);
	begun = now();
	pairs = shared->pairs;
	free(drain(collector, pid, dir, "busy.snap"));
	busy = (shared->pairs - pairs) / (now() - begun);
	idle = (idle + pairs_a_second(CHURN_MS / 1e3)) / 2;
	shared->is_busy = false;
	log_info("pairs/s", idle);
	log_info("pairs/s during a drain", busy);
}

static void save_compressed(const struct snapshot *snapshot, const char *dir)
{
	const struct snapshot_save_options options = { .compress = true };
	struct reason why = { "" };
	char *path;

	if (asprintf(&path, "%s/old-zstd.snap", dir) < 0)
		must(-ENOMEM, dir, &why);
	must(snapshot__save(snapshot, path, &options, &why), path, &why);
	free(path);
}

static void check_file(const char *path, const char *dir, uint64_t blocks)
{
	struct reason why = { "" };
	struct snapshot *snapshot = snapshot__open(path, &why);
	struct stat st;

	must(snapshot ? 0 : -errno, path, &why);
	log_info("blocks", snapshot__tables(snapshot)->trace_nr);
	log_info("tracebacks", snapshot__tables(snapshot)->traceback_nr - 1);
	if (snapshot__tables(snapshot)->trace_nr != blocks)
		fprintf(stderr, "capacity: WRONG: %" PRIu64 " blocks were to be found\n", blocks);
	if (!stat(path, &st))
		log_info("file bytes", st.st_size);
	save_compressed(snapshot, dir);
	snapshot__close(snapshot);
}

static void measure(struct collector *collector, pid_t pid, uint64_t blocks, int rounds,
		    const char *dir, const char *memory)
{
	uint64_t kernel = kernel_bytes(), maps = collector__get_tracemalloc_memory(collector);
	double begun = now();
	char *path;

	log_info("empty maps bytes", maps);
	have(collector, blocks);
	log_info("record s", now() - begun);
	log_info("kernel bytes", (double)kernel_bytes() - kernel);
	log_info("maps bytes", collector__get_tracemalloc_memory(collector) - maps);
	for (int i = 0; i < rounds; i++) {
		path = drain(collector, pid, dir, "old.snap");
		if (!i)
			check_file(path, dir, blocks);
		free(path);
		path = drain(collector, pid, memory, "memory.snap");
		unlink(path);
		free(path);
	}
	measure_busy(collector, pid, dir);
	have(collector, blocks + blocks / 100);
	free(drain(collector, pid, dir, "new.snap"));
}

int main(int argc, char **argv)
{
	struct collector_options options = {};
	uint64_t blocks = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, kernel = kernel_bytes();
	struct collector *collector;
	struct reason why = { "" };
	pid_t pid;

	if (argc != 5)
		return 2;
	options.max_blocks = blocks + blocks / ROOM;
	collector = collector__open(&options, &why);
	must(collector ? 0 : -errno, "open", &why);
	log_info("empty kernel bytes", (double)kernel_bytes() - kernel);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		program();
	}
	must(collector__start(collector, pid, &why), "start", &why);
	measure(collector, pid, blocks, atoi(argv[2]), argv[3], argv[4]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	collector__close(collector);
	return 0;
}
