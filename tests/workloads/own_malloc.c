// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* own_malloc MICROSECONDS: a program with its own allocator; 1000 blocks, a line, then it sleeps. */
#include <stdlib.h>
#include <unistd.h>

static _Alignas(16) char heap[1 << 20];
static size_t used;

__attribute__((noinline)) void *malloc(size_t size)
{
	char *block = heap + used;

	used += (size + 15) / 16 * 16;
	return used < sizeof(heap) ? block : NULL;
}

__attribute__((noinline)) void free(void *block)
{
	__asm__ volatile("" ::"r"(block) : "memory");
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < 1000; i++) {
		void *volatile block = malloc(100 + i % 10);

		(void)block;
	}
	if (argc != 2 || write(STDOUT_FILENO, "\n", 1) != 1)
		return 1;
	usleep(atoi(argv[1]));
	return 0;
}
