// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * fault_target: page faults at some depth. Each line "FRAMES PAGES" on stdin orders that many pages of fresh memory, each
 * touched once, that deep. Answers with the ns of CPU time that a page took. Built without frame pointers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096L

static double cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

/* The addition keeps each call a frame. */
__attribute__((noinline, noclone)) static long touch_deep(int frames, volatile char *p, long pages)
{
	if (frames > 1)
		return touch_deep(frames - 1, p, pages) + 1;
	for (long i = 0; i < pages; i++)
		p[i * PAGE] = 1;
	return 1;
}

static double measure(int frames, long pages)
{
	char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double begun, took;

	if (p == MAP_FAILED || madvise(p, pages * PAGE, MADV_NOHUGEPAGE))
		exit(1);
	begun = cpu_ns();
	touch_deep(frames, p, pages);
	took = cpu_ns() - begun;
	munmap(p, pages * PAGE);
	return took / pages;
}

int main(void)
{
	long pages;
	int frames;

	while (scanf("%d %ld", &frames, &pages) == 2) {
		printf("%.1f\n", measure(frames, pages));
		fflush(stdout);
	}
	return 0;
}
