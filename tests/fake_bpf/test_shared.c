// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <bpf/bpf_helpers.h>
#include <string.h>

#include "fake_python.h"
#include "ranges.h"
#include "shared/links_state.h"
#include "target.h"

/* Children in the memory of a process that does not follow its children. */

int memory_shared(unsigned long long *ctx), sharer_prepares_exec(void *ctx), sharer_exits(void *ctx);

extern volatile bool sharers_by_tracepoints, exits_untold;
extern unsigned int sharers_untold;

#define CLONE_VM 0x100
#define CLONE_THREAD 0x10000

static struct uprobe_task utask;

/* The kernel has made it a child of the main thread, in the same memory. */
static struct target_thread *begin_child(__u64 flags)
{
	struct target_thread *child = thread_vfork(200);
	unsigned long long ctx[2] = { (unsigned long)&child->task, flags };

	child->task.real_parent = &main_thread->task;
	memory_shared(ctx);
	return child;
}

static void begin_exec(struct target_thread *child)
{
	thread_run(child);
	sharer_prepares_exec(NULL);
	thread_run(main_thread);
}

static void expect_sharers(__u64 sharers, __u64 lost)
{
	expect_same(book_of(process)->sharers, sharers, "sharers");
	expect_loss(children_unrecorded, lost);
}

ACCOUNT_TEST(shared, child_that_hits_no_probe_is_no_loss)
{
	struct target_thread *child = begin_child(CLONE_VM);

	expect_sharers(1, 0);
	begin_exec(child);
	expect_sharers(0, 0);
}

ACCOUNT_TEST(shared, child_that_hits_a_probe_is_a_loss)
{
	struct target_thread *child = begin_child(CLONE_VM);

	child->task.utask = &utask;
	begin_exec(child);
	expect_sharers(0, 1);
}

ACCOUNT_TEST(shared, child_that_ends_without_exec_is_settled)
{
	struct target_thread *child = begin_child(CLONE_VM);

	sharers_by_tracepoints = true;
	child->task.utask = &utask;
	thread_exit(child, 0);
	thread_run(main_thread);
	expect_sharers(0, 1);
}

ACCOUNT_TEST(shared, child_is_not_counted_where_its_end_comes_too_late)
{
	sharers_by_tracepoints = exits_untold = true;
	begin_child(CLONE_VM);
	expect_sharers(0, 0);
	expect_same(sharers_untold, 1, "untold");
}

ACCOUNT_TEST(shared, child_is_counted_where_functions_of_the_kernel_tell)
{
	struct target_thread *child = begin_child(CLONE_VM);

	child->task.utask = &utask;
	thread_run(child);
	sharer_exits(NULL);
	child->task.utask = NULL;
	child->task.mm = NULL;
	thread_exit(child, 0);
	thread_run(main_thread);
	expect_sharers(0, 1);
	expect_same(sharers_untold, 0, "untold");
}

ACCOUNT_TEST(shared, child_from_before_the_recording_is_not_subtracted)
{
	struct target_thread *child = thread_vfork(200);

	child->task.real_parent = &main_thread->task;
	begin_exec(child);
	expect_sharers(0, 0);
}

ACCOUNT_TEST(shared, threads_and_children_in_memory_of_their_own_are_not_counted)
{
	begin_child(CLONE_VM | CLONE_THREAD);
	expect_sharers(0, 0);
	begin_child(0)->task.mm = &main_thread->process->mm;
	expect_sharers(0, 0);
}

ACCOUNT_TEST(shared, child_with_memory_of_its_own_does_not_end_anothers)
{
	struct target_thread *forked = thread_fork(300);

	begin_child(CLONE_VM);
	forked->task.real_parent = &main_thread->task;
	begin_exec(forked);
	expect_sharers(1, 0);
}

ACCOUNT_TEST(shared, children_of_the_program_before_do_not_count)
{
	struct target_thread *child = begin_child(CLONE_VM);

	main_thread->task.mm = NULL; /* exec has given it another one */
	thread_exec(main_thread);
	child->task.utask = &utask;
	child->task.mm = (void *)&utask;
	begin_exec(child);
	expect_sharers(0, 0);
}

/* The share of one process in the room for blocks, notes, tracebacks and processes; the rest is for the others. */

