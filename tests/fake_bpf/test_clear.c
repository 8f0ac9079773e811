// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <bpf/bpf_helpers.h>
#include <errno.h>
#include <string.h>

#include "orders.h"
#include "target.h"

/* tracemalloc.clear_traces() and reset_peak(), which the loader asks for in between. */

int reset_peak(struct process_request *request);

static void clear(void)
{
	clear_begin(process);
	cr_assert_eq(clear_end(process), 0);
}

ACCOUNT_TEST(clear, starts_a_new_accounting)
{
	__u64 image = book_of(process)->image;

	user_malloc(8, 0x1000);
	user_malloc(0, 0);
	clear();

	cr_expect(book_of(process)->image != image);
	expect_same(book_of(process)->clear_cnt, 1, "clear_cnt");
	expect_same(book_of(process)->exec_cnt, 0, "exec_cnt");
	for (int i = 0; i < COUNTER_entry_traps; i++)
		expect_same(book_of(process)->counter[i], 0, "a counter");
}

ACCOUNT_TEST(clear, makes_earlier_blocks_unknown)
{
	user_malloc(8, 0x1000);
	clear();
	expect_gone(0x1000);
	user_free(0x1000);
	user_malloc(16, 0x1000);

	expect(unknown_frees, 1);
	expect(frees, 0);
	expect_live(0x1000, 16);
}

/* The call counts after the clear; its old block does not. */
ACCOUNT_TEST(clear, during_a_realloc_that_succeeds_counts_an_unknown_free)
{
	user_malloc(8, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 16);
	clear();
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);

	expect_live(0x2000, 16);
	expect(frees, 0);
	expect(unknown_frees, 1);
}

ACCOUNT_TEST(clear, during_a_realloc_that_fails_does_not_restore_the_old_block)
{
	user_malloc(8, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 16);
	clear();
	leave(SHAPE_REALLOC, sp_at(1), 0);

	expect_gone(0x1000);
	expect(current_blocks, 0);
}

ACCOUNT_TEST(clear, during_a_realloc_of_a_killed_thread_does_not_restore_the_old_block)
{
	struct target_thread *thread = thread_start(process, 101);

	user_malloc(8, 0x1000);
	thread_run(thread);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 16);
	clear();
	thread_exit(thread, 0);

	expect_gone(0x1000);
	expect(current_blocks, 0);
	expect_loss(calls_unreturned, 1);
}

ACCOUNT_TEST(clear, of_the_peak_sets_it_to_the_live_bytes_and_blocks)
{
	struct process_request request = { .slot = book_of(process)->slot };

	user_malloc(100, 0x1000);
	user_malloc(50, 0x2000);
	user_free(0x1000);
	cr_assert_eq(reset_peak(&request), 0);
	expect(peak_bytes, 50);
	expect(peak_blocks, 1);
	user_malloc(20, 0x1000);

	expect(peak_bytes, 70);
	expect(peak_blocks, 2);
}

ACCOUNT_TEST(clear, of_an_exited_process_is_refused)
{
	struct process_request request = { .slot = book_of(process)->slot };

	thread_exit(main_thread, 0);

	cr_expect_eq(clear_end(process), -ESRCH);
	cr_expect_eq(reset_peak(&request), -ESRCH);
}

/*
 * clear_traces is one instant (bpf/account/thread.bpf.h), in every order in which the loader's steps can fall
 * between a program's accesses to maps: a script runs again and again, once for each order. Another thread's call
 * may interrupt while the process gets its new image.
 *
 * Each block has a size that is a bit of its own. At first there are a block of 1 at 0x1000 and one of 2 at 0x2000.
 */

extern volatile struct settings settings; /* see bpf_alloc.c */
int reset_peak(struct process_request *request);

/* ---- the loader ---- */

enum step {
	STEP_MARK,
	STEP_WAIT,
	STEP_CLEAR,
	STEP_TAKE_MARK,
	STEPS,
};

static enum step left_out = STEPS; /* by a loader that is wrong */
static int steps;		   /* done */
static struct process *book;
static bool is_loader;
static void (*intrusion)(void); /* another thread's call, once; NULL: none */
static bool has_intruded;

