// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * halt PID LEDGER [ALLOCATIONS [anywhere]]: when a program with the ledger has made that many
 * allocations, stops it where all its threads stand still and none is inside an allocator call;
 * "anywhere" also inside one, as long as the ledger knows of it. Prints how many are inside. The
 * program stays stopped.
 *
 * The probes see a call before the ledger does and return from it after: a thread at the edge of
 * a call, in the ledger's code or in the kernel's for probes and not inside by the ledger's account,
 * is let go on, and the program is stopped anew.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ledger.h"

#define TRIES_MAX 5000
#define EDGES_MAX 16
#define TEXT_MAX 512

/* Code in which a thread may be at the edge of a call, as the probes see it. */
struct edges {
	struct {
		uint64_t start, end;
	} range[EDGES_MAX];
	unsigned int nr;
};

static pid_t pid;
static const struct account *account;

static void die(const char *what)
{
	fprintf(stderr, "halt: %s\n", what);
	exit(1);
}

static void nap(long us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

/* Waits until the program has begun its ledger. */
static const struct account *open_ledger(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	const struct account *map = MAP_FAILED;
	struct stat st = {};

	while (fd >= 0 && !kill(pid, 0) && !fstat(fd, &st) && st.st_size < (off_t)sizeof(*map))
		nap(200);
	if (fd >= 0 && st.st_size < (off_t)sizeof(*map))
		die("the program has ended");
	if (fd >= 0)
		map = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		die("this is no ledger");
	close(fd);
	while (__atomic_load_n(&map->magic, __ATOMIC_ACQUIRE) != LEDGER_MAGIC) {
		if (kill(pid, 0))
			die("the program has ended");
		nap(200);
	}
	return map;
}

/* Reads a file of one thread; false if the thread has ended. */
static bool read_thread(const char *thread, const char *name, char text[TEXT_MAX])
{
	char path[300];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/%s", pid, thread, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, TEXT_MAX - 1);
	if (fd >= 0)
		close(fd);
	text[len > 0 ? len : 0] = '\0';
	return len > 0;
}

/* Whether visit() is true of all threads. */
static bool all_threads(bool (*visit)(const char *thread))
{
	char path[64];
	struct dirent *entry;
	bool is_true = true;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	if (!folder)
		die("the program has ended");
	while (is_true && (entry = readdir(folder)))
		if (isdigit(*entry->d_name))
			is_true = visit(entry->d_name);
	closedir(folder);
	return is_true;
}

static bool is_stopped(const char *thread)
{
	char text[TEXT_MAX], *state;

	if (!read_thread(thread, "stat", text))
		return true;
	state = strrchr(text, ')');
	if (state && state[2] == 'Z' && atoi(thread) == pid)
		die("the program has ended");
	return state && strchr("TtZX", state[2]);
}

/* is_stopped() has an opinion about a main thread that is a zombie. */
static bool is_there(const char *thread)
{
	is_stopped(thread);
	return true;
}

static void find_edges(struct edges *edges)
{
	char path[64], line[TEXT_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "r");
	edges->nr = 0;
	while (file && fgets(line, sizeof(line), file)) {
		unsigned long start, end;
		char flags[5];

		if (sscanf(line, "%lx-%lx %4s", &start, &end, flags) != 3 || flags[2] != 'x' ||
		    (!strstr(line, "/ledger.so") && !strstr(line, "[uprobes]")))
			continue;
		if (edges->nr == EDGES_MAX)
			die("the ledger is mapped too often");
		edges->range[edges->nr].start = start;
		edges->range[edges->nr++].end = end;
	}
	if (file)
		fclose(file);
}

static struct edges edges;
static bool may_be_inside;
static unsigned int inside_nr;

static bool is_inside(const char *thread)
{
	for (uint64_t i = 0; i < account->threads && i < LEDGER_THREADS_MAX; i++)
		if (account->call[i].is_inside && account->call[i].thread == (uint32_t)atoi(thread))
			return true;
	return false;
}

static bool is_clear(const char *thread)
{
	char text[TEXT_MAX], *last;
	uint64_t pc;

	if (is_inside(thread)) {
		inside_nr++;
		return may_be_inside;
	}
	if (!read_thread(thread, "syscall", text))
		return true;
	last = strrchr(text, ' ');
	if (!last) /* it runs */
		return false;
	pc = strtoull(last, NULL, 16);
	for (unsigned int i = 0; i < edges.nr; i++)
		if (pc >= edges.range[i].start && pc < edges.range[i].end)
			return false;
	return true;
}

static void wait_for(uint64_t allocations)
{
	while (__atomic_load_n(&account->allocations, __ATOMIC_RELAXED) < allocations) {
		if (kill(pid, 0) || !all_threads(is_there))
			die("the program has ended");
		nap(200);
	}
}

static bool stop(void)
{
	if (kill(pid, SIGSTOP))
		die("the program has ended");
	while (!all_threads(is_stopped))
		nap(200);
	find_edges(&edges);
	inside_nr = 0;
	return all_threads(is_clear);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		die("halt PID LEDGER [ALLOCATIONS [anywhere]]");
	pid = atoi(argv[1]);
	account = open_ledger(argv[2]);
	may_be_inside = argc > 4;
	wait_for(argc > 3 ? strtoull(argv[3], NULL, 0) : 0);
	for (int i = 0; i < TRIES_MAX; i++) {
		if (stop()) {
			printf("%u\n", inside_nr);
			return 0;
		}
		kill(pid, SIGCONT);
		nap(i * 7919 % 499);
	}
	die("a thread was inside a call each time");
}
