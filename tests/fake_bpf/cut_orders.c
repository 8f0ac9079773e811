// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <bpf/bpf_helpers.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cut_orders.h"
#include "full.h"
#include "orders.h"

#define CHOICES_MAX 256

static bool choice[CHOICES_MAX];
static int choice_nr, choices_known;

static struct {
	unsigned long left; /* 0: all orders are run */
	unsigned long long random;
} drawn;

void all_orders_begin(void)
{
	choice_nr = choices_known = 0;
	drawn.left = 0;
}

static unsigned long drawn_nr(void)
{
	const char *nr = getenv("ORDERS");

	return nr ? strtoul(nr, NULL, 10) : (unsigned long)full_or(0, 1000);
}

bool orders_are_drawn(void)
{
	return drawn_nr();
}

void orders_begin(void)
{
	all_orders_begin();
	drawn.left = drawn_nr();
	drawn.random = 88172645463325252;
}

static bool draw(void)
{
	drawn.random ^= drawn.random << 13;
	drawn.random ^= drawn.random >> 7;
	drawn.random ^= drawn.random << 17;
	return drawn.random >> 63;
}

bool choose(void)
{
	if (drawn.left)
		return draw();
	cr_assert_lt(choice_nr, CHOICES_MAX);
	if (choice_nr == choices_known)
		choice[choices_known++] = false;
	return choice[choice_nr++];
}

bool next_order(void)
{
	if (drawn.left)
		return --drawn.left;
	while (choices_known && choice[choices_known - 1])
		choices_known--;
	if (choices_known)
		choice[choices_known - 1] = true;
	choice_nr = 0;
	return choices_known;
}

extern __u64 epoch, cut;
extern volatile struct settings settings; /* see bpf_alloc.c */
int pending_blocks(struct bpf_iter__task *ctx);

/* ---- live blocks, as the scripts know them ---- */

#define STATES_MAX 16

static __u64 state[STATES_MAX]; /* after each of the main thread's calls */
static int state_nr;

static struct {
	bool has_begun, is_over;
	int after;  /* the main thread's last state when it began */
	int before; /* and the last that may be of the same time, when it was over */
} intruded;

static unsigned int running; /* a bit for each thread that is in a program */
static const struct intrusion *intrusion;

void now_live(__u64 sizes)
{
	cr_assert_lt(state_nr, STATES_MAX);
	state[state_nr++] = sizes;
}

/* With the call that is being made. */
static int last_state(void)
{
	return running & (intrusion ? 1 : 3) ? state_nr : state_nr - 1;
}

/* ---- the loader ---- */

static const __u64 places[PLACES] = { 0x1000, 0x2000, 0x3000 };

static struct loader {
	int steps; /* done */
	__u64 last;
	int state_least, state_most; /* of the states that it may find */
	bool intrusion_least, intrusion_most;
	unsigned int older; /* programs that have to end before it goes on */
	__u64 found;
} loader;

struct target_thread *other_thread;

static void find(const struct block *block)
{
	cr_expect(block->size, "a block of nothing");
	if (block->epoch <= loader.last)
		loader.found |= block->size;
}

static void read_pending_of(struct target_thread *thread)
{
	struct bpf_iter_meta meta = {};
	struct bpf_iter__task ctx = { .meta = &meta, .task = &thread->task };

	fake.seq_bytes = 0;
	pending_blocks(&ctx);
	for (__u64 i = 0; i < fake.seq_bytes / sizeof(struct pending_block); i++)
		find(&((const struct pending_block *)fake.seq)[i].block);
}

static void read_pending(void)
{
	read_pending_of(main_thread);
	read_pending_of(other_thread);
}

static void take_handed(void)
{
	struct fake_walk walk = {};
	const struct handed_block *handed;
	struct handed_key key;

	while (fake_map_walk(&handed_blocks, &walk)) {
		handed = walk.value;
		key = *(const struct handed_key *)walk.key;
		if (handed->left > loader.last)
			find(&handed->block);
		bpf_map_delete_elem(&handed_blocks, &key);
		walk = (struct fake_walk){};
	}
}

static struct block_key key_at(__u64 address, enum layer in)
{
	return block_key_of(address, book_of(process)->image, in);
}

static void read_young(__u64 address)
{
	struct block_key key = key_at(address, LAYER_HEAP);
	const struct block *block = block_young(&key);

	if (block)
		find(block);
}

static void read_place(__u64 address)
{
	for (int in = LAYER_HEAP; in <= LAYER_MAPPING; in++) {
		struct block_key key = key_at(address, in);
		const struct block *block = block_mapped(&key);

		if (block)
			find(block);
	}
}

/* Whether the block's place in the nursery is busy: any other access to the place waits then. */
static bool is_busy(__u64 address)
{
	struct block_key key = key_at(address, LAYER_HEAP);
	__u32 slot = nursery_slot(&key, settings.nursery_mask);
	const struct nursery_place *place = settings.nursery_mask ?
						    bpf_map_lookup_elem(&nursery, &slot) : NULL;

	return place && NURSERY_IS(place->state) == NURSERY_BUSY;
}

static void set_cut(void)
{
	loader.state_least = state_nr - 1;
	loader.intrusion_least = intruded.is_over;
	cut = loader.last = epoch;
}

static void begin_epoch(void)
{
	loader.state_most = last_state();
	loader.intrusion_most = intruded.has_begun;
	loader.older = running;
	epoch++;
}