static int program_nr, older; /* programs that have begun; the one that ran when the accounting was marked */
static bool is_running;

static void do_step(void)
{
	if (steps == STEP_MARK && left_out != STEP_MARK) {
		older = is_running ? program_nr : 0;
		book->is_open |= ACCOUNT_CLEARING;
	} else if (steps == STEP_CLEAR) {
		book->is_open |= ACCOUNT_CLEARING;
		cr_assert_eq(process_clear_traces(&(struct process_request){ .slot = book->slot }), 0);
	} else if (steps == STEP_TAKE_MARK) {
		book->is_open &= ACCOUNT_OPEN;
	}
	steps++;
}

static bool may_go_on(void)
{
	bool has_to_wait = is_running && program_nr == older && left_out != STEP_WAIT;

	return steps < STEPS && !(steps == STEP_WAIT && has_to_wait);
}

static void run_loader(bool to_the_end)
{
	is_loader = true;
	while (may_go_on() && (to_the_end || choose()))
		do_step();
	is_loader = false;
}

/* ---- the programs ---- */

static void intrude(void)
{
	struct fake_kernel before = fake;

	has_intruded = true;
	intrusion();
	fake.current = before.current;
	fake.attach_cookie = before.attach_cookie;
	fake.func_ip = before.func_ip;
}

/* Another thread would wait for the one that stands still. */
static bool is_any_busy(void)
{
	for (__u32 nr = 0; settings.nursery_mask && nr <= settings.nursery_mask; nr++) {
		const struct nursery_place *place = bpf_map_lookup_elem(&nursery, &nr);

		if (NURSERY_IS(place->state) == NURSERY_BUSY)
			return true;
	}
	return false;
}

/* The thread that runs stands still; so does the loader, in its program. */
static void stand_still(void)
{
	if (!is_loader)
		run_loader(false);
	else if (intrusion && !has_intruded && !is_any_busy() && choose())
		intrude();
}

/* Each run must make the same stops, so lookups of a thread's accounting are none: they happen only now and then. */
static void before_map(const void *map)
{
	if (map == &blocks || map == &dropped_blocks)
		stand_still();
}

/* So is what the recording costs. */
static void before_add(const void *to)
{
	const __u64 *counter = book->counter;

	if ((const __u64 *)to < counter + COUNTER_entry_traps || (const __u64 *)to >= counter + COUNTER_NR)
		stand_still();
}

static void note_program(bool begins)
{
	if (begins) {
		stand_still();
		program_nr++;
	}
	is_running = begins;
}

/* ---- the accounting at the end ---- */

static __u64 must, never; /* sizes of blocks */
static bool is_full;	  /* the map of blocks: blocks may be dropped */

static void begun(__u64 size, int since)
{
	must |= since == STEPS && !is_full ? size : 0;
	never |= steps <= STEP_MARK ? size : 0;
}

static void ended(__u64 size)
{
	must &= ~size;
	never |= size;
}

static void make(__u64 size, __u64 address)
{
	int since = steps;

	user_malloc(size, address);
	begun(size, since);
}

static void drop(__u64 size, __u64 address)
{
	user_free(address);
	ended(size);
}

static bool blocks_are_right(void)
{
	struct block_walk walk = {};
	__u64 found = 0;

	while (block_walk(&walk))
		if (block_key_image(&walk.key) == book->image)
			found |= walk.block->size;
	return (found & must) == must && !(found & never);
}

/* ---- all orders ---- */

static void forget_all(void)
{
	struct block_walk walk = {};
	struct fake_walk note = {};
	struct block_key key;

	while (block_walk(&walk)) {
		key = walk.key;
		block_forget(&key);
		walk = (struct block_walk){};
	}
	while (fake_map_walk(&dropped_blocks, &note)) {
		key = *(const struct block_key *)note.key;
		note_forget(&key);
		note = (struct fake_walk){};
	}
	user_munmap(0x1000, 0x20000);
	memset(book->counter, 0, sizeof(book->counter));
	memset(book->loss, 0, sizeof(book->loss));
}

