// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs code of plugins (plugin_code.so.c) that take each other's place. "WAY COUNT BYTES OFFSET PATH" allocates COUNT blocks
 * through the plugin's function work(), which lies at OFFSET in its file:
 *
 *	dlopen, dlmopen		loads it, and unloads it again
 *	fixed			maps it in place of what the last fixed or copied one has left
 *	copied			the same, but as memory without a file, as a JIT compiler makes code
 */
#define _GNU_SOURCE /* dlmopen() */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "workload.h"

typedef void *work_fn(void *(*allocate)(size_t), size_t bytes);

#define ROOM ((char *)0x7e0000000000)
#define ROOM_BYTES (64 << 10)

static void *kept[1 << 16];
static size_t kept_nr;

SITE static void run_code(work_fn *work, int count, int bytes)
{
	for (int i = 0; i < count; i++)
		kept[kept_nr++ % (1 << 16)] = work(malloc, bytes);
}

static work_fn *map_fixed(const char *path, long offset, int is_copy)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), flags = MAP_PRIVATE | MAP_FIXED;

	if (is_copy) {
		mmap(ROOM, ROOM_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, flags | MAP_ANONYMOUS, -1, 0);
		if (read(fd, ROOM, ROOM_BYTES) < 0)
			return NULL;
	} else if (mmap(ROOM, ROOM_BYTES, PROT_READ | PROT_EXEC, flags, fd, 0) == MAP_FAILED) {
		return NULL;
	}
	close(fd);
	return (work_fn *)(ROOM + offset);
}

int main(void)
{
	char way[16], path[4000];
	int count, bytes;
	long offset;

	ready();
	while (sscanf(next_command(), "%15s %d %d %lx %3999s", way, &count, &bytes, &offset, path) == 5) {
		int is_loaded = way[0] == 'd';
		void *library = !is_loaded ? NULL : !strcmp(way, "dlopen") ? dlopen(path, RTLD_NOW) :
									      dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
		work_fn *work = is_loaded ? (work_fn *)dlsym(library, "work") :
					    map_fixed(path, offset, !strcmp(way, "copied"));

		run_code(work, count, bytes);
		if (library)
			dlclose(library);
		answer("{\"done\": {\"at\": %lu}}", (unsigned long)work);
	}
	return 0;
}
