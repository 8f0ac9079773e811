/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef CUT_ORDERS_H
#define CUT_ORDERS_H

/*
 * A snapshot is one instant (bpf/account/nursery.bpf.h), in every order in which the loader's steps can fall between
 * the programs' accesses to maps: a script runs again and again, once for each order. A second thread's call may
 * interrupt the script anywhere, and is over before the first thread goes on.
 *
 * Each block has a size that is a bit of its own, so the set of live blocks is a number. At first the heap has a
 * block of 1 at 0x1000 and one of 2 at 0x2000. The loader looks at 0x1000, 0x2000 and 0x3000, first in the nursery,
 * and waits while a place of it is busy.
 */
#include "target.h"

#define PLACES 3

enum step {
	STEP_SET_CUT,
	STEP_NEXT_EPOCH,
	STEP_WAIT,
	STEP_READ_YOUNG,
	STEP_READ_PLACES = STEP_READ_YOUNG + PLACES,
	STEP_READ_PENDING = STEP_READ_PLACES + PLACES,
	STEP_CUT_IS_OVER,
	STEP_TAKE_HANDED,
	STEPS,
};

extern enum step left_out; /* by a loader that is wrong */
extern __u64 mapping_size; /* size of a mapping that exists from the beginning, at 0x1000; 0: none */
extern __u32 cut_nursery; /* places of the nursery; 0: it is not used, which makes for fewer orders */
extern struct target_thread *other_thread;

/* The other thread's one call. */
struct intrusion {
	void (*call)(void);
	__u64 adds, removes;
};

/* The script calls this after each of its calls: the sum of the sizes that are live now. */
void now_live(__u64 sizes);

/* Called before and after code that runs like a program, but not at a probe. */
void note_program(bool begins);

/* Whether one of the orders is wrong. */
bool finds_wrong_order(void (*script)(void));

/* No order may be wrong. Too few orders mean that no thread was ever stopped: the test fails. */
void run_all_orders(void (*script)(void), const struct intrusion *by, unsigned int least);

#endif