extern __u64 blocks_most, notes_most, tracebacks_most, tracebacks_held;
extern __u32 user_slots[USERS_MAX], slots_taken_nr;
extern __u64 admissions_dropped;
extern volatile struct rules rules; /* see bpf_process.c */

static struct target_thread *neighbour(void)
{
	struct target_process *other = process_start(200);

	process_admit(other);
	return thread_start(other, 200);
}

ACCOUNT_TEST(shares, drop_and_note_blocks_beyond_the_share)
{
	struct target_thread *other = neighbour();

	blocks_most = 2;
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	user_malloc(4, 0x3000);
	expect_gone(0x3000);
	expect_loss(blocks_dropped, 1);
	expect(allocations, 2);
	expect(dropped_bytes, 4);
	user_free(0x3000);
	expect(dropped_frees, 1);
	expect(unknown_frees, 0);

	thread_run(other);
	user_malloc(8, 0x1000);
	cr_expect(block_of(other->process, 0x1000));
	expect_in(other->process, allocations, 1);
}

ACCOUNT_TEST(shares, have_room_again_after_a_free)
{
	blocks_most = 1;
	user_malloc(1, 0x1000);
	user_free(0x1000);
	user_malloc(2, 0x2000);
	expect_live(0x2000, 2);
	expect(allocations, 2);
}

/* A block beyond the share is not kept in the nursery either. */
ACCOUNT_TEST(shares, limit_blocks_in_the_nursery)
{
	nursery_use(64);
	blocks_most = 1;
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	expect_loss(blocks_dropped, 1);
	expect_gone(0x2000);
	cr_expect_eq(block_cnt(), 1);
}

/* The block that lay there was freed, room or none. */
ACCOUNT_TEST(shares, remove_the_old_block_at_the_address_of_a_refused_block)
{
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	blocks_most = 1;
	user_malloc(4, 0x2000);
	expect_loss(blocks_replaced, 1);
	expect_loss(blocks_dropped, 1);
	expect_gone(0x2000);
	expect(current_bytes, 1);
	expect(dropped_bytes, 4);
}

/* A realloc frees first; one that fails has its block back, however small the share has become. */
ACCOUNT_TEST(shares, allow_a_realloc_within_the_share)
{
	blocks_most = 1;
	user_malloc(1, 0x1000);
	user_realloc(0x1000, 2, 0x2000);
	expect_live(0x2000, 2);
	blocks_most = 0;
	user_realloc(0x2000, 4, 0);
	expect_live(0x2000, 2);
	expect(current_blocks, 1);
}

ACCOUNT_TEST(shares, limit_mappings)
{
	blocks_most = 1;
	user_mmap(PAGE, MAP);
	user_mmap(PAGE, MAP + PAGE);
	expect_mapped(MAP, PAGE);
	expect_unmapped(MAP + PAGE);
	expect_loss(blocks_dropped, 1);
	expect_loss(drops_unnoted, 1);
	user_mmap(PAGE, MAP); /* MAP_FIXED unmaps what it covers; then there is room only for the next */
	expect(frees, 1);
	expect_loss(blocks_dropped, 2);
	user_mmap(PAGE, MAP);
	expect_mapped(MAP, PAGE);
	expect_loss(drops_unnoted, 2);
}

ACCOUNT_TEST(shares, allow_a_mapping_to_be_split_beyond_the_share)
{
	user_mmap(3 * PAGE, MAP);
	blocks_most = 1;
	user_munmap(MAP + PAGE, PAGE);
	expect_mapped(MAP, PAGE);
	expect_mapped(MAP + 2 * PAGE, PAGE);
}

ACCOUNT_TEST(shares, limit_notes_of_dropped_blocks)
{
	struct target_thread *other = neighbour();

	blocks_most = 0;
	notes_most = 2;
	fake_map_resize(&dropped_blocks, 3);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	user_malloc(4, 0x3000);
	expect_loss(blocks_dropped, 3);
	expect_loss(drops_unnoted, 1);
	expect(dropped_blocks, 2);
	expect(dropped_bytes, 3);

	thread_run(other);
	user_malloc(8, 0x1000);
	user_free(0x1000);
	expect_loss_in(other->process, blocks_dropped, 1);
	expect_in(other->process, dropped_frees, 1);
}

