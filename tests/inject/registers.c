// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * registers: a program with an allocator of its own (pool.c, in this file or by link-time optimization) that looks at
 * each register around each call of it. What a function leaves alone before anything is done to the program, it must
 * leave alone all the time. For each line on stdin it prints "rounds N bad M"; it ends with status 0 if nothing was bad.
 */
#ifdef ONE_FILE
#include "pool.c"
#else
#include "pool.h"
#endif

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static long rounds, bad;

static void expect(int is_good, const char *what, const char *function)
{
	if (is_good || bad++ >= 20)
		return;
	dprintf(2, "registers: %s of %s\n", what, function);
}

/* ---- values that the compiler keeps in registers over calls of the allocator ---- */

#define KEEPS(name, call)                                                                                     \
	static __attribute__((noinline)) double name(uint64_t a, uint64_t b, uint64_t c, uint64_t d, double x) \
	{                                                                                                      \
		void *block = NULL;                                                                            \
                                                                                                               \
		call;                                                                                          \
		free(block);                                                                                   \
		return (uint32_t)(a ^ b * 3 ^ c * 5 ^ d * 7) + x + !block;                                     \
	}

KEEPS(keep_malloc, block = malloc(200))
KEEPS(keep_calloc, block = calloc(2, 100))
KEEPS(keep_realloc, block = realloc(malloc(40), 200))
KEEPS(keep_posix_memalign, posix_memalign(&block, 64, 200))
KEEPS(keep_new, block = operator_new(200))

static void check_values(uint64_t i)
{
	static const struct {
		double (*keep)(uint64_t, uint64_t, uint64_t, uint64_t, double);
		const char *name;
	} row[] = { { keep_malloc, "malloc" }, { keep_calloc, "calloc" }, { keep_realloc, "realloc" },
		    { keep_posix_memalign, "posix_memalign" }, { keep_new, "operator new" } };

	for (size_t k = 0; k < sizeof(row) / sizeof(*row); k++)
		expect(row[k].keep(i, i + 1, i + 2, i + 3, .5) ==
		       (uint32_t)(i ^ (i + 1) * 3 ^ (i + 2) * 5 ^ (i + 3) * 7) + .5, "a value is lost around a call", row[k].name);
}

/* ---- all registers ---- */

enum { RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11, RBP, R13, R14, R15, GENERAL_NR, VECTOR_NR = 16 };

struct registers {
	uint64_t general[GENERAL_NR];
	uint64_t vector[VECTOR_NR][2];
};

/* Calls a function with all these registers, and fills in what they are afterwards. */
void call_with_registers(struct registers *registers, const void *function);

#define MOVE_GENERAL(move) move(0, rax) move(1, rcx) move(2, rdx) move(3, rsi) move(4, rdi) move(5, r8) move(6, r9) \
	move(7, r10) move(8, r11) move(9, rbp) move(10, r13) move(11, r14) move(12, r15)
#define MOVE_VECTORS(move) move(0) move(1) move(2) move(3) move(4) move(5) move(6) move(7) move(8) move(9) move(10) \
	move(11) move(12) move(13) move(14) move(15)
#define LOAD(nr, name) "movq 8*" #nr "(%rbx), %" #name "\n"
#define STORE(nr, name) "movq %" #name ", 8*" #nr "(%rbx)\n"
#define LOAD_VECTOR(nr) "movups 8*13+16*" #nr "(%rbx), %xmm" #nr "\n"
#define STORE_VECTOR(nr) "movups %xmm" #nr ", 8*13+16*" #nr "(%rbx)\n"

__asm__(".text\n.globl call_with_registers\n.type call_with_registers, @function\ncall_with_registers:\n"
	"push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\nsub $8, %rsp\nmov %rdi, %rbx\nmov %rsi, %r12\n"
	MOVE_VECTORS(LOAD_VECTOR) MOVE_GENERAL(LOAD) "call *%r12\n" MOVE_GENERAL(STORE) MOVE_VECTORS(STORE_VECTOR)
	"add $8, %rsp\npop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n"
	".size call_with_registers, . - call_with_registers\n");

static struct function {
	const char *name;
	const void *code;
	uint64_t changes; /* registers, before anything is done to the program */
} functions[] = {
	{ "malloc", malloc }, { "calloc", calloc }, { "realloc", realloc }, { "posix_memalign", posix_memalign },
	{ "operator new", operator_new }, { "free", free },
};

static uint64_t changed_registers(const struct registers *before, const struct registers *after)
{
	uint64_t changed = 0;

	for (int i = 0; i < GENERAL_NR; i++)
		changed |= (uint64_t)(before->general[i] != after->general[i]) << i;
	for (int i = 0; i < VECTOR_NR; i++)
		changed |= (uint64_t)!!memcmp(before->vector[i], after->vector[i], 16) << (GENERAL_NR + i);
	return changed;
}

/* Returns rax. */
static uint64_t call_and_look(struct function *function, uint64_t a, uint64_t b, uint64_t c, int is_reference)
{
	static uint64_t mark = UINT64_C(0x9e3779b97f4a7c15);
	struct registers before, after;
	uint64_t changed;

	for (size_t i = 0; i < sizeof(before) / 8; i++)
		((uint64_t *)&before)[i] = mark *= 5;
	before.general[RDI] = a;
	before.general[RSI] = b;
	before.general[RDX] = c;
	after = before;
	call_with_registers(&after, function->code);
	changed = changed_registers(&before, &after);
	if (is_reference)
		function->changes |= changed;
	else
		expect(!(changed & ~function->changes), "a register is changed by a call", function->name);
	return after.general[RAX];
}

static void check_registers(int is_reference)
{
	void *block = (void *)call_and_look(&functions[0], 24, 1, 2, is_reference), *aligned = NULL;

	block = (void *)call_and_look(&functions[2], (uint64_t)block, 200, 3, is_reference);
	call_and_look(&functions[5], (uint64_t)block, 4, 5, is_reference);
	block = (void *)call_and_look(&functions[1], 3, 50, 6, is_reference);
	call_and_look(&functions[5], (uint64_t)block, 7, 8, is_reference);
	expect(!(int)call_and_look(&functions[3], (uint64_t)&aligned, 32, 100, is_reference) && aligned, "no block", "posix_memalign");
	call_and_look(&functions[5], (uint64_t)aligned, 9, 10, is_reference);
	block = (void *)call_and_look(&functions[4], 100, 11, 12, is_reference);
	expect(block != NULL, "no block", "operator new");
	call_and_look(&functions[5], (uint64_t)block, 13, 14, is_reference);
}

/* False: stdin has ended. */
static int answer(void)
{
	struct pollfd in = { 0, POLLIN, 0 };
	char byte;

	if (poll(&in, 1, 0) <= 0)
		return 1;
	if (read(0, &byte, 1) != 1)
		return 0;
	dprintf(1, "rounds %ld bad %ld\n", rounds, bad);
	return 1;
}

int main(void)
{
	pool_fill();
	for (int i = 0; i < 1000; i++)
		check_registers(1);
	do {
		for (int i = 0; i < 1000; i++) {
			check_registers(0);
			check_values(rounds * 1000 + i);
		}
		rounds++;
	} while (answer());
	return bad != 0;
}
