// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Pages that come and go in each way that Linux has, each brought by a function of its own; tests/live/test_pages.py
 * knows what is resident of each. older() has its pages before "ready".
 *
 *	go	one thread does all of it, but for what a thread and a forked child do; the child stays
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "workload.h"

#define PAGE 4096L
#define HUGE (512 * PAGE)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

static char *moved, *copied, *discarded, *small, *written;
static pid_t child;
static int is_collapsed;
static volatile long sum;

static inline __attribute__((always_inline)) void touch(volatile char *p, long from, long nr)
{
	for (long i = from; i < from + nr; i++)
		p[i * PAGE] = 1;
}

static inline __attribute__((always_inline)) void look(volatile char *p, long nr)
{
	for (long i = 0; i < nr; i++)
		sum += p[i * PAGE];
}

/* In pages of 4 KiB, whatever the kernel's default is. */
static char *map(long pages, int flags)
{
	char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(p, pages * PAGE, MADV_NOHUGEPAGE);
	return flags ? mmap(p, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags, -1, 0) : p;
}

SITE static void older(void)
{
	touch(map(333, 0), 0, 333);
}

SITE static void some(void)
{
	touch(map(1000, 0), 0, 500);
}

SITE static void not_needed(void)
{
	char *p = map(1000, 0);

	touch(p, 0, 1000);
	madvise(p + 100 * PAGE, 300 * PAGE, MADV_DONTNEED);
}

SITE static void unmapped(void)
{
	char *p = map(1000, 0);

	touch(p, 0, 1000);
	munmap(p + 600 * PAGE, 400 * PAGE);
}

SITE static void touched_again(void)
{
	char *p = map(400, 0);

	touch(p, 0, 400);
	madvise(p, 400 * PAGE, MADV_DONTNEED);
	touch(p, 0, 150);
}

SITE static void to_move(void)
{
	moved = map(800, 0);
	touch(moved, 0, 800);
}

/* To where the program says. */
SITE static void move(void)
{
	char *to = mmap(NULL, 3000 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	moved = mremap(moved, 800 * PAGE, 1600 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	touch(moved, 800, 100);
}

/* To where the kernel finds room: the next mapping is in its way. */
SITE static void to_grow(void)
{
	char *p = map(301, 0);

	mprotect(p + 300 * PAGE, PAGE, PROT_NONE);
	touch(p, 0, 300);
	mremap(p, 300 * PAGE, 800 * PAGE, MREMAP_MAYMOVE);
}

/* The mremap finds room and then fails, as the process has as many mappings as it may. */
SITE static void to_stay(void)
{
	long most = 1L << 21;
	char *p = map(301, 0), *parts = mmap(NULL, most * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	mprotect(p + 300 * PAGE, PAGE, PROT_NONE);
	touch(p, 0, 300);
	for (long i = 1; i < most && !mprotect(parts + i * PAGE, PAGE, PROT_READ); i += 2)
		;
	if (mremap(p, 300 * PAGE, 800 * PAGE, MREMAP_MAYMOVE) != MAP_FAILED)
		_exit(1);
	munmap(parts, most * PAGE);
}

/* Fills the hole that to_grow() left, without an event. */
SITE static void fill_hole(void)
{
	map(300, MAP_POPULATE);
}

SITE static void of_brk(void)
{
	char *p = sbrk(600 * PAGE);

	madvise((void *)((uintptr_t)(p + PAGE - 1) & -PAGE), 599 * PAGE, MADV_NOHUGEPAGE);
	touch(p, 0, 600);
	sbrk(-200 * PAGE);
}

SITE static void read_only(void)
{
	look(map(250, 0), 250);
}

SITE static void read_then_written(void)
{
	char *p = map(250, 0);

	look(p, 250);
	touch(p, 0, 250);
}

/* The kernel writes the pages. */
SITE static void by_system_call(void)
{
	int fd = open("/dev/zero", O_RDONLY);

	sum += read(fd, map(320, 0), 320 * PAGE);
	close(fd);
}

SITE static void shared(void)
{
	touch(mmap(NULL, 200 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 0, 200);
}

SITE static void populated(void)
{
	map(700, MAP_POPULATE);
}

SITE static void locked(void)
{
	mlock(map(20, 0), 20 * PAGE);
}

SITE static void made_ready(void)
{
	madvise(map(60, 0), 60 * PAGE, MADV_POPULATE_WRITE);
}

SITE static void to_discard(void)
{
	discarded = map(120, 0);
	touch(discarded, 0, 120);
	madvise(discarded, 120 * PAGE, MADV_DONTNEED);
}

/* Without an event, where the pages of other code were. */
SITE static void populate_again(void)
{
	madvise(discarded, 120 * PAGE, MADV_POPULATE_WRITE);
}

static char *map_huge(void)
{
	char *p = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return (char *)(((uintptr_t)p + HUGE - 1) & -HUGE);
}

/* 500 of 512 pages, each by itself. */
SITE static void to_collapse(void)
{
	small = map_huge();
	madvise(small, HUGE, MADV_NOHUGEPAGE);
	touch(small, 0, 500);
}

/* Makes one huge page of them, where the kernel can. */
SITE static void collapse(void)
{
	madvise(small, HUGE, MADV_HUGEPAGE);
	is_collapsed = !madvise(small, HUGE, MADV_COLLAPSE);
}

SITE static void of_file(void)
{
	int fd = memfd_create("pages", 0);
	char *p;

	sum += ftruncate(fd, 400 * PAGE);
	p = mmap(NULL, 400 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	look(p, 400);
	touch(p, 0, 130);
	close(fd);
}

SITE static void huge(void)
{
	char *p = map_huge();

	madvise(p, HUGE, MADV_HUGEPAGE);
	touch(p, 7, 1);
}

SITE static void *of_thread(void *unused)
{
	touch(map(90, 0), 0, 90);
	return unused;
}

/* Another process writes these pages, once go() has ended: not a child, whose fork would let pages of any function be copied. */
SITE static void by_another(void)
{
	written = map(75, 0);
}

SITE static void to_copy(void)
{
	copied = map(512, 0);
	touch(copied, 0, 512);
}

SITE static void copy_in_child(void)
{
	touch(copied, 200, 64);
}

SITE static void copy_in_parent(void)
{
	touch(copied, 0, 100);
}

static void fork_child(void)
{
	int done[2];
	char byte;

	sum += pipe(done);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test may kill its parent */
		copy_in_child();
		sum += write(done[1], "", 1);
		pause();
		_exit(0);
	}
	sum += read(done[0], &byte, 1);
	copy_in_parent();
}

static void go(void)
{
	pthread_t thread;

	some(), not_needed(), unmapped(), touched_again(), to_move(), move(), to_grow(), to_stay(), fill_hole(), of_brk(), read_only(), read_then_written();
	by_system_call(), shared(), populated(), locked(), made_ready(), to_discard(), populate_again(), of_file(), huge();
	to_collapse(), collapse(), by_another(), to_copy();
	pthread_create(&thread, NULL, of_thread, NULL);
	pthread_join(thread, NULL);
	fork_child();
}

int main(void)
{
	older();
	sum = 1; /* a page of our variables, which is of no function below */
	ready();
	while (!strcmp(next_command(), "go")) {
		go();
		answer("{\"done\": {\"child\": %d, \"collapsed\": %d, \"written\": %ld}}", (int)child, is_collapsed, (long)written);
	}
	if (child)
		kill(child, SIGKILL);
	return 0;
}
