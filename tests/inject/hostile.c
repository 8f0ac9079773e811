// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * hostile MODE NR [FILE]: maps NR files, or one file NR times; then it writes a line and allocates.
 *
 *	file		FILE as code
 *	files		memory files as code, each with the content of FILE
 *	samplers	memory files with the name of a sampler, sealed, with no table
 *
 * hostile vfork: after a line on stdin it waits for a child of vfork() that calls no exec. kernel: the same, but the child has
 * memory of its own.
 *
 * hostile child OWNER START: says that it has an injected sampler of this process, which began at START, and cannot be
 * ejected at any moment: another process uses its memory.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/injected.h"

#define PAGE 4096l
#define BEGIN 0x100000000l

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* With a free page behind it: mappings of one file do not become one. */
static void map_code(int fd, long nr)
{
	if (mmap((void *)(BEGIN + 2 * nr * PAGE), PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
		fail("mmap");
}

static int memory_file(const char *name, int content)
{
	int fd = memfd_create(name, MFD_ALLOW_SEALING);
	off_t from = 0;

	if (fd < 0)
		fail("memfd_create");
	if (content < 0 ? ftruncate(fd, 8 * PAGE) : sendfile(fd, content, &from, 1 << 20) < 0)
		fail("the content of a memory file");
	return fd;
}

static void seal(int fd)
{
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		fail("seals");
}

static void map_files(const char *mode, long nr, const char *path)
{
	int content = path ? open(path, O_RDONLY) : -1;

	for (long i = 0; i < nr; i++) {
		int fd = content;

		if (!strcmp(mode, "files"))
			fd = memory_file("code", content);
		else if (!strcmp(mode, "samplers"))
			fd = memory_file("allocsnap-sampler", -1);
		if (!strcmp(mode, "samplers"))
			seal(fd);
		map_code(fd, i);
		if (fd != content)
			close(fd);
	}
}

/* ---- processes that share memory ---- */

static int wait_for_the_end(void *)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (pause())
		;
	return 0;
}

static void forge_child(const char *owner, const char *start)
{
	static struct injected_table table = { .magic = INJECTED_MAGIC, .version = INJECTED_VERSION, .page_nr = 1 };
	static char stack[64 << 10];
	int fd = memory_file("allocsnap-sampler", -1);

	table.start = BEGIN;
	table.end = BEGIN + 16 * PAGE;
	table.text_end = BEGIN + PAGE;
	table.owner = atol(owner);
	table.owner_start_time = atol(start);
	table.interval = 1000;
	table.page[0].address = BEGIN + 32 * PAGE;
	table.page[0].parked = BEGIN + 8 * PAGE;
	if (pwrite(fd, &table, sizeof(table), 8 * PAGE - INJECTED_TABLE_BYTES) != sizeof(table))
		fail("the table");
	seal(fd);
	map_code(fd, 0);
	map_code(fd, 16);
	if (clone(wait_for_the_end, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL) < 0)
		fail("clone");
}

/* The file of hooks that was never injected: a pointer of this process leads to one. */
static void forge_hooks(const char *step)
{
	struct injected_table table = { .magic = INJECTED_HOOKS_MAGIC, .version = INJECTED_VERSION, .word_nr = 1 }; /* its copy of the pointer goes */
	static uint64_t pointer = BEGIN + 16;
	int fd = memory_file("allocsnap-hooks", -1);

	table.start = BEGIN;
	table.end = BEGIN + 16 * PAGE;
	table.text_end = BEGIN + PAGE;
	table.word[0].address = (uintptr_t)&pointer;
	table.word[0].put = pointer;
	table.books_start = BEGIN + 8 * PAGE;
	table.books_end = BEGIN + 10 * PAGE;
	table.inside_nr = 10;
	table.inside_step = atol(step);
	if (pwrite(fd, &table, sizeof(table), 8 * PAGE - INJECTED_TABLE_BYTES) != sizeof(table))
		fail("the table");
	seal(fd);
	map_code(fd, 0);
	close(fd);
	fd = memory_file("allocsnap-books", -1);
	map_code(fd, 4);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "hooks"))
		forge_hooks(argv[2]);
	else if (argc > 3 && !strcmp(argv[1], "child"))
		forge_child(argv[2], argv[3]);
	else if (argc > 2)
		map_files(argv[1], atol(argv[2]), argv[3]);
	puts("ready");
	fflush(stdout);
	if (!strcmp(argv[1], "vfork") && getchar() == '\n' && !vfork())
		wait_for_the_end(NULL);
	if (!strcmp(argv[1], "kernel") && getchar() == '\n' && !syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL))
		wait_for_the_end(NULL);
	for (;;) {
		free(malloc(100));
		usleep(1000);
	}
}
