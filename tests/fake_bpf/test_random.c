// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Random programs with fixed seeds, compared with the ledger. Each process has an allocator of its own: it hands out
 * the addresses of SLOTS slots, the same in each process, and takes them back at a random moment between entry and
 * return.
 */
#include "ledger.h"
#include <bpf/bpf_helpers.h>

#define PROCESS_NR 4 /* the last one is not admitted */
#define THREAD_NR 4
#define STEPS 100000
#define CHECK_EVERY 1000
#define NO_SLOT SLOTS
#define MOST_BLOCKS 300 /* that there ever are at least, of all programs */
#define DEPTH_MAX 100

struct actor { /* a thread */
	struct target_thread *thread;
	__u64 result; /* of posix_memalign */
	__u64 newest_birth_ns; /* of the block it entered last */

	bool in_call;
	enum call_shape shape;
	unsigned int depth;
	unsigned int old_slot; /* realloc's; NO_SLOT for NULL */
	struct ledger_block old;
	struct ledger_block made; /* the result if the call succeeds */
	bool must_fail;

	bool done; /* the allocator has decided, and has taken and given its addresses */
	unsigned int new_slot; /* NO_SLOT: the call fails */
};

struct program { /* a process */
	struct target_process *target;
	struct ledger ledger;
	bool handed_out[SLOTS]; /* the allocator's view */
	bool in_realloc[SLOTS]; /* no other thread may free it */
	struct actor actor[THREAD_NR];
};

static struct program program[PROCESS_NR];
static __u64 random_state;

static __u32 below(__u32 n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 20) % n;
}

static bool percent(__u32 n)
{
	return below(100) < n;
}

static __u64 address_or_null(unsigned int slot)
{
	return slot == NO_SLOT ? 0 : slot_address(slot);
}

/* A slot that is handed out, and not in a realloc; or NO_SLOT after some tries. */
static unsigned int used_slot(const struct program *p)
{
	for (int i = 0; i < 10; i++) {
		unsigned int slot = below(SLOTS);

		if (p->handed_out[slot] && !p->in_realloc[slot])
			return slot;
	}
	return NO_SLOT;
}

static unsigned int unused_slot(const struct program *p)
{
	for (int i = 0; i < 10; i++) {
		unsigned int slot = below(SLOTS);

		if (!p->handed_out[slot])
			return slot;
	}
	return NO_SLOT;
}

static bool reallocates(const struct actor *a)
{
	return a->shape == SHAPE_REALLOC || a->shape == SHAPE_REALLOCARRAY;
}

/* ---- A call: it begins, the allocator does its work, it returns or never does ---- */

static void arguments_choose(struct program *p, struct actor *a, __u64 argument[6])
{
	__u64 n = below(5), size = below(1000);

	a->old_slot = reallocates(a) && percent(80) ? used_slot(p) : NO_SLOT;
	a->must_fail = false;
	if (a->shape == SHAPE_CALLOC || a->shape == SHAPE_REALLOCARRAY) {
		a->must_fail = percent(5);
		if (a->must_fail)
			n = size = 1ULL << 33;
		a->made.size = a->must_fail ? ~0ULL : n * size;
	} else {
		a->made.size = size = percent(10) ? 0 : size;
	}
	switch (a->shape) {
	case SHAPE_CALLOC:
		argument[0] = n, argument[1] = size;
		break;
	case SHAPE_REALLOC:
		argument[0] = address_or_null(a->old_slot), argument[1] = size;
		break;
	case SHAPE_REALLOCARRAY:
		argument[0] = address_or_null(a->old_slot), argument[1] = n, argument[2] = size;
		break;
	case SHAPE_MEMALIGN:
		argument[0] = 64, argument[1] = size;
		break;
	case SHAPE_POSIX_MEMALIGN:
		argument[0] = (__u64)&a->result, argument[1] = 64, argument[2] = size;
		break;
	default:
		argument[0] = size;
	}
}

