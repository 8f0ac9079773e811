/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_OWN_SAMPLER_H
#define ALLOCSNAP_OWN_SAMPLER_H

/*
 * A sampler as programs may have one: own_malloc() and own_free() take samples of what goes through them, one in
 * own_interval bytes on average, and pass the probes otel_memory:alloc and otel_memory:free with each. It is written for
 * clarity: one lock, a table of the live samples, and no care for its cost. No libm, as static programs use it, too.
 */

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* ---- probes ---- */

/* On a nop of one byte, as sys/sdt.h makes it: the note has the place, the semaphore and the arguments. */
#ifndef OWN_PROVIDER
#define OWN_PROVIDER "otel_memory"
#endif
#define OWN_PROBE(name, arguments)                                                                                \
	"990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n"         \
	"991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte 0\n.8byte own_" name "_semaphore\n"    \
	".asciz \"" OWN_PROVIDER "\"\n.asciz \"" name "\"\n.asciz \"" arguments "\"\n994: .balign 4\n.popsection\n"

#define OWN_SEMAPHORE __attribute__((section(".probes"), visibility("hidden"), used))

OWN_SEMAPHORE volatile unsigned short own_alloc_semaphore = 0;
OWN_SEMAPHORE volatile unsigned short own_free_semaphore = 0;

/* The size is narrow, the weight in memory: every kind of place is used. */
static __attribute__((noinline)) void own_pass_alloc(void *block, uint32_t size, uint64_t weight)
{
	volatile uint64_t in_memory[2] = { 0, weight };

	__asm__ volatile(OWN_PROBE("alloc", "8@%%rdi 4@%%ebx 8@8(%%rsi)") ::"D"(block), "b"(size), "S"(in_memory)
			 : "memory");
}

static __attribute__((noinline)) void own_pass_free(void *block)
{
	register void *in_r12 __asm__("r12") = block;

#ifndef OWN_NO_FREES
	__asm__ volatile(OWN_PROBE("free", "8@%%r12") ::"r"(in_r12) : "memory");
#else
	(void)in_r12;
#endif
}

/* ---- mathematics ---- */

/* Natural logarithm of u in (0, 1]. */
static double own_log(double u)
{
	double t, t2, sum = 0;
	int halvings = 0;

	for (; u < 0.5; u *= 2)
		halvings++;
	t = (u - 1) / (u + 1);
	t2 = t * t;
	for (int i = 25; i > 0; i -= 2)
		sum = sum * t2 + 1.0 / i;
	return 2 * t * sum - halvings * 0.693147180559945309;
}

/* 1 - exp(-x) for x >= 0. */
static double own_chance(double x)
{
	double sum = 0, part = x / 1024;

	if (x > 700)
		return 1;
	for (int i = 8; i > 1; i--)
		sum = (1 - sum) * part / i;
	sum = part * (1 - sum); /* of x / 1024 */
	for (int i = 0; i < 10; i++)
		sum = sum * (2 - sum);
	return sum;
}

static uint64_t own_random(void)
{
	static __thread uint64_t state;
	uint64_t x = state ?: (uint64_t)pthread_self() ^ __builtin_ia32_rdtsc() << 20;

	x = state = x + 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* ---- samples ---- */

#define OWN_SAMPLES (1u << 16)

static volatile uint64_t own_interval = 16384;
static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;
static void *own_sample[OWN_SAMPLES]; /* live ones */

/* Samplers that are wrong: a factor of weights, one in so many frees that is not reported, or that is of another pointer. */
static double own_excess = 1;
static unsigned int own_unreported, own_misdirected;

static int own_is_one_in(unsigned int nr)
{
	static unsigned int count;

	return nr && __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) % nr == 0;
}

static unsigned int own_slot(const void *block)
{
	return ((uintptr_t)block * 0x9e3779b97f4a7c15) >> 48;
}

/* Puts `to` in place of `from`, near the block's slot. Whether there was such a place. */
static int own_exchange(const void *block, void *from, void *to)
{
	int found = 0;

	pthread_mutex_lock(&own_lock);
	for (unsigned int i = 0; i < 64 && !found; i++) {
		void **at = &own_sample[(own_slot(block) + i) % OWN_SAMPLES];

		found = *at == from;
		if (found)
			*at = to;
	}
	pthread_mutex_unlock(&own_lock);
	return found;
}

/* Whether a block has a sample, and how many bytes it stands for. A new interval begins with a new distance. */
static int own_is_drawn(uint64_t size, uint64_t *ret_weight)
{
	static __thread double left;
	static __thread uint64_t interval;
	int is_drawn = 0;

	if (interval != own_interval) {
		interval = own_interval;
		left = -own_log(((own_random() >> 12) + 0.5) / 0x1p52) * interval;
	}
	for (left -= size; left < 0; is_drawn = 1)
		left = -own_log(((own_random() >> 12) + 0.5) / 0x1p52) * interval;
	*ret_weight = size / own_chance((double)size / interval) + (own_random() >> 11) * 0x1p-53;
	return is_drawn;
}

static __attribute__((noinline)) void *own_malloc(size_t size)
{
	void *block = malloc(size);
	uint64_t weight;

	if (block && size && own_is_drawn(size, &weight) && own_alloc_semaphore && own_exchange(block, NULL, block))
		own_pass_alloc(block, size, (weight < size ? size : weight) * own_excess);
	return block;
}

static __attribute__((noinline)) void own_free(void *block)
{
	if (block && own_exchange(block, block, NULL) && own_free_semaphore && !own_is_one_in(own_unreported))
		own_pass_free((char *)block - (own_is_one_in(own_misdirected) ? 64 : 0));
	free(block);
}

#endif