ACCOUNT_TEST(shares, limit_tracebacks)
{
	struct target_thread *other = neighbour();

	tracebacks_most = 1;
	stack_is(0x10001);
	user_malloc(1, 0x1000);
	stack_is(0x10002);
	user_malloc(2, 0x2000);
	expect_loss(tracebacks_dropped, 1);
	stack_is(0x10001); /* known already */
	user_malloc(4, 0x3000);
	expect_live(0x3000, 4);
	cr_expect(traceback_at(0x3000) == traceback_at(0x1000) && !traceback_at(0x2000));
	expect_loss(tracebacks_dropped, 1);

	thread_run(other);
	stack_is(0x10002);
	user_malloc(8, 0x1000);
	cr_expect(block_of(other->process, 0x1000)->traceback);
	cr_expect_eq(book_of(process)->tracebacks, 1);
	cr_expect_eq(book_of(other->process)->tracebacks, 1);
	cr_expect_eq(tracebacks_held, 2);
}

/* Tracebacks of the earlier image count for that image until the loader removes them from the map. */
ACCOUNT_TEST(shares, start_with_no_tracebacks_in_a_new_image)
{
	stack_is(0x10001);
	user_malloc(1, 0x1000);
	thread_exec(main_thread);
	cr_expect_eq(book_of(process)->tracebacks, 0);
	cr_expect_eq(tracebacks_held, 1);
}

/* The loader may subtract from a number that an exec has just set to 0. */
ACCOUNT_TEST(shares, allow_tracebacks_when_the_count_has_become_negative)
{
	tracebacks_most = 1;
	book_of(process)->tracebacks = -1ULL;
	user_malloc(1, 0x1000);
	cr_expect(traceback_at(0x1000));
}

/* ---- slots ---- */

static struct target_thread *newcomer_of(pid_t pid, __u32 uid)
{
	struct target_thread *thread = thread_start(process_start(pid), pid);

	thread->process->cred.uid.val = uid;
	strcpy(thread->task.comm, "shopd");
	return thread;
}

static void admit_all(void)
{
	rules.system_wide = 1;
	rules.by_ret = returns_are_probed();
	rules.nr = 0;
}

/* As if the user, and others, had so many. */
static void slots_are_taken(const struct target_thread *by, __u32 own, __u32 others)
{
	user_slots[book_of(by->process)->user] = own;
	slots_taken_nr = own + others;
}

ACCOUNT_TEST(shares, limit_slots_of_each_user)
{
	struct target_thread *first = newcomer_of(200, 7);

	admit_all();
	thread_exec(first);
	slots_are_taken(first, PROCESSES_MAX / 4 * 3, 0);
	thread_exec(newcomer_of(201, 7));
	cr_expect_eq(admissions_dropped, 1);
	thread_exec(newcomer_of(202, 8));
	cr_expect_eq(admissions_dropped, 1);
	cr_expect(book_of(process_by_pid(202)));
}

ACCOUNT_TEST(shares, leave_some_slots_free_for_other_users)
{
	struct target_thread *first = newcomer_of(200, 7);

	admit_all();
	thread_exec(first);
	slots_are_taken(first, 10, PROCESSES_MAX - 10 - 4);
	thread_exec(newcomer_of(201, 7)); /* 10 of its own, 4 free */
	cr_expect_eq(admissions_dropped, 0);
	thread_exec(newcomer_of(202, 7)); /* 11, and 3 */
	cr_expect_eq(admissions_dropped, 1);
	thread_exec(newcomer_of(203, 8));
	cr_expect_eq(admissions_dropped, 1);
}

ACCOUNT_TEST(shares, count_a_child_without_a_slot_as_a_loss_of_its_parent)
{
	struct target_thread *first = newcomer_of(200, 7);

	admit_all();
	thread_exec(first);
	slots_are_taken(first, PROCESSES_MAX / 4 * 3, 0);
	thread_run(first);
	cr_expect(!book_of(thread_fork(201)->process));
	expect_loss_in(first->process, processes_dropped, 1);
}

ACCOUNT_TEST(shares, release_the_slot_of_an_exited_process)
{
	struct target_thread *first = newcomer_of(200, 7);
	__u32 taken, user;

	admit_all();
	thread_exec(first);
	taken = slots_taken_nr;
	user = book_of(first->process)->user;
	cr_expect_eq(user_slots[user], 1);
	thread_run(first);
	user_malloc(1, 0x1000);
	user_free(0x1000);
	rules.min_bytes = 100;
	thread_exit(first, 0); /* with so little that nothing is left to be seen */
	cr_expect_eq(user_slots[user], 0);
	cr_expect_eq(slots_taken_nr, taken - 1);
}