static bool comes_out_right(void (*script)(void))
{
	bool is_right;

	steps = program_nr = older = must = 0;
	has_intruded = false;
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	never = 1 | 2;
	fake.before_map = before_map;
	fake.at_barrier = stand_still;
	fake.before_add = before_add;
	at_program = note_program;
	script();
	run_loader(true);
	fake.before_map = NULL;
	fake.at_barrier = NULL;
	fake.before_add = NULL;
	at_program = NULL;
	thread_run(main_thread);
	make(1 << 20, 0x9000);
	is_right = account_add_up(book) && blocks_are_right();
	forget_all();
	return is_right;
}

static unsigned int count_wrong_orders(void (*script)(void), unsigned int least)
{
	unsigned int orders = 0, wrong = 0;

	book = book_of(process);
	orders_begin();
	do {
		wrong += !comes_out_right(script);
		orders++;
	} while (next_order());
	cr_expect(orders >= least, "%u orders", orders);
	return wrong;
}

static void run_all_orders(void (*script)(void))
{
	unsigned int wrong;

	for (__u32 places = 0; places <= 2; places += 2) {
		nursery_use(places);
		wrong = count_wrong_orders(script, 100);
		cr_expect(wrong == 0, "%u orders came out wrong, with %u young places", wrong, places);
	}
}

static void a_malloc(void)
{
	make(4, 0x3000);
}

static void malloc_and_free(void)
{
	make(4, 0x3000);
	drop(4, 0x3000);
}

ACCOUNT_TEST(clear_orders, a_block_is_allocated_and_freed)
{
	run_all_orders(malloc_and_free);
}

static void free_of_before(void)
{
	drop(1, 0x1000);
	make(4, 0x1000);
}

ACCOUNT_TEST(clear_orders, an_address_is_allocated_again)
{
	run_all_orders(free_of_before);
}

static void realloc_to(__u64 size, __u64 returned)
{
	int since = steps;

	user_realloc(0x1000, size, returned);
	begun(size, since);
}

static void realloc_that_moves(void)
{
	realloc_to(4, 0x3000);
	drop(4, 0x3000);
}

ACCOUNT_TEST(clear_orders, a_realloc_moves_its_block)
{
	run_all_orders(realloc_that_moves);
}

static void realloc_that_fails(void)
{
	user_realloc(0x1000, 4, 0);
	make(8, 0x3000);
}

ACCOUNT_TEST(clear_orders, a_realloc_fails)
{
	run_all_orders(realloc_that_fails);
}

static void realloc_that_is_left(void)
{
	enter(SHAPE_REALLOC, sp_at(3), 0x1000, 4);
	make(8, 0x3000); /* above it: that one was left by a longjmp */
}

ACCOUNT_TEST(clear_orders, a_realloc_never_returns)
{
	run_all_orders(realloc_that_is_left);
}

static struct target_thread *other_thread;

static void realloc_that_is_killed(void)
{
	process->signal.live.counter++; /* it is the same thread each time */
	thread_run(other_thread);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 4);
	note_program(true);
	thread_exit(other_thread, 9);
	note_program(false);
	thread_run(main_thread);
}

ACCOUNT_TEST(clear_orders, a_thread_is_killed_during_realloc)
{
	other_thread = thread_start(process, 101);
	run_all_orders(realloc_that_is_killed);
	process->signal.live.counter++;
}

static void pages(void)
{
	user_mmap(0x4000, 0x3000);
	user_munmap(0x4000, 0x1000);
	user_mmap(0x4000, 0x3000);
}

ACCOUNT_TEST(clear_orders, mappings_are_unmapped_in_parts)
{
	run_all_orders(pages);
}

/* Where something was recorded that has gone unseen. */
static void moved_pages(void)
{
	user_mmap(0x4000, 0x3000);
	user_mmap(0x1000, 0x20000);
	user_mremap(0x20000, 0x1000, 0x2000, 0x3000);
	user_munmap(0x20000, 0x1000);
}

ACCOUNT_TEST(clear_orders, a_mapping_moves_onto_another_mapping)
{
	run_all_orders(moved_pages);
}

