// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The slow paths of the sampler that is put into a process that runs (collect/inject). The common cases are in
 * injected_hooks.S.
 *
 * It is called from the entries of the allocator's functions, in any thread and any signal handler. It has no
 * relocations, calls no library, makes no system calls, uses no floating point, takes no locks and allocates nothing.
 *
 * While a function that may call others of the allocator, or of another one, runs in here, its thread counts nothing:
 * the call that the program made is the one that counts.
 */
#include "sampler/countdown.h"
#include "sampler/injected.h"
#include "shared/call_types.h"

/* The room for the hooks' registers (injected_hooks.S), INJECTED_PLACE below where the stack pointer was. */
struct saved_arguments {
	uint64_t argument[6];
};

/* How the hook goes on: returns `result`; or, if target is not 0, jumps there, with the arguments as they were. */
struct slow_end {
	uint64_t result, target;
};

struct slow_end injected_slow(const struct saved_arguments *saved, const struct injected_site *site);

struct injected_slot {
	uint64_t owner; /* the thread's thread pointer */
	struct countdown countdown;
	uint64_t depth; /* calls of the allocator that return to this file; those that a handler has jumped out of count on */
};

_Static_assert(sizeof(struct injected_slot) == INJECTED_SLOT_BYTES, "the hooks count on it");
_Static_assert(INJECTED_PLACE_SHIFT == COUNTDOWN_PLACE_SHIFT, "the hooks count on it");

/* For the hooks. */
extern __attribute__((alias("filter"), visibility("hidden"))) uint8_t injected_filter[FILTER_PLACES];

/* The search looks at four places, so three are behind the last one of the hash. */
__attribute__((visibility("hidden"), aligned(64))) struct injected_slot injected_slots[INJECTED_SLOTS + 3];

/* ---- a thread's countdown ---- */

