// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * attack HOW [NUMBER [FOLDER]]: does to a recorder what a user without privileges can do. It ends by itself, with 0.
 *
 *	forks N		N children that end at once; each hundredth has held enough for a last snapshot
 *	vforks N	N parents that are killed by their vforked child, which goes on in their memory
 *	execs N		N times exec of itself, each second time by a thread that is not the main one
 *	maps N		N pages of code, each unmapped before the next one comes
 *	keeps N		N pages of code that stay for some seconds
 *	files N FOLDER	N distinct files that are mapped as code and removed
 *	arguments N	N MB of arguments, which some children share
 *	tracebacks N	20,000 allocations by random paths each second, for N seconds
 *	blocks N	N small blocks, held for some seconds
 *	rests N		a block, held for N seconds
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/prctl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tests/workloads/workload.h"

#define PAGE 4096
#define AT_ONCE 50     /* children of a storm */
#define HELD 70000     /* more than --min-bytes */
#define HOLD_SECONDS 12
#define SHARERS 8
#define PATHS_A_SECOND 20000
#define DEPTH 20

static void *volatile held;

static void must(bool is_done, const char *what)
{
	if (is_done)
		return;
	perror(what);
	_exit(1);
}

SITE static void hold(size_t bytes)
{
	held = malloc(bytes);
	must(held, "malloc");
	memset(held, 1, bytes);
}

/* ---- short lives ---- */

static void forks(long nr)
{
	long living = 0;

	for (long i = 0; i < nr; i++) {
		pid_t child = fork();

		must(child >= 0, "fork");
		if (!child) {
			hold(i % 100 ? 100 : HELD);
			_exit(0);
		}
		if (++living >= AT_ONCE && wait(NULL) > 0)
			living--;
	}
	while (wait(NULL) > 0)
		;
}

/* The parent cannot run while its child does, but it can be killed. */
static void be_killed_by_child(void)
{
	pid_t parent = getpid();

	hold(100);
	if (!vfork()) {
		kill(parent, SIGKILL);
		for (int i = 0; i < 100; i++)
			held = malloc(7777);
		_exit(0);
	}
	_exit(1);
}

static void vforks(long nr)
{
	while (nr--) {
		int status = 0;
		pid_t child = fork();

		must(child >= 0, "fork");
		if (!child)
			be_killed_by_child();
		waitpid(child, &status, 0);
		must(WIFSIGNALED(status), "the child of a vfork did not kill its parent");
	}
}

static void *exec_next(void *left)
{
	execl("/proc/self/exe", "attack", "execs", left, NULL);
	must(false, "exec");
	return NULL;
}

static void execs(long nr)
{
	pthread_t thread;
	char left[32];

	hold(nr % 20 ? 100 : HELD);
	if (!nr)
		return;
	snprintf(left, sizeof(left), "%ld", nr - 1);
	if (nr % 2 && !pthread_create(&thread, NULL, exec_next, left))
		pthread_join(thread, NULL);
	exec_next(left);
}

/* ---- mappings ---- */

/* Every other page, so that the kernel does not make one mapping of two. */
static void map_pages(long nr, bool stay)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	char *next = (char *)0x100000000000;

	for (; nr--; next += 2 * PAGE) {
		void *page = mmap(next, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);

		must(page != MAP_FAILED, "mmap");
		if (!stay)
			munmap(page, PAGE);
	}
	hold(HELD);
	sleep(stay ? HOLD_SECONDS : 0);
}

/* They differ in their last bytes. */
static void files(long nr, const char *folder)
{
	static char bytes[1 << 20];
	int self = open("/proc/self/exe", O_RDONLY);
	ssize_t size = read(self, bytes, sizeof(bytes) - sizeof(nr));

	must(size > 0, "read");
	for (; nr--; usleep(nr % 10 ? 0 : 1000)) {
		char path[4096];
		int fd;

		snprintf(path, sizeof(path), "%s/%d.%ld", folder, getpid(), nr);
		memcpy(bytes + size, &nr, sizeof(nr));
		fd = open(path, O_RDWR | O_CREAT, 0755);
		must(write(fd, bytes, size + sizeof(nr)) > 0, path);
		must(mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED, "mmap");
		close(fd);
		unlink(path);
	}
	hold(HELD);
}

/* ---- false statements of a process about itself ---- */

/* Fields of /proc/self/stat by their numbers in proc(5), from the third on. */
static void read_stat(unsigned long field[53])
{
	static char text[4096];
	char *next, *last = NULL;
	int fd = open("/proc/self/stat", O_RDONLY);

	must(read(fd, text, sizeof(text) - 1) > 0, "stat");
	close(fd);
	next = strtok_r(strrchr(text, ')') + 1, " ", &last);
	for (int i = 3; next && i < 53; i++, next = strtok_r(NULL, " ", &last))
		field[i] = strtoul(next, NULL, 10);
}

static void arguments(long megabytes)
{
	size_t bytes = megabytes << 20;
	char *text = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long field[53] = {};

	must(text != MAP_FAILED, "mmap");
	memset(text, 'A', bytes - 1);
	read_stat(field);
	must(!prctl(PR_SET_MM, PR_SET_MM_MAP, &(struct prctl_mm_map){
		.start_code = field[26], .end_code = field[27], .start_stack = field[28],
		.start_data = field[45], .end_data = field[46], .start_brk = field[47],
		.brk = (unsigned long)sbrk(0), .arg_start = (unsigned long)text,
		.arg_end = (unsigned long)text + bytes, .env_start = field[50], .env_end = field[51],
		.exe_fd = -1 }, sizeof(struct prctl_mm_map), 0), "PR_SET_MM_MAP");
	for (int i = 0; i < SHARERS && fork(); i++)
		;
	hold(HELD);
	sleep(HOLD_SECONDS);
	while (wait(NULL) > 0)
		;
}

/* ---- blocks ---- */

typedef void way(uint64_t path, int depth);
static way way_0, way_1, way_2, way_3;
static way *const ways[] = { way_0, way_1, way_2, way_3 };

#define WAY(nr) \
	SITE static void way_##nr(uint64_t path, int depth) \
	{ \
		if (depth) \
			ways[path % 4](path / 4, depth - 1); \
		else \
			free(held = malloc(64)); \
		__asm__ volatile(""); \
	}
WAY(0)
WAY(1)
WAY(2)
WAY(3)

static void tracebacks(long seconds)
{
	uint64_t path = 88172645463325252 + getpid();

	for (; seconds--; sleep(1))
		for (int i = 0; i < PATHS_A_SECOND; i++) {
			path ^= path << 13;
			path ^= path >> 7;
			path ^= path << 17;
			way_0(path, DEPTH);
		}
}

static void blocks(long nr)
{
	while (nr--)
		hold(16);
	sleep(HOLD_SECONDS);
}

static void rests(long seconds)
{
	hold(HELD);
	sleep(seconds);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*attack)(long nr);
	} rows[] = {
		{ "forks", forks }, { "vforks", vforks }, { "execs", execs },
		{ "arguments", arguments }, { "tracebacks", tracebacks },
		{ "blocks", blocks }, { "rests", rests },
	};
	const char *how = argc > 1 ? argv[1] : "";
	long nr = argc > 2 ? atol(argv[2]) : 0;

	if (!strcmp(how, "files") && argc > 3)
		return files(nr, argv[3]), 0;
	if (!strcmp(how, "maps") || !strcmp(how, "keeps"))
		return map_pages(nr, !strcmp(how, "keeps")), 0;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!strcmp(how, rows[i].name))
			return rows[i].attack(nr), 0;
	return 2;
}
