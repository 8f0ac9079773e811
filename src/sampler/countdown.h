/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SAMPLER_COUNTDOWN_H
#define ALLOCSNAP_SAMPLER_COUNTDOWN_H

/*
 * The bytes to a thread's next sample, and what becomes of a sample. No locks, no system calls, no C library. Each
 * sampler has one copy: the preloaded library, and the file that is put into a process that runs.
 */

#include <stdbool.h>
#include <stdint.h>
#include "sampler/poisson.h"
#include "sampler/sampled_set.h"
#include "sampler/sampler_info.h"

/*
 * The probes otel_memory:alloc(address, size, weight) and otel_memory:free(address), with a semaphore each. The kernel
 * raises a semaphore while a program listens to its probe.
 *
 * A probe is a nop, on x86-64 of one byte. The kernel (6.18) turns a nop of five bytes into a call to a page that forked
 * children do not have: they would die at their first sample. The compiler writes the registers into the note.
 */

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
	__asm__ volatile(PROBE("alloc", "8@%0 8@%1 8@%2") : : "r"(address), "r"(size), "r"(weight) : "memory");
}

PROBE_FUNCTION fire_free(uint64_t address)
{
	__asm__ volatile(PROBE("free", "8@%0") : : "r"(address) : "memory");
}

#define EXPORT __attribute__((visibility("default")))
#define SLOW static __attribute__((noinline))
#define unlikely(x) __builtin_expect(!!(x), 0)

EXPORT struct sampler_info allocsnap_sampler = {
	.magic = SAMPLER_INFO_MAGIC,
	.version = SAMPLER_INFO_VERSION,
	.bytes = sizeof(struct sampler_info),
	.interval = SAMPLER_INTERVAL_DEFAULT,
	.interval_most = SAMPLER_INTERVAL_DEFAULT,
	.interval_chosen = SAMPLER_INTERVAL_DEFAULT,
};

/*
 * A thread has one. The distance that it counts down was drawn with `interval`; 0: it has none yet. Below 0: the thread is
 * in a call that may make others, and counts nothing. Then left is 0, and the interval is -outer_place().
 */
struct countdown {
	uint64_t left;
	int64_t interval;
};

static uint64_t countdown_seed = POISSON_GOLDEN;
#define NEVER (UINT64_MAX / 2)
#define COUNTDOWN_PLACE_SHIFT 4

static uint64_t next_random(void)
{
	return poisson_mix(__atomic_add_fetch(&countdown_seed, POISSON_GOLDEN, __ATOMIC_RELAXED));
}

static void draw_countdown(struct countdown *countdown)
{
	uint64_t interval = __atomic_load_n(&allocsnap_sampler.interval, __ATOMIC_RELAXED);

	if (interval - 1 >= SAMPLER_INTERVAL_MAX)
		interval = SAMPLER_INTERVAL_DEFAULT;
	countdown->interval = interval;
	countdown->left = allocsnap_sampler.flags & SAMPLER_BYPASSED ? NEVER : poisson_distance(next_random(), interval);
}

/* A recorder that was killed could not do it. */
static void restore_interval(void)
{
	uint64_t chosen = allocsnap_sampler.interval_chosen;

	if (__atomic_load_n(&allocsnap_sampler.interval, __ATOMIC_RELAXED) != chosen &&
	    __atomic_exchange_n(&allocsnap_sampler.interval, chosen, __ATOMIC_RELAXED) != chosen)
		__atomic_fetch_add(&allocsnap_sampler.interval_changes, 1, __ATOMIC_RELAXED);
}

/* Room for a number behind the place of a call on the stack. */
static inline int64_t outer_place(uintptr_t place)
{
	return (int64_t)place << COUNTDOWN_PLACE_SHIFT;
}

/* Before a call that may make others; the caller puts what it returns back behind the call. */
static inline struct countdown stop_counting(struct countdown *countdown, uintptr_t place)
{
	struct countdown before = *countdown;

	*countdown = (struct countdown){ .interval = -outer_place(place) };
	return before;
}

/*
 * Whether the thread is in a call that counts for all that it makes. Nothing reports the end of that call if a signal
 * handler jumps out of it. Then later calls that are not below its place on the stack show it. Those that are below it
 * cannot be told apart from calls in it, but each moves the place down by a sixteenth of a byte: so the thread counts
 * again after some thousand calls at most, and a call may make 500 others. A handler on another stack may count, too.
 */
static bool is_in_outer_call(struct countdown *countdown, uintptr_t place)
{
	if (countdown->interval >= 0)
		return false;
	countdown->left = 0;
	if (outer_place(place) < -countdown->interval) {
		countdown->interval++;
		return true;
	}
	countdown->interval = 0;
	return false;
}

/*
 * The count would fall below 0 by a call for n bytes. Returns the interval of the distance that ends there, or 0: it is no
 * sample.
 */
SLOW uint64_t end_distance(struct countdown *countdown, uint64_t n, uintptr_t place)
{
	uint64_t interval;

	if (is_in_outer_call(countdown, place))
		return 0;
	interval = countdown->interval;
	if (!interval) {
		draw_countdown(countdown);
		if (n <= countdown->left) {
			countdown->left -= n;
			return 0;
		}
		interval = countdown->interval;
	}
	if (!otel_memory_alloc_semaphore)
		restore_interval();
	draw_countdown(countdown);
	return otel_memory_alloc_semaphore && !(allocsnap_sampler.flags & SAMPLER_BYPASSED) ? interval : 0;
}

/* Whether n bytes are counted and no slow path is needed. */
static inline bool count_down(struct countdown *countdown, uint64_t n)
{
	uint64_t left;

	if (unlikely(__builtin_sub_overflow(countdown->left, n, &left)))
		return false;
	countdown->left = left;
	return true;
}

/* Counts n bytes of a call at this place on the stack. Returns the interval if the block is a sample, or 0. */
static inline uint64_t count_to_sample(struct countdown *countdown, uint64_t n, uintptr_t place)
{
	return count_down(countdown, n) ? 0 : end_distance(countdown, n, place);
}

static void enter_sample(uintptr_t address, struct sampled_block block)
{
	bool has_room = set_enter(address, block);

	__atomic_fetch_add(has_room ? &allocsnap_sampler.samples : &allocsnap_sampler.dropped, 1, __ATOMIC_RELAXED);
	if (has_room)
		fire_alloc(address, block.size, block.weight);
}

/* Before the block is freed. Its weight is 0 if it is no sample. */
static struct sampled_block leave_sample(uintptr_t address)
{
	struct sampled_block block = {};

	if (set_remove(address, &block) && otel_memory_free_semaphore)
		fire_free(address);
	return block;
}

#endif
