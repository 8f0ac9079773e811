// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * blocks: allocates and frees numbered blocks on command, and nothing else.
 *
 *	make FIRST NR SIZE    block FIRST and the NR - 1 after it; answers with the first's address
 *	more FIRST NR SIZE    the same, at another call site
 *	drop FIRST NR         frees them; missing blocks are skipped
 *	exec                  begins again
 *	fork                  has a child, which sleeps
 *	load                  a library comes and goes
 *	quit
 */
#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>

#include "workload.h"

#define BLOCKS_MAX (1 << 20)

static void *block[BLOCKS_MAX];
static int make_line;

SITE static void *make_here(size_t size)
{
	make_line = __LINE__ + 1;
	return malloc(size);
}

SITE static void *make_there(size_t size)
{
	return malloc(size);
}

static void make(void *(*site)(size_t size), long first, long nr, size_t size)
{
	for (long i = first; i < first + nr && i < BLOCKS_MAX; i++)
		if (!block[i])
			block[i] = site(size);
}

static void drop(long first, long nr)
{
	for (long i = first; i < first + nr && i < BLOCKS_MAX; i++) {
		free(block[i]);
		block[i] = NULL;
	}
}

static void sleep_in_child(void)
{
	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

int main(int argc __attribute__((unused)), char **argv)
{
	long first = 0, nr = 0;
	size_t size;

	ready();
	for (;;) {
		const char *command = next_command();

		if (!strcmp(command, "quit"))
			return 0;
		if (sscanf(command, "make %ld %ld %zu", &first, &nr, &size) == 3)
			make(make_here, first, nr, size);
		else if (sscanf(command, "more %ld %ld %zu", &first, &nr, &size) == 3)
			make(make_there, first, nr, size);
		else if (sscanf(command, "drop %ld %ld", &first, &nr) == 2)
			drop(first, nr);
		else if (!strcmp(command, "exec"))
			execv("/proc/self/exe", argv);
		else if (!strcmp(command, "fork"))
			sleep_in_child();
		else if (!strcmp(command, "load"))
			dlclose(dlopen("libm.so.6", RTLD_NOW));
		answer("{\"done\": {\"address\": %lu, \"function\": \"make_here\", \"line\": %d}}",
		       (unsigned long)block[first], make_line);
	}
}