static void call_starts(struct program *p, struct actor *a, unsigned int depth)
{
	__u64 argument[6] = {};

	a->shape = below(SHAPE_FREE);
	a->depth = depth;
	arguments_choose(p, a, argument);
	a->in_call = true;
	a->done = false;
	a->made.thread = a->thread->task.pid;
	a->made.domain = domain = below(3);
	a->made.stack_variant = (a->made.stack_variant + 1 + below(STACK_VARIANTS - 1)) % STACK_VARIANTS;
	ledger_stack_use(a->made.stack_variant);
	call_enter(a->shape, sp_at(depth), argument);
	a->old.live = false;
	if (a->old_slot != NO_SLOT) {
		p->in_realloc[a->old_slot] = true;
		a->old = ledger_take(&p->ledger, a->old_slot);
	}
}

/* From here on another thread may get the old address. */
static void call_does(struct program *p, struct actor *a)
{
	bool frees_only = reallocates(a) && !a->made.size && percent(50);

	if (a->done)
		return;
	a->done = true;
	a->new_slot = NO_SLOT;
	if (!frees_only && !a->must_fail && percent(95))
		a->new_slot = a->old_slot != NO_SLOT && percent(30) ? a->old_slot : unused_slot(p);
	if (a->old_slot != NO_SLOT && (a->new_slot != NO_SLOT || !a->made.size)) {
		p->handed_out[a->old_slot] = false;
		p->in_realloc[a->old_slot] = false;
	}
	if (a->new_slot != NO_SLOT)
		p->handed_out[a->new_slot] = true;
}

/* A failed realloc leaves the old block to the program. */
static void call_ends(struct program *p, struct actor *a)
{
	a->in_call = false;
	if (a->old_slot != NO_SLOT && a->new_slot == NO_SLOT && a->made.size)
		p->in_realloc[a->old_slot] = false;
}

static void call_returns(struct program *p, struct actor *a)
{
	__u64 returned;

	call_does(p, a);
	returned = address_or_null(a->new_slot);
	a->result = returned ? returned : slot_address(below(SLOTS)); /* garbage after an error */
	if (a->shape == SHAPE_POSIX_MEMALIGN)
		returned = (__u64)below(1000) << 32 | (a->new_slot == NO_SLOT ? ENOMEM : 0);
	a->made.birth_ns = fake.now_ns;
	ledger_stack_use(a->made.stack_variant);
	leave(a->shape, sp_at(a->depth), returned);
	call_ends(p, a);

	if (a->old_slot != NO_SLOT && a->new_slot == NO_SLOT && a->made.size)
		ledger_taken_back(&p->ledger, a->old_slot, &a->old);
	else if (a->old_slot != NO_SLOT)
		ledger_taken_gone(&p->ledger, &a->old);
	if (a->new_slot != NO_SLOT) {
		ledger_enter(&p->ledger, a->new_slot, &a->made);
		a->newest_birth_ns = p->ledger.block[a->new_slot].live ? a->made.birth_ns : 0;
	} else {
		ledger_count(&p->ledger, COUNTER_failed_calls, 1);
	}
}

/* Its block, if it made one, is handed out and unknown. */
static void call_is_lost(struct program *p, struct actor *a)
{
	call_does(p, a);
	call_ends(p, a);
	ledger_lose(&p->ledger, LOSS_calls_unreturned);
	if (a->old_slot != NO_SLOT)
		ledger_taken_gone(&p->ledger, &a->old);
}

static void call_is_cut_off(struct program *p, struct actor *a)
{
	call_does(p, a);
	call_ends(p, a);
	ledger_lose(&p->ledger, LOSS_calls_unreturned);
	if (a->old_slot != NO_SLOT)
		ledger_taken_cut_off(&p->ledger, a->old_slot, &a->old);
}

