// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Sums over all processes, ended ones included; and processes of which nothing is known. */
#include <criterion/criterion.h>

#include "collect/target/accounting.h"
#include "collect/process/objects.h"
#include "collect/target/target.h"

static void find(struct found_losses *found, uint64_t exec_cnt, uint64_t late, uint64_t limited)
{
	uint64_t loss[LOSS_NR] = { [LOSS_functions_late] = late, [LOSS_tracebacks_limited] = limited };

	found_losses_add(found, exec_cnt, loss);
}

static void expect_sums(const struct found_losses *found, uint64_t late, uint64_t limited)
{
	cr_expect_eq(found->sum[LOSS_functions_late], late, "%lu", found->sum[LOSS_functions_late]);
	cr_expect_eq(found->sum[LOSS_tracebacks_limited], limited, "%lu",
		     found->sum[LOSS_tracebacks_limited]);
	cr_expect_eq(found->sum[LOSS_tracebacks_broken], 0);
}

/* The same 33 functions are late in each snapshot; tracebacks come and go with what is live. */
Test(health, adds_up_found_losses_by_their_growth)
{
	struct found_losses found = {};

	find(&found, 1, 33, 90);
	expect_sums(&found, 33, 90);
	find(&found, 1, 33, 94);
	expect_sums(&found, 33, 94);
	find(&found, 1, 33, 10);
	expect_sums(&found, 33, 94);
	find(&found, 1, 34, 12);
	expect_sums(&found, 34, 96);
}

Test(health, counts_found_losses_of_the_next_program_separately)
{
	struct found_losses found = {};

	find(&found, 1, 33, 5);
	find(&found, 2, 33, 4);
	expect_sums(&found, 66, 9);
	find(&found, 2, 34, 4);
	expect_sums(&found, 67, 9);
}

Test(health, keeps_found_losses_of_an_exited_process)
{
	struct gone gone = { .allocations = 1 };
	struct target target = { .now.books.counter[COUNTER_allocations] = 2 };

	target.now.books.loss[LOSS_blocks_dropped] = 3;
	find(&target.losses.found, 0, 4, 0);
	gone_add_target(&gone, &target);
	gone_add_target(&gone, &target); /* another one like it */
	cr_expect_eq(gone.allocations, 5);
	cr_expect_eq(gone.loss[LOSS_blocks_dropped], 6);
	cr_expect_eq(gone.loss[LOSS_functions_late], 8);
}

/* ---- processes of which nothing is known ---- */

static struct object readable, unreadable = { .unreadable = "it is another file by now" };
static struct object *object[] = { &readable, &unreadable };
static struct objects objects = { .object = object, .object_nr = 2 };
static struct seen_object seen[] = { { .object = 0 }, { .object = 1 } };

static struct target seen_with(size_t nr)
{
	return (struct target){ .mappings.objects = &objects, .late = { .seen = seen, .seen_nr = nr } };
}

Test(health, treats_a_process_with_unreadable_files_as_unprobed)
{
	struct target target = seen_with(2);

	cr_expect(target_is_unprobed(&target));
	target = seen_with(0);
	cr_expect(target_is_unprobed(&target), "nothing was seen");
	target = seen_with(1);
	cr_expect(!target_is_unprobed(&target), "there was nothing");
}

Test(health, treats_a_process_that_called_an_allocator_as_probed)
{
	struct target target = seen_with(2);

	target.now.books.counter[COUNTER_allocations] = 1;
	cr_expect(!target_is_unprobed(&target));
	target = seen_with(2);
	target.now.books.counter[COUNTER_unknown_frees] = 1;
	cr_expect(!target_is_unprobed(&target));
	target = seen_with(2);
	target.now.books.is_forked = 1;
	cr_expect(!target_is_unprobed(&target), "what it has is its parent's");
}