static uint64_t thread_pointer(void)
{
	uint64_t pointer;

	__asm__("movq %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

/*
 * A slot has one thread: a thread that loses the processor between its sample and its next distance would hide what
 * others allocate meanwhile. If four other threads have the places, most likely one has ended. If none has, two threads
 * share the slot from time to time: distances have no memory, so each may be drawn anew.
 */
static struct injected_slot *find_own_slot(void)
{
	uint64_t self = thread_pointer(), none;
	uint64_t hash = self * (uint64_t)(int32_t)INJECTED_SLOT_HASH >> 32;
	struct injected_slot *slot = &injected_slots[hash % INJECTED_SLOTS];

	for (int i = 0; i < 4; i++)
		if (slot[i].owner == self)
			return &slot[i];
	for (int i = 0; i < 4; i++) {
		none = 0;
		if (!slot[i].owner && __atomic_compare_exchange_n(&slot[i].owner, &none, self, false, __ATOMIC_SEQ_CST,
								  __ATOMIC_RELAXED))
			return &slot[i];
	}
	slot += self >> 12 & 3;
	slot->countdown = (struct countdown){};
	slot->owner = self;
	return slot;
}

/* A count below 0: the hook has subtracted n. Returns as count_to_sample(). */
static uint64_t count_slowly(struct countdown *countdown, uint64_t n, const struct saved_arguments *saved)
{
	if ((int64_t)countdown->left < 0)
		return end_distance(countdown, n, (uintptr_t)saved);
	return count_to_sample(countdown, n, (uintptr_t)saved);
}

/* After it has counted: whether the thread is in another call of the allocator, or of another one. */
static bool is_nested(const struct injected_slot *slot)
{
	return slot->countdown.interval < 0;
}

/* ---- calls of the allocator's own functions ---- */

/* Calls the function itself. */
static uint64_t call_through(uint64_t trampoline, const struct saved_arguments *saved, struct injected_slot *slot)
{
	uint64_t (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) = (void *)trampoline;
	const uint64_t *a = saved->argument;
	struct countdown before = stop_counting(&slot->countdown, (uintptr_t)saved);
	uint64_t result;

	__atomic_add_fetch(&slot->depth, 1, __ATOMIC_SEQ_CST); /* threads may share a slot; an ejector counts on it */
	result = function(a[0], a[1], a[2], a[3], a[4], a[5]);
	slot->countdown = before;
	__atomic_sub_fetch(&slot->depth, 1, __ATOMIC_SEQ_CST);
	return result;
}

static struct slow_end jump_to(uint64_t trampoline)
{
	return (struct slow_end){ .target = trampoline };
}

static void enter_block(uint64_t address, uint64_t n, uint64_t interval)
{
	if (interval && address)
		enter_sample(address, (struct sampled_block){ n, poisson_weight(n, interval) });
}

/* ---- the shapes ---- */

/*
 * A function that throws is called by a jump only, as the exception would not pass a frame of ours. A sample's block
 * comes from the variant that returns NULL instead; if it does, the function itself may say so. So does each block of an
 * allocator that may call another one.
 */
static struct slow_end injected_throwing(const struct saved_arguments *saved, const struct injected_site *site, uint64_t n,
				     uint64_t interval, struct injected_slot *slot)
{
	struct saved_arguments plain = *saved;
	uint64_t block;

	if (!interval && !(site->flags & INJECTED_ABOVE))
		return jump_to(site->trampoline);
	plain.argument[site->nothrow_argument] = (uint64_t)saved; /* an object without content */
	block = call_through(site->plain, &plain, slot);
	if (!block)
		return jump_to(site->trampoline);
	enter_block(block, n, interval);
	return (struct slow_end){ .result = block };
}

static struct slow_end injected_alloc(const struct saved_arguments *saved, const struct injected_site *site, uint64_t n)
{
	struct injected_slot *slot = find_own_slot();
	uint64_t interval = count_slowly(&slot->countdown, n, saved), result;

	if (is_nested(slot))
		return jump_to(site->trampoline);
	if (site->flags & INJECTED_THROWS)
		return injected_throwing(saved, site, n, interval, slot);
	result = call_through(site->trampoline, saved, slot);
	if (site->shape != SHAPE_POSIX_MEMALIGN)
		enter_block(result, n, interval);
	else if (!(uint32_t)result)
		enter_block(*(const uint64_t *)saved->argument[0], n, interval);
	return (struct slow_end){ .result = result };
}

/*
 * A free of the old block and an allocation of the new one. The old address may be given out again before the call
 * returns, so the sampler reports its free before. If the call fails the old block is entered again.
 */
static struct slow_end injected_realloc(const struct saved_arguments *saved, const struct injected_site *site, uint64_t old,
				    uint64_t n)
{
	struct injected_slot *slot = find_own_slot();
	struct sampled_block was = {};
	uint64_t interval, block;

	if (filter_may_have(old))
		was = leave_sample(old);
	interval = count_slowly(&slot->countdown, n, saved);
	if (is_nested(slot) && !was.weight)
		return jump_to(site->trampoline);
	block = call_through(site->trampoline, saved, slot);
	enter_block(block, n, interval);
	if (!block && n && was.weight && site->shape != SHAPE_REALLOCF)
		enter_sample(old, was);
	return (struct slow_end){ .result = block };
}

static struct slow_end injected_free(const struct injected_site *site, uint64_t block)
{
	if (filter_may_have(block))
		leave_sample(block);
	return jump_to(site->trampoline);
}

struct slow_end injected_slow(const struct saved_arguments *saved, const struct injected_site *site)
{
	const uint64_t *a = saved->argument + (site->flags & INJECTED_OF_HEAP);
	uint64_t n;

	switch (site->shape) {
	case SHAPE_FREE:
		return injected_free(site, a[0]);
	case SHAPE_MALLOC:
		return injected_alloc(saved, site, a[0]);
	case SHAPE_CALLOC:
		if (!__builtin_mul_overflow(a[0], a[1], &n))
			return injected_alloc(saved, site, n);
		break; /* the call fails */
	case SHAPE_MEMALIGN:
		return injected_alloc(saved, site, a[1]);
	case SHAPE_POSIX_MEMALIGN:
		return injected_alloc(saved, site, a[2]);
	case SHAPE_REALLOC:
	case SHAPE_REALLOCF:
		return injected_realloc(saved, site, a[0], a[1]);
	case SHAPE_REALLOCARRAY:
		if (!__builtin_mul_overflow(a[1], a[2], &n))
			return injected_realloc(saved, site, a[0], n);
		break;
	}
	return jump_to(site->trampoline);
}
