// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * resident: memory of each kind, one after another. Before "ready" it makes OLDER_BLOCKS blocks, which
 * are older than any recording. Commands: touch (blocks that are written), leave (blocks that are not),
 * share, stack (a thread that uses much of its stack), code (executable memory), file PATH (mapped and
 * read). Each answers with the bytes that it took; touch and leave also with the numbers of
 * mallinfo2().
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "workload.h"

#define BLOCK 4000 /* from the heap, never a mapping of its own */
#define OLDER_BLOCKS 2003
#define TOUCHED_BLOCKS 3001
#define LEFT_BYTES (48u << 20)
#define SHARED_BYTES (7u << 20)
#define STACK_BYTES (3u << 20)
#define CODE_BYTES (5u << 20)

static void *volatile kept[OLDER_BLOCKS + TOUCHED_BLOCKS + 1];
static size_t kept_nr;

static void keep_touched(size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		kept[kept_nr] = malloc(BLOCK);
		memset(kept[kept_nr++], 1, BLOCK);
	}
}

static void log_info(unsigned long bytes)
{
	struct mallinfo2 info = mallinfo2();

	answer("{\"done\": %lu, \"in_use\": %zu, \"arena\": %zu, \"mapped\": %zu}", bytes, info.uordblks,
	       info.arena, info.hblkhd);
}

static void take(unsigned long bytes, int prot, int flags, int fd)
{
	char *at = mmap(NULL, bytes, prot, flags, fd, 0);

	if (at == MAP_FAILED)
		_exit(2);
	for (unsigned long i = 0; i < bytes; i += 4096)
		if (prot & PROT_WRITE)
			at[i] = 1;
		else
			(void)*(volatile char *)&at[i];
	log_info(bytes);
}

static void *stay(void *)
{
	char volatile deep[STACK_BYTES];

	for (size_t i = 0; i < sizeof(deep); i += 4096)
		deep[i] = 1;
	log_info(sizeof(deep));
	for (;;)
		pause();
	return NULL;
}

static void start_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, stay, NULL))
		_exit(2);
}

static void obey(const char *command)
{
	struct stat st;
	int fd;

	if (!strcmp(command, "touch")) {
		keep_touched(TOUCHED_BLOCKS);
		log_info((unsigned long)TOUCHED_BLOCKS * BLOCK);
	} else if (!strcmp(command, "leave")) {
		kept[kept_nr++] = malloc(LEFT_BYTES);
		log_info(LEFT_BYTES);
	} else if (!strcmp(command, "share")) {
		take(SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	} else if (!strcmp(command, "stack")) {
		start_thread();
	} else if (!strcmp(command, "code")) {
		take(CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	} else if (!strncmp(command, "file ", 5)) {
		fd = open(command + 5, O_RDONLY);
		if (fd < 0 || fstat(fd, &st))
			_exit(2);
		take(st.st_size, PROT_READ, MAP_PRIVATE, fd);
	}
}

int main(void)
{
	const char *command;

	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* a huge page has more than what was touched */
	keep_touched(OLDER_BLOCKS);
	ready();
	while (strcmp(command = next_command(), "quit"))
		obey(command);
	return 0;
}
