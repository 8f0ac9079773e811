// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * prologue: an allocator whose functions branch back to the best place of a probe, so that the probe has to
 * stay at the entry: looped_alloc() by a branch, tabled_alloc() through a table. straight_alloc() does not.
 *
 *	go N     N objects of each; all but every tenth are freed
 *	quit
 */
#include "workload.h"

#define OBJECTS_MAX (1u << 20)
#define OBJECT_BYTES 48

static char arena[OBJECTS_MAX][OBJECT_BYTES];
static unsigned int used;
static long live;

SITE void *give(size_t)
{
	return arena[used++];
}

SITE void give_back(void *object)
{
	live -= !!object;
}

void *looped_alloc(size_t size);
void *tabled_alloc(size_t size);
void *straight_alloc(size_t size);

#define FUNCTION(name) ".globl " name "\n.type " name ", @function\n" name ":\n"
#define END(name) ".size " name ", . - " name "\n"

__asm__(".text\n"
	FUNCTION("looped_alloc")
	"	mov $3, %eax\n"
	"1:	test %rdi, %rdi\n"
	"	je 2f\n"
	"	dec %eax\n"
	"	jne 1b\n"
	"2:	jmp give\n"
	END("looped_alloc")

	FUNCTION("tabled_alloc")
	"	mov $3, %eax\n"
	"tabled_top:\n"
	"	test %rdi, %rdi\n"
	"	je tabled_end\n"
	"	dec %eax\n"
	"	cmp $2, %eax\n"
	"	ja tabled_end\n"
	"	mov %eax, %ecx\n"
	"	lea 3f(%rip), %rdx\n"
	"	movslq (%rdx,%rcx,4), %rcx\n"
	"	add %rdx, %rcx\n"
	"	jmp *%rcx\n"
	"tabled_end:\n"
	"	jmp give\n"
	END("tabled_alloc")

	FUNCTION("straight_alloc")
	"	test %rdi, %rdi\n"
	"	je 2f\n"
	"2:	jmp give\n"
	END("straight_alloc")

	".section .rodata\n.balign 4\n"
	"3:	.long tabled_end - 3b, tabled_top - 3b, tabled_top - 3b\n.text\n");

static void use(void *object, long i)
{
	live++;
	if (i % 10)
		give_back(object);
}

int main(void)
{
	const char *command;

	ready();
	while (strcmp(command = next_command(), "quit")) {
		long each = atol(command + 3);

		for (long i = 0; i < each; i++) {
			use(looped_alloc(OBJECT_BYTES), i);
			use(tabled_alloc(OBJECT_BYTES), i);
			use(straight_alloc(OBJECT_BYTES), i);
		}
		answer("{\"done\": {\"allocations\": %u, \"count\": %ld, \"size\": %ld}}", used, live,
		       live * OBJECT_BYTES);
	}
}
