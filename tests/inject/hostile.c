// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * hostile MODE NR [FILE]: maps NR files, or one file NR times; then it writes a line and allocates.
 *
 *	file		FILE as code
 *	files		memory files as code, each with the content of FILE
 *	samplers	memory files with the name of a sampler, sealed, with no table
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

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

int main(int argc, char **argv)
{
	long nr = argc > 2 ? atol(argv[2]) : 0;
	int content = argc > 3 ? open(argv[3], O_RDONLY) : -1;

	for (long i = 0; i < nr; i++) {
		int fd = content;

		if (!strcmp(argv[1], "files"))
			fd = memory_file("code", content);
		else if (!strcmp(argv[1], "samplers"))
			fd = memory_file("allocsnap-sampler", -1);
		if (!strcmp(argv[1], "samplers") && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
			fail("seals");
		map_code(fd, i);
		if (fd != content)
			close(fd);
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		free(malloc(100));
		usleep(1000);
	}
}