static void call_nests(struct program *p, struct actor *a)
{
	static const enum call_shape shape[] = { SHAPE_MALLOC, SHAPE_REALLOC, SHAPE_FREE };
	enum call_shape inner = shape[below(3)];
	__u64 sp = sp_at(a->depth + 1 + below(10));

	if (inner != a->shape && percent(20)) {
		sp = sp_at(a->depth);
		domain = below(3);
		if (inner != SHAPE_FREE)
			a->made.domain = domain;
		jump(inner, sp, slot_address(below(SLOTS)), 8);
	} else {
		enter(inner, sp, slot_address(below(SLOTS)), 8);
	}
	if (inner != SHAPE_FREE && !(sp == sp_at(a->depth) && returns_are_probed()))
		leave(inner, sp, slot_address(below(SLOTS)));
	else if (sp == sp_at(a->depth) && !returns_are_probed())
		*(__u64 *)sp = TRAMPOLINE;
	ledger_count(&p->ledger, COUNTER_nested_calls, 1);
}

/* ---- What threads do ---- */

static void frees(struct program *p, const struct actor *a)
{
	unsigned int slot = used_slot(p);

	enter(SHAPE_FREE, sp_at(1 + below(DEPTH_MAX)), address_or_null(slot));
	if (slot == NO_SLOT)
		return;
	ledger_free(&p->ledger, slot, a->newest_birth_ns);
	p->handed_out[slot] = false;
}

static void thread_ends(struct program *p, struct actor *a)
{
	if (a->in_call)
		call_is_cut_off(p, a);
	thread_exit(a->thread, 0);
	a->newest_birth_ns = 0;
	a->thread->task.pid += 1000; /* and another one starts */
	a->thread->process->signal.live.counter++;
}

static void stale_blocks_clear(const struct program *p, __u64 image)
{
	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		struct block_key key = block_key_of(slot_address(slot), image, LAYER_HEAP);

		if (p->ledger.admitted)
			block_forget(&key);
	}
}

static void stale_notes_clear(__u64 image)
{
	struct fake_walk walk = {};

	while (fake_map_walk(&dropped_blocks, &walk)) {
		struct block_key key = *(const struct block_key *)walk.key;

		if (block_key_image(&key) != image)
			continue;
		note_forget(&key);
		walk = (struct fake_walk){};
	}
}

/* The other threads end first, as in the kernel. */
static void execs(struct program *p, struct actor *a)
{
	const struct process *book = book_of(p->target);
	__u64 image = book ? book->image : 0;

	for (int i = 0; i < THREAD_NR; i++)
		if (&p->actor[i] != a)
			thread_ends(p, &p->actor[i]);
	thread_exec(a->thread);
	a->in_call = false;
	ledger_exec(&p->ledger);
	stale_blocks_clear(p, image);
	stale_notes_clear(image);
	memset(p->handed_out, 0, sizeof(p->handed_out));
	memset(p->in_realloc, 0, sizeof(p->in_realloc));
}

static void step_in_call(struct program *p, struct actor *a)
{
	__u32 dice = below(1000);
	unsigned int depth = a->depth;

	if (dice < 200) {
		call_nests(p, a);
	} else if (dice < 400) {
		call_does(p, a);
	} else if (dice < 970) {
		call_returns(p, a);
	} else {
		call_is_lost(p, a);
		call_starts(p, a, 1 + below(depth));
	}
}

static void step_outside(struct program *p, struct actor *a)
{
	__u32 dice = below(1000);
	unsigned int slot;

	if (dice < 650) {
		call_starts(p, a, 1 + below(DEPTH_MAX));
	} else if (dice < 960) {
		frees(p, a);
	} else {
		slot = used_slot(p); /* freed without our seeing it */
		if (slot != NO_SLOT)
			p->handed_out[slot] = false;
	}
}

static void step(void)
{
	struct program *p = &program[below(PROCESS_NR)];
	struct actor *a = &p->actor[below(THREAD_NR)];
	__u32 dice = below(10000);

	thread_run(a->thread);
	if (dice < 2)
		execs(p, a);
	else if (dice < 20)
		thread_ends(p, a);
	else if (a->in_call)
		step_in_call(p, a);
	else
		step_outside(p, a);
}

