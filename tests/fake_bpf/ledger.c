// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ledger.h"
#include <bpf/bpf_helpers.h>
#include <string.h>

struct ledger_room ledger_room;

static __u32 variant_frames(__u32 variant, __u64 frame[])
{
	__u32 nr = 1 + variant % 5;

	for (__u32 i = 0; i < nr; i++)
		frame[i] = 0x400000 + variant * 0x1000 + i;
	return nr;
}

void ledger_stack_use(__u32 variant)
{
	fake.frame_nr = variant_frames(variant, fake.frame);
}

void ledger_count(struct ledger *ledger, enum counter counter, __u64 n)
{
	if (ledger->admitted)
		ledger->counter[counter] += n;
}

void ledger_lose(struct ledger *ledger, enum loss loss)
{
	if (ledger->admitted)
		ledger->loss[loss]++;
}

static void raise(__u64 *peak, __u64 current)
{
	*peak = current > *peak ? current : *peak;
}

static void entered(struct ledger *ledger, const struct ledger_block *block)
{
	__u64 *counter = ledger->counter;
	__u64 size = block->size;

	counter[COUNTER_allocations]++;
	counter[COUNTER_allocated_bytes] += size;
	counter[COUNTER_current_blocks]++;
	counter[COUNTER_current_bytes] += size;
	raise(&counter[COUNTER_peak_bytes], counter[COUNTER_current_bytes]);
	raise(&counter[COUNTER_peak_blocks], counter[COUNTER_current_blocks]);
	ledger->churn[block->stack_variant].allocations++;
	ledger->churn[block->stack_variant].allocated_bytes += size;
}

static void removed(struct ledger *ledger, __u64 size)
{
	__u64 *counter = ledger->counter;

	counter[COUNTER_frees]++;
	counter[COUNTER_freed_bytes] += size;
	counter[COUNTER_current_blocks]--;
	counter[COUNTER_current_bytes] -= size;
}

static void count_dropped(struct ledger *ledger, int blocks, __u64 size)
{
	ledger->counter[COUNTER_dropped_blocks] += blocks;
	ledger->counter[COUNTER_dropped_bytes] += blocks * size;
}

static void dropped_freed(struct ledger *ledger, __u64 size)
{
	count_dropped(ledger, -1, size);
	ledger->counter[COUNTER_dropped_frees]++;
}

/* The block is counted as live already, by drop() or by an earlier note that was taken away: undone without room. */
static void note(struct ledger *ledger, unsigned int slot, __u64 size)
{
	if (ledger_room.noted == ledger_room.note_capacity) {
		ledger->loss[LOSS_drops_unnoted]++;
		count_dropped(ledger, -1, size);
		return;
	}
	ledger->block[slot] = (struct ledger_block){ .dropped = true, .size = size };
	ledger_room.noted++;
}

static void drop(struct ledger *ledger, unsigned int slot, __u64 size)
{
	ledger->loss[LOSS_blocks_dropped]++;
	count_dropped(ledger, 1, size);
	note(ledger, slot, size);
}

/* The address is allocated again although its dropped block was not freed. */
static void replace_dropped(struct ledger *ledger, unsigned int slot)
{
	struct ledger_block *at = &ledger->block[slot];

	if (!at->dropped)
		return;
	ledger->loss[LOSS_blocks_replaced]++;
	dropped_freed(ledger, at->size);
	at->dropped = false;
	ledger_room.noted--;
}

void ledger_enter(struct ledger *ledger, unsigned int slot, const struct ledger_block *block)
{
	struct ledger_block *at = &ledger->block[slot];

	if (!ledger->admitted)
		return;
	replace_dropped(ledger, slot);
	if (at->live) {
		ledger->loss[LOSS_blocks_replaced]++;
		removed(ledger, at->size);
		at->live = false;
		ledger_room.used--;
	}
	if (ledger_room.used == ledger_room.capacity) {
		drop(ledger, slot, block->size);
		return;
	}
	*at = *block;
	at->live = true;
	ledger_room.used++;
	entered(ledger, block);
}

void ledger_free(struct ledger *ledger, unsigned int slot, __u64 newest_birth_ns)
{
	struct ledger_block old = ledger_take(ledger, slot);
	struct churn *churn = &ledger->churn[old.stack_variant];

	ledger_taken_gone(ledger, &old);
	if (!old.live || old.birth_ns != newest_birth_ns)
		return;
	ledger->counter[COUNTER_temporary_blocks]++;
	ledger->counter[COUNTER_temporary_bytes] += old.size;
	churn->temporary++;
	churn->temporary_bytes += old.size;
}

struct ledger_block ledger_take(struct ledger *ledger, unsigned int slot)
{
	struct ledger_block old = ledger->block[slot];

