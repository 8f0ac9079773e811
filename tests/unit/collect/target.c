// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which events of a PID belong to a target, and which execs its accounting has counted already. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "process/objects.h"
#include "collect/target/accounts.h"
#include "collect/target/target.h"

#define NO_PROCESS 0x3fffffff /* above all pids: nothing is read from /proc */

/* Forked at 100, admitted at the exec whose event has the time 500. */
#define FORKED 100
#define EXECED 500
#define ADMITTED 510

static struct objects objects;

static struct target *adopt(const struct process *account)
{
	struct target *target = target__adopt(NO_PROCESS, account, account->admitted_ns ? EXECED : FORKED, NULL,
					      &objects);

	cr_assert(target);
	return target;
}

static struct process admitted_account(void)
{
	return (struct process){ .forked_ns = FORKED, .admitted_ns = ADMITTED, .exec_cnt = 1, .image = 1 };
}

static struct target *adopt_admitted(void)
{
	const struct process account = admitted_account();

	return adopt(&account);
}

static void tell_exec(struct target *target, uint64_t time_ns)
{
	const struct mapping_event event = { .time_ns = time_ns, .pid = NO_PROCESS, .is_exec = true,
					     .path = "" };

	cr_assert_eq(target__apply_event(target, &event), 0);
}

static void tell_mapping(struct target *target, uint64_t time_ns, uint64_t start)
{
	const struct mapping_event event = { .time_ns = time_ns, .pid = NO_PROCESS, .start = start,
					     .end = start + 0x1000, .path = "[vdso]" };

	cr_assert_eq(target__apply_event(target, &event), 0);
}

static bool maps(const struct target *target, uint64_t address)
{
	return mappings_find(&target->mappings, address);
}

static void end(struct target *target)
{
	target__free(target);
	objects_release(&objects);
}

/* The process ran other programs before it was admitted: its accounting begins with the last of these execs. */
Test(target, ignores_execs_before_it_was_admitted)
{
	struct target *target = adopt_admitted();

	tell_exec(target, 200);
	tell_mapping(target, 210, 0x1000);
	tell_exec(target, 300);
	tell_mapping(target, 310, 0x2000);
	tell_exec(target, EXECED);
	tell_mapping(target, EXECED + 1, 0x3000);
	target__forget_image(target);
	tell_mapping(target, ADMITTED + 1, 0x4000);
	cr_expect_eq(target->life.exec_event_cnt, target->now.account.exec_cnt);
	cr_expect(!maps(target, 0x1000) && !maps(target, 0x2000));
	cr_expect(maps(target, 0x3000) && maps(target, 0x4000));
	end(target);
}

/* Mappings of those programs are dropped, too: they would be probed, and their blocks counted as too early. */
Test(target, ignores_mappings_of_the_programs_before_it)
{
	struct target *target = adopt_admitted();

	tell_exec(target, 200);
	tell_mapping(target, 210, 0x1000);
	cr_expect_eq(target->mappings.used_nr, 0);
	cr_expect_eq(target->late.seen_nr, 0);
	tell_exec(target, EXECED);
	tell_mapping(target, EXECED + 1, 0x3000);
	cr_expect_eq(target->mappings.used_nr, 1);
	cr_expect_eq(target->late.seen_nr, 1);
	end(target);
}

/* The event of that exec came before the accounting was read: it is the exec that is counted there. */
Test(target, counts_the_exec_of_its_admission_even_without_an_event)
{
	struct target *target = adopt_admitted();

	tell_mapping(target, ADMITTED + 1, 0x4000);
	target__forget_image(target);
	cr_expect_eq(target->life.exec_event_cnt, 1);
	cr_expect(maps(target, 0x4000));
	end(target);
}

Test(target, counts_execs_after_it_was_admitted)
{
	struct target *target = adopt_admitted();

	tell_exec(target, EXECED);
	tell_exec(target, 600);
	cr_expect_eq(target->life.exec_event_cnt, 2);
	target->now.account.exec_cnt = 2;
	tell_mapping(target, 601, 0x5000);
	target__forget_image(target);
	cr_expect_eq(target->life.exec_event_cnt, 2);
	cr_expect(maps(target, 0x5000));
	end(target);
}

Test(target, counts_execs_after_its_fork)
{
	const struct process account = { .forked_ns = FORKED, .image = 1 };
	struct target *target = adopt(&account);

	tell_exec(target, FORKED - 1);
	cr_expect_eq(target->life.exec_event_cnt, 0);
	tell_exec(target, 200);
	cr_expect_eq(target->life.exec_event_cnt, 1);
	end(target);
}

/* The accounting shows the exec first, and the image is forgotten then; the event of the exec comes later. */
Test(target, counts_an_exec_once)
{
	const struct process account = { .forked_ns = FORKED, .image = 1 };
	struct target *target = adopt(&account);

	target->now.account.exec_cnt = 1;
	target__forget_image(target);
	cr_expect_eq(target->life.exec_event_cnt, 1);
	tell_exec(target, 200);
	cr_expect_eq(target->life.exec_event_cnt, 1);
	end(target);
}