static void programs_start(void)
{
	for (int i = 0; i < PROCESS_NR; i++) {
		struct program *p = &program[i];

		p->target = i ? process_start(200 + i) : process;
		p->ledger.admitted = i < PROCESS_NR - 1;
		if (i && p->ledger.admitted)
			process_admit(p->target);
		for (int j = 0; j < THREAD_NR; j++)
			p->actor[j].thread = !i && !j ? main_thread :
					     thread_start(p->target, p->target->pid + j);
	}
}

static void compare_all(void)
{
	__u32 live_cnt = 0;

	if (chosen_blocks.sample_bytes || chosen_blocks.has_budget) { /* the totals are random */
		account_check();
		return;
	}
	for (int i = 0; i < PROCESS_NR; i++)
		live_cnt += ledger_compare(&program[i].ledger, program[i].target);
	cr_assert(live_cnt == block_cnt());
	cr_assert(live_cnt == ledger_room.used);
	cr_assert(fake_map_count(&dropped_blocks) == ledger_room.noted);
	account_check();
}

static bool any_lost(enum loss loss)
{
	for (int i = 0; i < PROCESS_NR; i++)
		if (program[i].ledger.loss[loss])
			return true;
	return false;
}

static void run_at_random(__u64 seed, __u32 capacity, __u32 note_capacity)
{
	random_state = seed * 0x9e3779b97f4a7c15ULL;
	ledger_room.capacity = capacity;
	ledger_room.note_capacity = note_capacity;
	fake_map_resize(&blocks, capacity);
	if (capacity < MOST_BLOCKS)
		nursery_use(0);
	fake_map_resize(&dropped_blocks, note_capacity);
	fake_map_resize(&tracebacks, 100000);
	programs_start();
	for (int i = 0; i < STEPS; i++) {
		if (chosen_blocks.has_budget && i % 16 == 0)
			rate_is(program[i / 16 % (PROCESS_NR - 1)].target, below(SAMPLE_RATES));
		step();
		if (i % CHECK_EVERY == 0)
			compare_all();
	}
	compare_all();
	cr_expect(any_lost(LOSS_blocks_dropped) == (capacity < MOST_BLOCKS));
	cr_expect(any_lost(LOSS_drops_unnoted) == (capacity + note_capacity < MOST_BLOCKS));
}

ACCOUNT_TEST(random, program_1_matches_the_model)
{
	run_at_random(1, 10000, 10000);
}

ACCOUNT_TEST(random, program_2_matches_the_model)
{
	run_at_random(2, 10000, 10000);
}

ACCOUNT_TEST(random, program_3_matches_the_model)
{
	run_at_random(3, 10000, 10000);
}

static void sample_at_random(__u64 seed, __u32 capacity)
{
	choose_blocks((struct choice){ .sample_bytes = 700, .min_size = 3, .max_size = 900 });
	fake.random = seed;
	all_losses_are_expected = true;
	run_at_random(seed, capacity, 10000);
}

ACCOUNT_TEST(random, sampled_program_matches_the_model)
{
	sample_at_random(6, 10000);
}

ACCOUNT_TEST(random, sampled_program_with_a_full_map_matches_the_model)
{
	sample_at_random(7, 60);
}

ACCOUNT_TEST(random, program_sampled_by_changing_rates_matches_the_model)
{
	choose_rates((const __u64[SAMPLE_RATES]){ 0, 100, 700, 3000 });
	fake.random = 8;
	all_losses_are_expected = true;
	run_at_random(8, 10000, 10000);
}

ACCOUNT_TEST(random, program_with_a_full_block_map_matches_the_model)
{
	run_at_random(4, 100, 10000);
}

ACCOUNT_TEST(random, program_with_a_full_traceback_map_matches_the_model)
{
	run_at_random(5, 200, 50);
}
