// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A program without a C library: it has no malloc. */
void _start(void);

void _start(void)
{
	for (;;)
		__asm__ volatile("syscall" : : "a"(34 /* pause */) : "rcx", "r11", "memory");
}
