// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pointerless none|unmapped|other|good|shared: a program without a C library, whose allocator is its own. Its thread pointer is
 * 0; an address that is not mapped; an address that does not hold itself; as in other programs; or the same for two threads.
 * It answers lines like storm.c.
 */
#include <asm/prctl.h>
#include <asm/unistd.h>
#include <linux/sched.h>

typedef unsigned long word;

static struct slot {
	struct slot *next;
	char room[248];
} heap[64], *slots;

static char second_stack[1 << 14];
static word used, rounds, bad, own_pointer;
static volatile int is_taken;

/* With the two places of code by which an injector makes a call, and comes back from it: on a page of their own, or
 * on the allocator's page. */
#ifdef NEAR
#define PAGE ""
#else
#define PAGE ".balign 4096\n"
#endif
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call begin\n"
	PAGE "gate: syscall\n ret\nrestorer: mov $15, %eax\n syscall\n" PAGE);

static long call(long number, word a, word b, word c, word d, word e)
{
	register word r10 __asm__("r10") = d, r8 __asm__("r8") = e;
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return result;
}

/* ---- the allocator: a list of slots ---- */

static void lock(void)
{
	while (__atomic_exchange_n(&is_taken, 1, __ATOMIC_ACQUIRE))
		;
}

static void unlock(void)
{
	__atomic_store_n(&is_taken, 0, __ATOMIC_RELEASE);
}

__attribute__((noinline)) void free(void *block)
{
	struct slot *slot = block;

	if (!block)
		return;
	lock();
	slot->next = slots;
	slots = slot;
	unlock();
}

__attribute__((noinline)) void *malloc(word)
{
	struct slot *slot;

	lock();
	slot = slots ?: &heap[used++];
	slots = slots ? slots->next : 0;
	unlock();
	return slot;
}

__attribute__((noinline)) void *calloc(word nr, word size)
{
	char *block = malloc(nr * size);

	for (word i = 0; i < nr * size; i++)
		((volatile char *)block)[i] = 0;
	return block;
}

__attribute__((noinline)) void *realloc(void *block, word size)
{
	free(block);
	return malloc(size);
}

/* ---- rounds ---- */

/* No word on the stack is left that was a return address: a sampler could not go. */
static __attribute__((noinline)) void wipe_stack(void)
{
	volatile word below[256];

	for (int i = 0; i < 256; i++)
		below[i] = bad;
	bad = below[0];
}

static __attribute__((noinline)) void use_blocks(void)
{
	for (word i = 1; i < 3000; i++) {
		volatile unsigned char *block = malloc(i & 255);

		block[0] = i;
		bad += block[0] != (unsigned char)i;
		free((void *)block);
	}
	free(realloc(calloc(3, 5), 7));
}

static void allocate(void)
{
	use_blocks();
	wipe_stack();
	__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
}

static char *put_number(char *at, word number)
{
	if (number > 9)
		at = put_number(at, number / 10);
	*at = '0' + number % 10;
	return at + 1;
}

static char *put_text(char *at, const char *text)
{
	while (*text)
		*at++ = *text++;
	return at;
}

/* False: stdin has ended. */
static int answer(void)
{
	struct { int fd; short wanted, found; } in = { 0, 1, 0 };
	char line[100], *at = line;

	if (call(__NR_poll, (word)&in, 1, 0, 0, 0) != 1)
		return 1;
	do
		if (call(__NR_read, 0, (word)at, 1, 0, 0) != 1)
			return 0;
	while (*at++ != '\n');
	at = put_number(put_text(put_number(put_text(line, "rounds "), rounds), " bad "), bad);
	*at++ = '\n';
	return call(__NR_write, 1, (word)line, at - line, 0, 0) > 0;
}

static void set_thread_pointer(word value)
{
	call(__NR_arch_prctl, ARCH_SET_FS, value, 0, 0, 0);
}

__attribute__((noreturn)) void second_thread(void)
{
	for (;;)
		allocate();
}

static void start_second_thread(void)
{
	word flags = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_FS | CLONE_FILES, result;
	word *stack = (word *)(second_stack + sizeof(second_stack)) - 1;

	*stack = (word)second_thread;
	__asm__ volatile("syscall\n test %%eax, %%eax\n jnz 1f\n ret\n1:" : "=a"(result)
			 : "a"(__NR_clone), "D"(flags), "S"(stack), "d"(0) : "rcx", "r11", "memory");
}

__attribute__((noreturn)) void begin(word *stack)
{
	const char *how = stack[0] > 1 ? (const char *)stack[2] : "none";

	if (how[0] == 'u')
		set_thread_pointer(0x10000);
	if (how[0] == 'o')
		set_thread_pointer((word)second_stack);
	if (how[0] == 'g' || how[0] == 's') {
		own_pointer = (word)&own_pointer;
		set_thread_pointer(own_pointer);
	}
	if (how[0] == 's')
		start_second_thread();
	do
		allocate();
	while (answer());
	call(__NR_exit_group, bad != 0, 0, 0, 0, 0);
	for (;;)
		;
}