/*
 * Its own exec does not end its image, and earlier ones do not; the next exec does, and later mappings are not its
 * own.
 */
Test(target, ignores_mappings_of_the_next_program)
{
	struct process account = admitted_account();
	struct target *target;

	account.has_left = 1;
	account.exit_ns = 700;
	target = adopt(&account);
	tell_exec(target, 200);
	tell_exec(target, EXECED);
	tell_mapping(target, EXECED + 1, 0x3000);
	tell_exec(target, 690);
	tell_mapping(target, 691, 0x6000);
	tell_mapping(target, 701, 0x7000);
	cr_expect_eq(target->life.exec_event_cnt, 1);
	cr_expect(maps(target, 0x3000));
	cr_expect(!maps(target, 0x6000) && !maps(target, 0x7000));
	end(target);
}

static void expect_comm(struct target *target, const char *comm)
{
	cr_assert_eq(target__read_identity(target), 0);
	cr_expect_str_eq(target->identity.comm, comm);
}

/* An exec that events have shown, but not the accounting, has no snapshot yet. */
Test(target, keeps_the_name_of_its_snapshots_until_it_calls_exec)
{
	struct target *target = adopt_admitted();

	target->now.account.exit_ns = 700;
	strcpy(target->now.account.comm, "first");
	expect_comm(target, "first");
	strcpy(target->now.account.comm, "second");
	expect_comm(target, "second");
	target->identity.is_named = true;
	strcpy(target->now.account.comm, "third");
	expect_comm(target, "second");
	tell_exec(target, 600);
	cr_expect_str_eq(target->identity.comm, "second");
	target->now.account.exec_cnt = 2;
	target__forget_image(target);
	cr_expect_str_eq(target->identity.comm, "third");
	end(target);
}

Test(target, exists_from_its_exec_to_its_exit)
{
	struct target *target = adopt_admitted();

	cr_expect(!target__was_there(target, EXECED - 1));
	cr_expect(target__was_there(target, EXECED));
	cr_expect(target__was_there(target, 1000000));
	target->now.account.exit_ns = 700;
	cr_expect(target__was_there(target, 700));
	cr_expect(!target__was_there(target, 701));
	end(target);
}

/* ---- without a pidfd ---- */

Test(target, ends_when_its_process_is_not_found)
{
	const struct process account = { .forked_ns = FORKED, .image = 1 };
	struct target *target = adopt(&account);

	cr_expect(target->identity.pidfd < 0 && !target__is_over(target));
	target__check_pid(target);
	cr_expect(target__is_over(target));
	end(target);
}

Test(target, ends_when_its_pid_was_reused)
{
	const struct process account = { .forked_ns = FORKED, .image = 1, .start_boottime_ns = 1 };
	struct target *target = target__adopt(getpid(), &account, 0, NULL, &objects);

	cr_assert(target && target->identity.pidfd < 0);
	target__check_pid(target);
	cr_expect(target__is_over(target));
	end(target);
}

/* ---- images whose blocks a drain leaves in the map ---- */

/* A target that was drained; one that has called exec since; and one that was admitted after the drain. */
Test(target, images_since_the_drain_count_as_live)
{
	static struct target same = { .drained.account.image = 9, .now.account.image = 9 },
			     execed = { .drained.account.image = 3, .now.account.image = 7 },
			     forked = { .now.account.image = 5 };
	struct target *const target[] = { &same, &execed, &forked };
	const uint64_t wanted[] = { 0, 3, 5, 7, 9, 9 };
	uint64_t image[6];

	targets_images(target, 3, image);
	cr_expect_arr_eq(image, wanted, sizeof(wanted));
}

/* ---- health ---- */

/* Sums over all processes, ended ones included; and processes of which nothing is known. */

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
	struct target target = { .now.account.counter[COUNTER_allocations] = 2 };

	target.now.account.loss[LOSS_blocks_dropped] = 3;
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
static struct objects known = { .object = object, .object_nr = 2 };
static struct seen_object seen[] = { { .object = 0 }, { .object = 1 } };

static struct target seen_with(size_t nr)
{
	return (struct target){ .mappings.objects = &known, .late = { .seen = seen, .seen_nr = nr } };
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

	target.now.account.counter[COUNTER_allocations] = 1;
	cr_expect(!target_is_unprobed(&target));
	target = seen_with(2);
	target.now.account.counter[COUNTER_unknown_frees] = 1;
	cr_expect(!target_is_unprobed(&target));
	target = seen_with(2);
	target.now.account.is_forked = 1;
	cr_expect(!target_is_unprobed(&target), "what it has is its parent's");
}

/* ---- admission ---- */

Test(admission, counts_programs_that_began_before_blocks_enter)
{
	struct process account = { .exec_cnt = 2, .counter[COUNTER_entry_traps] = 1 };
	struct accounts accounts = { .process = &account };

	accounts_admit_blocks(&accounts, 0, true);
	cr_expect_eq(account.loss[LOSS_execs_unprobed], 2);
	cr_expect(account.is_open == ACCOUNT_OPEN && account.by_ret && !account.counter[COUNTER_entry_traps]);
}
