// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * maps_code: maps pages of its own file as code, at ever new addresses. Commands:
 *	keep N    N pages that stay
 *	drop N    N pages, each unmapped before the next one comes
 *	hold N    a block of N bytes that stays
 *	quit
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "workload.h"

#define PAGE 4096
#define FIRST ((char *)0x100000000000)

static void *volatile held;
static char *next = FIRST;

/* Every other page, so that the kernel does not make one mapping of two. */
static long map_pages(int fd, long nr, int stay)
{
	long done = 0;

	for (; done < nr; done++, next += 2 * PAGE) {
		void *page = mmap(next, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);

		if (page == MAP_FAILED)
			break;
		if (!stay)
			munmap(page, PAGE);
	}
	return done;
}

SITE static void hold(size_t bytes)
{
	held = malloc(bytes);
}

int main(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	const char *command;
	long nr, done;

	ready();
	while (strcmp(command = next_command(), "quit")) {
		done = nr = 0;
		if (sscanf(command, "hold %ld", &nr) == 1)
			hold(nr);
		else if (sscanf(command, "keep %ld", &nr) == 1)
			done = map_pages(fd, nr, 1);
		else if (sscanf(command, "drop %ld", &nr) == 1)
			done = map_pages(fd, nr, 0);
		answer("{\"done\": %ld}", done);
	}
	return 0;
}
