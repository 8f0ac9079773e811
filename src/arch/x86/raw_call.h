/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCH_RAW_CALL_H
#define ALLOCSNAP_ARCH_RAW_CALL_H

/*
 * A system call without the C library, for code that runs in other programs. Returns the result, or a negative errno.
 * src/arch has this header once for each machine; -I chooses it.
 */

static inline long raw_call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

#endif