	ledger->block[slot].live = false;
	ledger->block[slot].dropped = false;
	ledger_room.used -= old.live;
	ledger_room.noted -= old.dropped;
	return old;
}

void ledger_taken_gone(struct ledger *ledger, const struct ledger_block *old)
{
	if (old->live)
		removed(ledger, old->size);
	else if (old->dropped)
		dropped_freed(ledger, old->size);
	else
		ledger_count(ledger, COUNTER_unknown_frees, 1);
}

static void dropped_taken_back(struct ledger *ledger, unsigned int slot, __u64 size)
{
	if (ledger->block[slot].live || ledger->block[slot].dropped)
		dropped_freed(ledger, size);
	else
		note(ledger, slot, size);
}

void ledger_taken_back(struct ledger *ledger, unsigned int slot, const struct ledger_block *old)
{
	if (old->dropped)
		dropped_taken_back(ledger, slot, old->size);
	if (!old->live)
		return;
	replace_dropped(ledger, slot);
	if (ledger_room.used == ledger_room.capacity) {
		drop(ledger, slot, old->size);
		removed(ledger, old->size);
		return;
	}
	ledger->block[slot] = *old;
	ledger_room.used++;
}

/* A block that was given the address meanwhile keeps it. */
void ledger_taken_cut_off(struct ledger *ledger, unsigned int slot, const struct ledger_block *old)
{
	if (old->live && (ledger->block[slot].live || ledger->block[slot].dropped))
		removed(ledger, old->size);
	else
		ledger_taken_back(ledger, slot, old);
}

/* The old blocks are cleared away by the loader, here at once. */
void ledger_exec(struct ledger *ledger)
{
	for (int i = 0; i < SLOTS; i++) {
		ledger_room.used -= ledger->block[i].live;
		ledger_room.noted -= ledger->block[i].dropped;
	}
	*ledger = (struct ledger){ .admitted = ledger->admitted };
}

/* ---- Comparing ---- */

static void block_compare(const struct ledger_block *want, const struct block *block,
			  unsigned int slot)
{
	const struct traceback *traceback = bpf_map_lookup_elem(
		&tracebacks, (typeof(tracebacks.key))&block->traceback);
	__u64 frame[FAKE_FRAMES];
	__u32 nr = variant_frames(want->stack_variant, frame);

	cr_assert(block->size == want->size && block->birth_ns == want->birth_ns &&
		  block->thread == want->thread && block->domain == want->domain,
		  "slot %u has another block", slot);
	cr_assert(traceback && traceback->nframe == nr, "slot %u has no such traceback", slot);
	for (__u32 i = 0; i < nr; i++)
		cr_assert(traceback->pc[i] == frame[i], "slot %u has another traceback", slot);
}

/* The variant is in the first frame; see variant_frames(). */
static void churn_compare(const struct ledger *ledger, __u64 image)
{
	struct churn found[STACK_VARIANTS] = {};
	struct fake_walk walk = {};

	while (fake_map_walk(&tracebacks, &walk)) {
		const struct traceback *traceback = walk.value;
		__u64 variant = (traceback->pc[0] - 0x400000) / 0x1000;

		if (traceback->image == image && variant < STACK_VARIANTS)
			found[variant] = traceback->churn;
	}
	for (int i = 0; i < STACK_VARIANTS; i++)
		cr_assert(!memcmp(&found[i], &ledger->churn[i], sizeof(found[i])),
			  "stack %d: allocations %llu, temporary %llu, not %llu, %llu", i,
			  found[i].allocations, found[i].temporary, ledger->churn[i].allocations,
			  ledger->churn[i].temporary);
}

__u32 ledger_compare(const struct ledger *ledger, struct target_process *target)
{
	const struct process *book = book_of(target);
	__u32 live_cnt = 0;

	cr_assert(!book == !ledger->admitted);
	if (!book)
		return 0;
	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		const struct block *block = block_of(target, slot_address(slot));

		cr_assert(!block == !ledger->block[slot].live, "slot %u is %s", slot,
			  block ? "live and should not be" : "not live and should be");
		if (block)
			block_compare(&ledger->block[slot], block, slot);
		live_cnt += ledger->block[slot].live;
	}
	churn_compare(ledger, book->image);
	for (int i = 0; i < COUNTER_entry_traps; i++) /* the ledger does not know the cost */
		cr_assert(book->counter[i] == ledger->counter[i], "counter %d is %llu, not %llu",
			  i, book->counter[i], ledger->counter[i]);
	for (int i = 0; i < LOSS_NR; i++)
		cr_assert(loss_of(target, i) == ledger->loss[i], "loss %d is %llu, not %llu", i,
			  book->loss[i], ledger->loss[i]);
	return live_cnt;
}
