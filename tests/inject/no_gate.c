// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Has malloc and free, but no C library, and makes no system call in a way that allocsnap knows. Maps the file "large" of
 * its folder as code, again and again; then it writes a line and waits.
 */
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define MAPPINGS 20
#define LARGE (64l << 20)

static char heap[1 << 16];
static volatile unsigned long freed;

void _start(void);
void *malloc(size_t bytes);
void free(void *block);

static long call(long number, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = 0;
	long result;

	__asm__ volatile("syscall; nop" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

__attribute__((noinline)) void *malloc(size_t bytes)
{
	static unsigned long at;

	at = at + bytes > sizeof(heap) ? 0 : at + bytes;
	return heap + at;
}

__attribute__((noinline)) void free(void *block)
{
	freed += (unsigned long)block & 1;
	freed++;
}

void _start(void)
{
	int fd = call(SYS_open, (long)"large", O_RDONLY, 0, 0, 0);

	for (long i = 0; i < MAPPINGS; i++)
		call(SYS_mmap, 0x100000000 + i * 2 * LARGE, LARGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd);
	free(malloc(1));
	call(SYS_write, 1, (long)"ready\n", 6, 0, 0);
	for (;;)
		call(SYS_pause, 0, 0, 0, 0, 0);
}
