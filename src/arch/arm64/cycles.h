/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCH_CYCLES_H
#define ALLOCSNAP_ARCH_CYCLES_H

#include <stdint.h>

/* The CPU's own counter of time, in units of its own: of two looks at it the difference counts. */
static inline uint64_t cycles_now(void)
{
	uint64_t now;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(now) : : "memory");
	return now;
}

#endif
