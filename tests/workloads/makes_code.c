// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * makes_code: makes code at run time, and writes it down in /tmp/perf-PID.map. Commands:
 *	name K TEXT    the map's next line says that code K (0 to 9) is called TEXT
 *	dump K TEXT    the same in a jitdump in the working directory, which it maps
 *	hold K N       code K allocates a block of N bytes, which stays
 *	quit
 */
#include <sys/mman.h>

#include "workload.h"

#define BYTES 64
#define CODES 10

static unsigned char *code;

/* push %rbp; mov %rsp,%rbp; mov $malloc,%rax; call *%rax; pop %rbp; ret */
static void make_code(unsigned char *at)
{
	static const unsigned char before[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8 };
	static const unsigned char after[] = { 0xff, 0xd0, 0x5d, 0xc3 };
	void *(*function)(size_t) = malloc;

	memcpy(at, before, sizeof(before));
	memcpy(at + sizeof(before), &function, sizeof(function));
	memcpy(at + sizeof(before) + sizeof(function), after, sizeof(after));
}

SITE static long hold(int nr, size_t bytes)
{
	void *block = ((void *(*)(size_t))(code + nr * BYTES))(bytes);

	return block != NULL;
}

static FILE *map(void)
{
	static FILE *file;
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	return file = file ?: fopen(path, "a");
}

/* The kernel's tools/perf/Documentation/jitdump-specification.txt */
static long dump(int nr, const char *name)
{
	const struct { unsigned int magic, version, bytes, machine, pad, pid; unsigned long time_ns, flags; } head = {
		0x4a695444, 1, sizeof(head), 62, 0, getpid(),
	};
	const struct { unsigned int id, bytes; unsigned long time_ns; unsigned int pid, tid; unsigned long number[4]; } load = {
		0, sizeof(load) + strlen(name) + 1, 1, getpid(), getpid(), { 0, (unsigned long)(code + nr * BYTES), BYTES, nr },
	};
	static FILE *file;
	char path[64];

	if (!file) {
		snprintf(path, sizeof(path), "jit-%d.dump", getpid());
		file = fopen(path, "w+");
		fwrite(&head, sizeof(head), 1, file);
		fflush(file);
		mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(file), 0);
	}
	return fwrite(&load, sizeof(load), 1, file) + fwrite(name, strlen(name) + 1, 1, file);
}

int main(void)
{
	const char *command;
	size_t bytes;
	int nr, text;
	long done;

	code = mmap(NULL, CODES * BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (nr = 0; nr < CODES; nr++)
		make_code(code + nr * BYTES);
	ready();
	while (strcmp(command = next_command(), "quit")) {
		done = 0;
		if (sscanf(command, "name %d %n", &nr, &text) == 1)
			done = fprintf(map(), "%lx %x %s\n", (unsigned long)(code + nr * BYTES), BYTES, command + text);
		else if (sscanf(command, "dump %d %n", &nr, &text) == 1)
			done = dump(nr, command + text);
		else if (sscanf(command, "hold %d %zu", &nr, &bytes) == 2)
			done = hold(nr, bytes);
		fflush(NULL);
		answer("{\"done\": %ld}", done);
	}
	return 0;
}