static void do_step(void)
{
	int step = loader.steps++;

	if (loader.steps == STEP_READ_YOUNG && !settings.nursery_mask)
		loader.steps = STEP_READ_PLACES;

	if (step == STEP_SET_CUT)
		set_cut();
	else if (step == STEP_NEXT_EPOCH)
		begin_epoch();
	else if (step >= STEP_READ_YOUNG && step < STEP_READ_PLACES)
		read_young(places[step - STEP_READ_YOUNG]);
	else if (step >= STEP_READ_PLACES && step < STEP_READ_PENDING)
		read_place(places[step - STEP_READ_PLACES]);
	else if (step == STEP_READ_PENDING)
		read_pending();
	else if (step == STEP_CUT_IS_OVER)
		cut = 0;
	else if (step == STEP_TAKE_HANDED)
		take_handed();
}

/* ---- all orders ---- */

static bool is_loader;

enum step left_out = STEPS;

static bool loader_may_go_on(void)
{
	if (loader.steps >= STEP_READ_YOUNG && loader.steps < STEP_READ_PLACES &&
	    is_busy(places[loader.steps - STEP_READ_YOUNG]))
		return false;
	return loader.steps < STEPS && !(loader.steps == STEP_WAIT && left_out != STEP_WAIT &&
					 loader.older & running);
}

static void run_loader(bool to_the_end)
{
	is_loader = true;
	while (loader_may_go_on() && (to_the_end || choose()))
		if (loader.steps == (int)left_out)
			loader.steps++;
		else
			do_step();
	is_loader = false;
}

static void intrude(void)
{
	struct fake_kernel before = fake;

	intruded.has_begun = true;
	intruded.after = state_nr - 1;
	thread_run(other_thread);
	intrusion->call();
	intruded.is_over = true;
	intruded.before = last_state();
	fake.current = before.current;
	fake.attach_cookie = before.attach_cookie;
	fake.func_ip = before.func_ip;
}

static bool any_busy(void)
{
	for (int i = 0; i < PLACES; i++)
		if (is_busy(places[i]))
			return true;
	return false;
}

/* A thread stands still: others may do what they can, unless they would wait for it. */
static void stand_still(void)
{
	run_loader(false);
	if (!any_busy() && intrusion && !intruded.has_begun && choose()) {
		intrude();
		run_loader(false);
	}
}

static void before_map(const void *map)
{
	if (!is_loader && (map == &blocks || map == &handed_blocks))
		stand_still();
}

/* Another thread would wait for the place that this one has; the loader looks. Alone: orders are many. */
static void at_barrier(void)
{
	if (!is_loader && !intrusion && settings.nursery_mask)
		run_loader(false);
}

void note_program(bool begins)
{
	unsigned int bit = fake.current == &main_thread->task ? 1 : 2;

	if (begins)
		stand_still();
	running = begins ? running | bit : running & ~bit;
}

static __u64 live_at(int i, bool is_intruded)
{
	if (!intrusion || !is_intruded)
		return state[i];
	return (state[i] & ~intrusion->removes) | intrusion->adds;
}

/* Whether the one has happened when the other has. */
static bool is_order(int i, bool is_intruded)
{
	return is_intruded ? i >= intruded.after : !intruded.is_over || i <= intruded.before;
}

static bool was_an_instant(void)
{
	for (int i = loader.state_least; i <= loader.state_most && i < state_nr; i++)
		for (int j = loader.intrusion_least; j <= loader.intrusion_most; j++)
			if (is_order(i, j) && live_at(i, j) == loader.found)
				return true;
	return false;
}

/* Takes a later snapshot while nothing runs: it has all live blocks, and nothing left over from the first. */
static bool is_found_again(void)
{
	loader = (struct loader){ 0 };
	run_loader(true);
	return loader.found == live_at(state_nr - 1, intruded.is_over);
}

__u64 mapping_size;
__u32 cut_nursery;

static bool finds_instants(void (*script)(void))
{
	bool is_right;

	state_nr = 0;
	loader = (struct loader){ 0 };
	memset(&intruded, 0, sizeof(intruded));
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	if (mapping_size)
		user_mmap(mapping_size, 0x1000);
	now_live(1 | 2 | mapping_size);
	fake.before_map = before_map;
	fake.at_barrier = at_barrier;
	at_program = note_program;
	script();
	stand_still();
	run_loader(true);
	is_right = was_an_instant() && is_found_again();
	fake.before_map = NULL;
	fake.at_barrier = NULL;
	at_program = NULL;
	for (int i = 0; i < PLACES; i++)
		if (block_at(places[i]))
			user_free(places[i]);
	user_munmap(0x1000, 0x8000);
	return is_right;
}

static void prepare_orders(const struct intrusion *by)
{
	nursery_use(cut_nursery);
	fake_map_resize(&handed_blocks, 1 << 20);
	other_thread = thread_start(process, 101);
	intrusion = by;
}

bool finds_wrong_order(void (*script)(void))
{
	bool is_right;

	prepare_orders(NULL);
	all_orders_begin();
	do
		is_right = finds_instants(script);
	while (is_right && next_order());
	return !is_right;
}

void run_all_orders(void (*script)(void), const struct intrusion *by, unsigned int least)
{
	unsigned int orders = 0, wrong = 0;

	prepare_orders(by);
	orders_begin();
	do {
		wrong += !finds_instants(script);
		orders++;
	} while (next_order());
	cr_expect(orders >= least || orders_are_drawn(), "%u orders", orders);
	cr_expect(wrong == 0, "in %u orders it never was so", wrong);
}
