// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * nop5: an allocator whose functions begin with a nop of five bytes. A probe may sit behind the nop of
 * nopped_alloc(); looped_alloc() branches back there.
 *
 *	go N     N objects of each
 *	fork     a child calls both; answers how the child ended
 *	quit
 */
#include <sys/wait.h>

#include "workload.h"

#define OBJECTS_MAX (1u << 16)
#define OBJECT_BYTES 48

static char arena[OBJECTS_MAX][OBJECT_BYTES];
static unsigned int used;

SITE void *give(size_t)
{
	return arena[used++];
}

SITE void give_back(void *object)
{
	used -= !!object;
}

void *nopped_alloc(size_t size);
void *looped_alloc(size_t size);

#define FUNCTION(name) ".globl " name "\n.type " name ", @function\n" name ":\n"
#define END(name) ".size " name ", . - " name "\n"
#define NOP5 "	.byte 0x0f, 0x1f, 0x44, 0, 0\n"

__asm__(".text\n.balign 16\n"
	FUNCTION("nopped_alloc")
	NOP5
	"	sub $8, %rsp\n"
	"	call give\n"
	"	add $8, %rsp\n"
	"	ret\n"
	END("nopped_alloc")

	".balign 16\n"
	FUNCTION("looped_alloc")
	NOP5
	"1:	and $-1, %rdi\n"
	"	js 1b\n"
	"	jmp give\n"
	END("looped_alloc"));

static void make(long each)
{
	for (long i = 0; i < each; i++) {
		nopped_alloc(OBJECT_BYTES);
		looped_alloc(OBJECT_BYTES);
	}
}

/* As waitpid() has it; the child allocates as its parent did. */
static int status_of_child(void)
{
	int status = -1;
	pid_t child = fork();

	if (!child) {
		make(3);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return status;
}

int main(void)
{
	const char *command;

	ready();
	while (strcmp(command = next_command(), "quit")) {
		if (!strcmp(command, "fork")) {
			answer("{\"done\": {\"status\": %d}}", status_of_child());
			continue;
		}
		make(atol(command + 3));
		answer("{\"done\": {\"each\": %u}}", used / 2);
	}
}
