/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SAMPLER_PROBES_H
#define ALLOCSNAP_SAMPLER_PROBES_H

/*
 * The probes otel_memory:alloc(address, size, weight) and otel_memory:free(address), with a semaphore each. The kernel
 * raises a semaphore while a program listens to its probe.
 *
 * A probe is a nop of one byte. The kernel (6.18) turns a nop of five bytes into a call to a page that forked children
 * do not have: they would die at their first sample.
 */

#include <stdint.h>

#define PROBE_SEMAPHORE __attribute__((section(".probes"), visibility("hidden"), used))

volatile uint16_t otel_memory_alloc_semaphore PROBE_SEMAPHORE;
volatile uint16_t otel_memory_free_semaphore PROBE_SEMAPHORE;

/* The nop and its note: name, sizes and registers of the arguments. */
#define PROBE(name, arguments)                                                                                      \
	"990: nop\n"                                                                                                \
	".pushsection .note.stapsdt, \"\", \"note\"\n"                                                              \
	".balign 4\n.4byte 992f - 991f, 994f - 993f, 3\n"                                                           \
	"991: .asciz \"stapsdt\"\n992: .balign 4\n"                                                                 \
	"993: .8byte 990b, _.stapsdt.base, otel_memory_" name "_semaphore\n"                                        \
	".asciz \"otel_memory\", \"" name "\", \"" arguments "\"\n994: .balign 4\n.popsection\n"                    \
	".ifndef _.stapsdt.base\n.pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"         \
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"                                  \
	".size _.stapsdt.base, 1\n.popsection\n.endif\n"

#define PROBE_FUNCTION static __attribute__((noinline, noclone, unused)) void

PROBE_FUNCTION fire_alloc(uint64_t address, uint64_t size, uint64_t weight)
{
	__asm__ volatile(PROBE("alloc", "8@%%rdi 8@%%rsi 8@%%rdx") : : "D"(address), "S"(size), "d"(weight) : "memory");
}

PROBE_FUNCTION fire_free(uint64_t address)
{
	__asm__ volatile(PROBE("free", "8@%%rdi") : : "D"(address) : "memory");
}

#endif