/* Python's view of a process while the probes of the heap are shared by all processes. */

extern __u64 links_state, python_codes_held, python_codes_most;
extern volatile struct settings settings; /* see bpf_alloc.c */

/* The loader begins the view. Returns false without sessions, which the view needs. */
static bool begin_view(void)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	settings.has_own_links = true;
	book_of(process)->python_memory = book_of(process)->memory;
	return calls_are_sessions();
}

ACCOUNT_TEST(python_shared, the_heap_is_not_recorded)
{
	if (!begin_view())
		return;
	user_malloc(100, 0x1000);
	user_calloc(3, 30, 0x2000);
	user_realloc(0x1000, 200, 0x3000);
	user_free(0x3000);
	expect(allocations, 0);
	expect(unknown_frees, 0);
	expect(nested_calls, 0);
	object_malloc(20);
	user_mmap(4096, 0x100000);
	LIVE((__u64)pool_at(0) + 48, 20);
	expect(allocations, 2);
}

ACCOUNT_TEST(python_shared, a_call_that_began_before_is_not_recorded)
{
	if (!begin_view())
		return;
	book_of(process)->python_memory = 0;
	enter(SHAPE_MALLOC, sp_at(1), 100);
	book_of(process)->python_memory = book_of(process)->memory;
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);
	expect(allocations, 0);
	expect_gone(0x1000);
}

/* Whichever link is the newer one: its program runs first. */
ACCOUNT_TEST(python_shared, raw_blocks_are_python_s_at_a_function_with_both_probes)
{
	if (!begin_view())
		return;
	raw_malloc(700);
	enter(SHAPE_MALLOC, sp_at(2), 700);
	cr_expect(heap_call(SHAPE_MALLOC, 700, 0, 0x7000), "not awaited");
	leave(SHAPE_MALLOC, sp_at(2), 0x7000);
	LIVE(0x7000, 700);
	expect(allocations, 1);
	expect(nested_calls, 0);
}

ACCOUNT_TEST(python_shared, its_probes_count_whatever_links_others_have)
{
	if (!begin_view())
		return;
	while (LINKS_PHASE(links_state) != LINKS_OWN)
		links_state++;
	object_malloc(20);
	raw_malloc(700);
	cr_expect(heap_call(SHAPE_MALLOC, 700, 0, 0x7000), "not awaited");
	expect(allocations, 2);
}

ACCOUNT_TEST(python_shared, a_forked_child_begins_so)
{
	struct target_thread *child;

	if (!begin_view())
		return;
	book_of(process)->follows = 1;
	object_malloc(20);
	child = thread_fork(200);
	thread_run(child);
	user_malloc(100, 0x1000);
	expect_in(child->process, allocations, 0);
	user_free((__u64)pool_at(0) + 48);
	expect_in(child->process, unknown_frees, 0);
	book_of(child->process)->python_memory = 0; /* the loader cannot record its objects */
	user_malloc(100, 0x2000);
	expect_in(child->process, allocations, 1);
}

ACCOUNT_TEST(python_shared, the_next_program_does_not)
{
	if (!begin_view())
		return;
	thread_exec(main_thread);
	user_malloc(100, 0x1000);
	expect_live(0x1000, 100);
}

ACCOUNT_TEST(python_shared, a_process_has_a_share_of_the_code_objects)
{
	__u64 block = (__u64)pool_at(0) + 48;

	begin_view();
	frames_make(2);
	python_codes_most = 1;
	object_malloc(20);
	expect_same(PYTHON_FRAME_CODE(traceback_of(block)->pc[0]), 1, "the first code");
	expect_same(PYTHON_FRAME_CODE(traceback_of(block)->pc[1]), PYTHON_CODE_UNKNOWN, "the second code");
	expect_loss(python_codes_missing, 1);
	expect_same(python_codes_held, 1, "code objects");
	object_free((__u64)&codes[0]);
	expect(unknown_frees, 1);
	expect_same(python_codes_held, 0, "code objects");
	frames_make(1);
	*free_list(1) = block + 32;
	object_malloc(20);
	expect_same(python_codes_held, 1, "code objects");
	cr_expect(PYTHON_FRAME_CODE(traceback_of(block + 32)->pc[0]));
}