/* The map has room for the two first blocks only. */
static void run_without_room(void (*script)(void))
{
	is_full = true;
	fake_map_resize(&blocks, 2);
	fake_map_resize(&dropped_blocks, 16);
	nursery_use(0);
	cr_expect_eq(count_wrong_orders(script, 100), 0);
}

ACCOUNT_TEST(clear_orders, blocks_are_dropped_because_the_map_is_full)
{
	run_without_room(malloc_and_free);
}

static void dropped_in_a_realloc(void)
{
	make(4, 0x3000);
	enter(SHAPE_REALLOC, sp_at(3), 0x3000, 8);
	make(16, 0x4000);
}

ACCOUNT_TEST(clear_orders, a_dropped_block_is_in_a_realloc_that_never_returns)
{
	run_without_room(dropped_in_a_realloc);
}

static void realloc_without_memory(void)
{
	thread_run(other_thread);
	fake.out_of_memory = true;
	user_realloc(0x1000, 4, 0x3000);
	fake.out_of_memory = false;
	thread_run(main_thread);
}

ACCOUNT_TEST(clear_orders, a_thread_without_state_calls_realloc)
{
	other_thread = thread_start(process, 101);
	nursery_use(0);
	cr_expect_eq(count_wrong_orders(realloc_without_memory, 20), 0);
}

static void other_call(void)
{
	thread_run(other_thread);
	is_running = false;
	make(16, 0x4000);
	drop(2, 0x2000);
}

ACCOUNT_TEST(clear_orders, another_thread_allocates_during_the_clear)
{
	other_thread = thread_start(process, 101);
	intrusion = other_call;
	run_all_orders(a_malloc);
}

static void raise_what_is_live(void)
{
	thread_run(other_thread);
	user_malloc(64, 0x4000);
}

/* The loader stands still in its program, and another thread's call comes in. */
static void reset_once(void)
{
	struct fake_kernel before = fake;

	has_intruded = false;
	book->counter[COUNTER_peak_bytes] = book->counter[COUNTER_peak_blocks] = 1000;
	is_loader = true;
	fake.before_add = before_add;
	fake.at_barrier = stand_still;
	cr_assert_eq(reset_peak(&(struct process_request){ .slot = book->slot }), 0);
	fake.before_add = NULL;
	fake.at_barrier = NULL;
	is_loader = false;
	fake.current = before.current;
}

static bool peak_is_right(void)
{
	const __u64 *counter = book->counter;

	return counter[COUNTER_peak_bytes] == counter[COUNTER_current_bytes] &&
	       counter[COUNTER_peak_blocks] == counter[COUNTER_current_blocks];
}

ACCOUNT_TEST(clear_orders, the_peak_is_reset_while_another_thread_allocates)
{
	unsigned int intrusions = 0;

	nursery_use(0);
	other_thread = thread_start(process, 101);
	intrusion = raise_what_is_live;
	book = book_of(process);
	user_malloc(8, 0x1000);
	orders_begin();
	do {
		reset_once();
		cr_expect(peak_is_right(), "%llu bytes are live, the peak is %llu",
			  book->counter[COUNTER_current_bytes], book->counter[COUNTER_peak_bytes]);
		intrusions += has_intruded;
		if (has_intruded)
			user_free(0x4000);
	} while (next_order());
	cr_expect(intrusions >= 2, "%u intrusions", intrusions);
}

/* Without this step of the loader some orders must go wrong. */
static void expect_needed(enum step step)
{
	bool is_right;

	left_out = step;
	nursery_use(0);
	book = book_of(process);
	all_orders_begin();
	do
		is_right = comes_out_right(free_of_before);
	while (is_right && next_order());
	cr_expect(!is_right, "step %d is not needed", step);
}

ACCOUNT_TEST(clear_orders, are_wrong_without_the_mark)
{
	expect_needed(STEP_MARK);
}

ACCOUNT_TEST(clear_orders, are_wrong_when_the_loader_does_not_wait)
{
	expect_needed(STEP_WAIT);
}
