/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LEDGER_H
#define LEDGER_H

/*
 * The simplest possible accounting: an array of all addresses. The test writes each operation of a program here as it
 * is meant, and compares the result with the probes' account.
 */
#include "target.h"

#define SLOTS 200
#define SLOT_BYTES 64
#define STACK_VARIANTS 16

struct ledger_block {
	bool live;
	bool dropped; /* not recorded, but noted: only the size counts */
	__u64 size, birth_ns;
	__u32 thread, domain, stack_variant;
};

struct ledger {
	bool admitted; /* else nothing is ever written */
	struct ledger_block block[SLOTS];
	struct churn churn[STACK_VARIANTS];
	__u64 counter[COUNTER_NR];
	__u64 loss[LOSS_NR];
};

/* Entries of all ledgers in the block map, and its capacity; the same for the notes of dropped blocks. */
struct ledger_room {
	__u32 used, capacity;
	__u32 noted, note_capacity;
};
extern struct ledger_room ledger_room;

static inline __u64 slot_address(unsigned int slot)
{
	return 0x10000 + slot * SLOT_BYTES;
}

void ledger_stack_use(__u32 variant); /* the next stack */

void ledger_count(struct ledger *ledger, enum counter counter, __u64 n);
void ledger_lose(struct ledger *ledger, enum loss loss);

void ledger_enter(struct ledger *ledger, unsigned int slot, const struct ledger_block *block);
/* newest_birth_ns: of the block that the thread entered last. */
void ledger_free(struct ledger *ledger, unsigned int slot, __u64 newest_birth_ns);

/* realloc: the old block leaves the map; later it also leaves the totals, or comes back to the map. */
struct ledger_block ledger_take(struct ledger *ledger, unsigned int slot);
void ledger_taken_gone(struct ledger *ledger, const struct ledger_block *old);
void ledger_taken_back(struct ledger *ledger, unsigned int slot, const struct ledger_block *old);

void ledger_taken_cut_off(struct ledger *ledger, unsigned int slot, const struct ledger_block *old);

void ledger_exec(struct ledger *ledger);

/* One assertion for each difference. Returns the number of live blocks. */
__u32 ledger_compare(const struct ledger *ledger, struct target_process *target);

#endif
