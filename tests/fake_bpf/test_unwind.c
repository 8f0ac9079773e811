// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <bpf/bpf_helpers.h>

#include "code.h"
#include "unwind/file.bpf.h"

/* Callers by unwind tables: what the walk makes of rules, of hijacked return addresses, of signals. */

#define RED_ZONE 16 /* words of the stack that no frame uses */

static struct code_file code;

/* Functions 0 and 1 have frames of 16 and 32 bytes, 2 begins the stack; 3 is a signal's trampoline. */
static const struct unwind_rule rules[FUNCTIONS] = {
	SP_PLUS(16), SP_PLUS(32), STACK_ROOT,
	{ .cfa_kind = UNWIND_CFA_SIGNAL, .cfa_off = 8, .fp_off = 0 },
	SP_PLUS(9000),
	{ .cfa_kind = UNWIND_CFA_SWITCH, .cfa_off = UNWIND_SWITCH(0, 8, 16), .addend = 8 },
	{ .cfa_kind = UNWIND_CFA_LEFT, .cfa_off = 32 },
};

static void begin(enum unwinder how)
{
	tables_begin(how);
	code_file_init(&code, 1, rules);
	code_map(CODE, &code);
	word_at(1) = IN_FUNCTION(1); /* 0 has 16 bytes, */
	word_at(5) = IN_FUNCTION(2); /* 1 has 32 more */
}

ACCOUNT_TEST(unwind, follows_rules_to_the_root)
{
	begin(UNWINDER_DWARF);
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(1),
		      IN_FUNCTION(2));
}

ACCOUNT_TEST(unwind, uses_the_rule_of_the_call_instruction)
{
	begin(UNWINDER_DWARF);
	word_at(1) = CODE + 2 * FUNCTION_BYTES; /* the last instruction of 1 was the call */
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_ROOT, IN_FUNCTION(0),
		      CODE + 2 * FUNCTION_BYTES, IN_FUNCTION(2));
}

ACCOUNT_TEST(unwind, ends_before_an_address_that_is_not_code)
{
	begin(UNWINDER_DWARF);
	word_at(5) = OTHER_CODE;
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_NO_CODE, IN_FUNCTION(0), IN_FUNCTION(1));
}

ACCOUNT_TEST(unwind, reports_code_without_a_rule)
{
	begin(UNWINDER_AUTO);
	word_at(5) = IN_FUNCTION(7);
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_NO_RULE, IN_FUNCTION(0), IN_FUNCTION(1),
		      IN_FUNCTION(7));
}

ACCOUNT_TEST(unwind, ends_when_the_stack_cannot_be_read)
{
	begin(UNWINDER_DWARF);
	fake.fault_address = stack_pointer() + 5 * 8;
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_UNREADABLE, IN_FUNCTION(0),
		      IN_FUNCTION(1));
}

ACCOUNT_TEST(unwind, reads_up_to_the_end_of_the_stack)
{
	begin(UNWINDER_DWARF);
	fake.fault_address = stack_pointer() + 6 * 8;
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(1),
		      IN_FUNCTION(2));
}

/* The stack begins four words before the end of a page and the next page faults, so the window takes two reads. */
ACCOUNT_TEST(unwind, reads_across_the_end_of_a_page)
{
	for (stack_depth = 0; stack_pointer() % 4096 != 4096 - 4 * 8; stack_depth++)
		;
	begin(UNWINDER_DWARF);
	fake.fault_address = stack_pointer() + 4 * 8 + 512;
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(1),
		      IN_FUNCTION(2));
}

ACCOUNT_TEST(unwind, follows_frames_that_are_larger_than_the_window)
{
	begin(UNWINDER_DWARF);
	word_at(1) = IN_FUNCTION(4);
	word_at(2 + 9000 / 8 - 1) = IN_FUNCTION(2);
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(4),
		      IN_FUNCTION(2));
}

static __u64 other_stack[64];

/* 0 is called by 5, which runs on this stack for a function on the other one. */
static void begin_on_two_stacks(void)
{
	static __u64 bounds[2];

	begin(UNWINDER_DWARF);
	bounds[0] = (__u64)other_stack;
	bounds[1] = (__u64)&other_stack[60];
	word_at(1) = IN_FUNCTION(5);
	word_at(2) = (__u64)bounds;
	word_at(3) = 20 * 8;
	other_stack[41] = IN_FUNCTION(1);
}

ACCOUNT_TEST(unwind, follows_a_thread_to_another_stack_and_back)
{
	begin_on_two_stacks();
	other_stack[45] = IN_FUNCTION(6);
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(5), IN_FUNCTION(1),
		      IN_FUNCTION(6), IN_FUNCTION(2));
}

/* Less than 2 KiB of it are there. */
ACCOUNT_TEST(unwind, reads_another_stack_up_to_its_end)
{
	begin_on_two_stacks();
	other_stack[45] = IN_FUNCTION(2);
	fake.fault_address = (__u64)&other_stack[46];
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(5), IN_FUNCTION(1),
		      IN_FUNCTION(2));
}

ACCOUNT_TEST(unwind, goes_back_to_a_stack_once)
{
	begin_on_two_stacks();
	other_stack[45] = IN_FUNCTION(6);
	word_at(5) = IN_FUNCTION(6);
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_NO_RULE, IN_FUNCTION(0), IN_FUNCTION(5),
		      IN_FUNCTION(1), IN_FUNCTION(6), IN_FUNCTION(6));
}

ACCOUNT_TEST(unwind, reports_that_the_mappings_are_busy)
{
	begin(UNWINDER_AUTO);
	fake.vma_busy = true;
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_BUSY, IN_FUNCTION(0));
}

ACCOUNT_TEST(unwind, requests_a_table_once_and_does_not_guess_meanwhile)
{
	struct code_file fresh = { .inode = { .i_ino = 99 }, .file = { &fresh.inode } };
	struct unwind_object *wanted;
	struct unwind_file file;
	__u32 before;

	note_file(&fresh.file, &file);
	begin(UNWINDER_AUTO);
	code_map(CODE, &fresh);
	before = fake.ring_cnt;
	word_at(9) = IN_FUNCTION(2); /* what a guess would find */
	for (__u64 address = 0x1000; address < 0x1020; address += 16)
		expect_frames(traceback_of_malloc(address, stack_pointer() + 64), UNWIND_NO_TABLE,
			      IN_FUNCTION(0));
	wanted = bpf_map_lookup_elem(&unwind_objects, &file);
	cr_assert(wanted);
	expect_same(wanted->wanted_by, 100, "who maps it");
	expect_same(wanted->wanted_at, CODE, "where");
	expect_same(fake.ring_cnt, before + 1, "rings");
}

/* ---- return addresses that are not there ---- */

static struct uprobe_task utask;

static void hijack(__u32 word, struct return_instance *instance)
{
	instance->stack = (unsigned long)&word_at(word);
	instance->orig_ret_vaddr = word_at(word);
	instance->next = utask.return_instances;
	utask.return_instances = instance;
	main_thread->task.utask = &utask;
	word_at(word) = TRAMPOLINE;
}

ACCOUNT_TEST(unwind, finds_hijacked_return_addresses_by_their_stack_address)
{
	struct return_instance left_over = { 4096, IN_FUNCTION(5) }, one, two;

	begin(UNWINDER_DWARF);
	hijack(1, &one); /* in no order */
	hijack(5, &two);
	left_over.next = utask.return_instances;
	utask.return_instances = &left_over; /* of a longjmp */
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(1),
		      IN_FUNCTION(2));
}

ACCOUNT_TEST(unwind, finds_the_oldest_of_64_hijacked_return_addresses)
{
	struct return_instance oldest, newer[63] = {};

	begin(UNWINDER_DWARF);
	hijack(5, &oldest);
	for (int i = 0; i < 63; i++) {
		newer[i].next = utask.return_instances;
		utask.return_instances = &newer[i];
	}
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(1),
		      IN_FUNCTION(2));
}

ACCOUNT_TEST(unwind, keeps_the_callee_when_the_kernel_has_no_return_address)
{
	begin(UNWINDER_DWARF);
	word_at(5) = TRAMPOLINE;
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_NO_CODE, IN_FUNCTION(0), IN_FUNCTION(1));
}

/* ---- signals ---- */

/* A handler's frame below what the signal has interrupted: at pc, with the stack pointer there. */
static void interrupt(__u64 pc, __u64 sp)
{
	word_at(1) = CODE + 3 * FUNCTION_BYTES + 1; /* the trampoline's: fp, sp, pc */
	word_at(2) = 0;
	word_at(3) = sp;
	word_at(4) = pc;
}

ACCOUNT_TEST(unwind, marks_an_interrupted_frame_and_uses_its_exact_address)
{
	struct traceback *traceback;

	begin(UNWINDER_DWARF);
	interrupt(CODE + FUNCTION_BYTES, (unsigned long)&word_at(RED_ZONE)); /* the first byte of 1 */
	word_at(RED_ZONE + 3) = IN_FUNCTION(2);
	traceback = traceback_of_malloc(0x1000, 0);
	expect_frames(traceback, UNWIND_ROOT, IN_FUNCTION(0), CODE + 3 * FUNCTION_BYTES + 1,
		      CODE + FUNCTION_BYTES, IN_FUNCTION(2));
	expect_same(traceback->exact[0], 6, "frames that are no return addresses");
}

/* `pushed` is the number of words that the kernel's trampoline has pushed before each of its instructions. */
ACCOUNT_TEST(unwind, continues_from_any_instruction_of_the_trampoline)
{
	static const __u64 at[] = { 0, 1, 2, 4, 11, 13, 15, 16 }, pushed[] = { 0, 1, 2, 3, 3, 3, 2, 1 };
	const __u64 behind_1 = CODE + 2 * FUNCTION_BYTES; /* its last instruction is the call */
	struct return_instance instance = {};
	__u64 address = 0x1000;

	begin(UNWINDER_DWARF);
	instance.stack = (unsigned long)&word_at(RED_ZONE);
	instance.orig_ret_vaddr = behind_1;
	main_thread->task.utask = &utask;
	word_at(RED_ZONE + 4) = IN_FUNCTION(2);
	for (int i = 0; i < 8; i++, address += 16) {
		bool is_behind = at[i] > 11;

		interrupt(TRAMPOLINE + at[i], (unsigned long)&word_at(RED_ZONE + 1 - pushed[i]));
		utask.return_instances = is_behind ? NULL : &instance;
		word_at(RED_ZONE) = is_behind ? behind_1 : 0xbad;
		expect_frames(traceback_of_malloc(address, 0), UNWIND_ROOT, IN_FUNCTION(0),
			      CODE + 3 * FUNCTION_BYTES + 1, TRAMPOLINE + at[i], behind_1,
			      IN_FUNCTION(2));
	}
}

/* ---- guesses ---- */

/* Function 0 is called by code of no file, with a frame pointer, and that by function 2. */
static __u64 anonymous_caller(__u64 its_caller)
{
	code_map(OTHER_CODE, NULL);
	word_at(1) = OTHER_CODE + 8;
	word_at(8) = 0;
	word_at(9) = its_caller;
	return (unsigned long)&word_at(8);
}

ACCOUNT_TEST(unwind, guesses_frames_in_code_without_a_file)
{
	struct traceback *traceback;

	begin(UNWINDER_AUTO);
	word_at(13) = IN_FUNCTION(2);
	traceback = traceback_of_malloc(0x1000, anonymous_caller(IN_FUNCTION(1)));
	expect_frames(traceback, UNWIND_ROOT, IN_FUNCTION(0), OTHER_CODE + 8, IN_FUNCTION(1),
		      IN_FUNCTION(2));
	expect_same(traceback->guessed[0], 4, "frames that were guessed");
}

ACCOUNT_TEST(unwind, does_not_guess_with_the_dwarf_unwinder)
{
	begin(UNWINDER_DWARF);
	expect_frames(traceback_of_malloc(0x1000, anonymous_caller(IN_FUNCTION(2))), UNWIND_NO_TABLE,
		      IN_FUNCTION(0), OTHER_CODE + 8);
}

/* V8's builtins lie in the text of node, where its table has nothing. */
ACCOUNT_TEST(unwind, guesses_frames_in_code_without_a_rule)
{
	struct traceback *traceback;

	begin(UNWINDER_AUTO);
	word_at(1) = IN_FUNCTION(7);
	word_at(9) = IN_FUNCTION(2);
	traceback = traceback_of_malloc(0x1000, (unsigned long)&word_at(8));
	expect_frames(traceback, UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(7), IN_FUNCTION(2));
	expect_same(traceback->guessed[0], 4, "frames that were guessed");
}

ACCOUNT_TEST(unwind, drops_a_guessed_frame_that_is_not_code)
{
	begin(UNWINDER_AUTO);
	expect_frames(traceback_of_malloc(0x1000, anonymous_caller(0xbadbad)), UNWIND_NO_TABLE,
		      IN_FUNCTION(0), OTHER_CODE + 8);
}

ACCOUNT_TEST(unwind, guesses_no_frame_below_the_stack_pointer)
{
	begin(UNWINDER_AUTO);
	anonymous_caller(IN_FUNCTION(2));
	expect_frames(traceback_of_malloc(0x1000, stack_pointer() - 64), UNWIND_NO_TABLE,
		      IN_FUNCTION(0), OTHER_CODE + 8);
}

/* The walk forgets cached code when other code is mapped there; and programs that interrupt a walk. */

int code_mapped(unsigned long long *ctx), room_found(unsigned long long *ctx);

extern __u64 tables_wanted;

static struct code_file small, large;

/* Two files that differ in the frame of function 0. */
static void begin_code(void)
{
	static const struct unwind_rule small_rules[FUNCTIONS] = { SP_PLUS(16), [2] = STACK_ROOT },
					large_rules[FUNCTIONS] = { SP_PLUS(32), [3] = STACK_ROOT };

	tables_begin(UNWINDER_DWARF);
	code_file_init(&small, 1, small_rules);
	code_file_init(&large, 2, large_rules);
	code_map(CODE, &small);
	word_at(1) = IN_FUNCTION(2);
	word_at(3) = IN_FUNCTION(3);
}

static void expect_small(__u64 address)
{
	expect_frames(traceback_of_malloc(address, 0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(2));
}

static void expect_large(__u64 address)
{
	expect_frames(traceback_of_malloc(address, 0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(3));
}

ACCOUNT_TEST(unwind_code, is_forgotten_when_other_code_is_mapped_there)
{
	unsigned long long ctx[1];

	begin_code();
	expect_small(0x1000);
	ctx[0] = (unsigned long)code_map(CODE, &large);
	code_mapped(ctx);
	expect_large(0x2000);
}

ACCOUNT_TEST(unwind_code, is_forgotten_when_its_address_range_is_assigned_again)
{
	struct vm_unmapped_area_info info = { .length = CODE_BYTES };
	unsigned long long ctx[2] = { CODE, (unsigned long)&info };

	begin_code();
	expect_small(0x1000);
	room_found(ctx);
	code_map(CODE, &large);
	expect_large(0x2000);
}

/* The kernel limits how far a BPF program can loop; this mapping is larger. */
ACCOUNT_TEST(unwind_code, is_forgotten_when_a_very_large_mapping_covers_it)
{
	unsigned long long ctx[1];
	struct vm_area_struct *vma;

	begin_code();
	expect_small(0x1000);
	vma = code_map(CODE, &large);
	vma->vm_end = CODE + (1ULL << 45);
	ctx[0] = (unsigned long)vma;
	code_mapped(ctx);
	expect_large(0x2000);
}

/* A vforked child's exec maps code in memory of its own while the child still counts for its parent. */
ACCOUNT_TEST(unwind_code, of_a_vforked_childs_exec_does_not_affect_the_parent)
{
	struct target_thread *child;
	unsigned long long ctx[1];

	begin_code();
	expect_small(0x1000);
	book_of(process)->follows = 1;
	child = thread_vfork(200);
	thread_run(child);
	ctx[0] = (unsigned long)code_map(CODE, &large);
	code_mapped(ctx);
	thread_exec(child);

	thread_run(main_thread);
	code_map(CODE, &small);
	expect_small(0x2000);
}

ACCOUNT_TEST(unwind_code, belongs_to_the_running_image)
{
	begin_code();
	expect_small(0x1000);
	thread_exec(main_thread);
	code_map(CODE, &large);
	expect_large(0x2000);
}

ACCOUNT_TEST(unwind_code, is_remembered_while_the_mappings_are_busy)
{
	begin_code();
	expect_small(0x1000);
	fake.vma_busy = true;
	word_at(1) = IN_FUNCTION(2) + 1; /* no walk has been here */
	expect_frames(traceback_of_malloc(0x2000, 0), UNWIND_ROOT, IN_FUNCTION(0),
		      IN_FUNCTION(2) + 1);
}

static bool is_place_known(__u64 region)
{
	struct place_key key = { book_of(process)->image, region };

	return bpf_map_lookup_elem(&unwind_places, &key);
}

/* A mapping is asked for once, and not anew for each region of it that is called. */
ACCOUNT_TEST(unwind_code, is_remembered_for_the_code_around)
{
	__u64 behind = CODE + CODE_BYTES + 0x10;
	struct vm_area_struct *vma;

	begin_code();
	vma = code_map(CODE, &small);
	vma->vm_end += CODE_BYTES;
	expect_small(0x1000);
	fake.vma_busy = true;
	word_at(1) = behind;
	expect_frames(traceback_of_malloc(0x2000, 0), UNWIND_NO_RULE, IN_FUNCTION(0), behind);
}

ACCOUNT_TEST(unwind_code, is_remembered_for_some_code_around_in_a_very_large_mapping)
{
	__u64 at = CODE >> UNWIND_REGION_SHIFT;
	struct vm_area_struct *vma;

	begin_code();
	vma = code_map(CODE, &small);
	vma->vm_pgoff = -(1LL << 28);
	vma->vm_start -= 1ULL << 40;
	vma->vm_end += 1ULL << 40;
	expect_small(0x1000);
	cr_expect(is_place_known(at - 32) && is_place_known(at + 32), "the code around");
	cr_expect(!is_place_known(at - 33) && !is_place_known(at + 33), "more than the code around");
}

/* Two files share a region: what is known of the code around stays. */
ACCOUNT_TEST(unwind_code, is_remembered_for_its_region_only_if_that_has_other_code_too)
{
	static const struct unwind_rule rules[FUNCTIONS] = { [3] = STACK_ROOT };
	__u64 at = CODE >> UNWIND_REGION_SHIFT, behind = CODE + CODE_BYTES / 2;
	struct code_file other_file;
	struct vm_area_struct *vma;

	begin_code();
	vma = code_map(CODE, &small);
	vma->vm_end = behind;
	expect_small(0x1000);
	code_file_init(&other_file, 4, rules);
	vma = code_map(behind, &other_file);
	word_at(1) = behind + 3 * FUNCTION_BYTES + 0x10;
	expect_frames(traceback_of_malloc(0x2000, 0), UNWIND_ROOT, IN_FUNCTION(0), word_at(1));
	cr_expect(is_place_known(at), "the region itself");
	cr_expect(!is_place_known(at + 1), "the code around");
}

/* A page of one file in place of another's, which lies elsewhere meanwhile. */
ACCOUNT_TEST(unwind_code, of_a_copied_page_is_its_original)
{
	struct code_file copy;
	struct unwind_file key;
	struct unwind_object object = { .copies = { 4096, CODE } };

	begin_code();
	code_file_init(&copy, 5, (const struct unwind_rule[FUNCTIONS]){});
	note_file(&copy.file, &key);
	bpf_map_update_elem(&unwind_objects, &key, &object, BPF_ANY);
	code_map(OTHER_CODE, &copy)->vm_pgoff = 1;
	word_at(1) = OTHER_CODE + 2 * FUNCTION_BYTES + 0x10;
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_ROOT, IN_FUNCTION(0), word_at(1));
}

/* A mapping that is noted when it is made is not looked for later. */
ACCOUNT_TEST(unwind_code, is_known_as_soon_as_it_is_mapped)
{
	unsigned long long ctx[1];

	begin_code();
	ctx[0] = (unsigned long)code_map(CODE, &small);
	code_mapped(ctx);
	fake.vma_busy = true;
	expect_small(0x1000);
}

/* ---- two threads on one processor ---- */

static struct target_thread *other;

/* In the middle of a walk another thread runs, and allocates on a stack of its own. */
static void preempt(void)
{
	fake.on_read = NULL;
	thread_run(other);
	word_at(1) = IN_FUNCTION(4);
	traceback_of_malloc(0x2000, 0);
	thread_run(main_thread);
}

ACCOUNT_TEST(unwind_code, of_a_walk_is_kept_for_each_thread)
{
	begin_code();
	other = thread_start(process, 101);
	stack_is(IN_FUNCTION(0));
	enter(SHAPE_MALLOC, sp_at(stack_depth), 8);
	fake.on_read = preempt;
	leave_with(SHAPE_MALLOC, sp_at(stack_depth), 0x1000, 0);
	cr_assert(!fake.on_read, "no thread ran in between");
	expect_frames(traceback_at(0x1000), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(2));
	expect_frames(traceback_at(0x2000), UNWIND_NO_RULE, IN_FUNCTION(0), IN_FUNCTION(4));
}

/* ---- code without a rule ---- */

extern __u64 code_generation;
static struct code_file plain;

#define IN_PLAIN (OTHER_CODE + 3 * FUNCTION_BYTES + 0x10)

/* The loader marks files without call frame information, and files that it has not looked at yet. */
static void publish(const struct code_file *file, struct unwind_object object)
{
	struct unwind_file key;

	note_file(&file->file, &key);
	bpf_map_update_elem(&unwind_objects, &key, &object, BPF_ANY);
}

/* The caller of malloc's caller lies in `plain`, of which nothing is known. */
static void begin_in_plain(void)
{
	static const struct unwind_rule rules[FUNCTIONS] = { [3] = STACK_ROOT };

	begin_code();
	code_file_init(&plain, 3, rules);
	publish(&plain, (struct unwind_object){ 0 });
	code_map(OTHER_CODE, &plain);
	word_at(1) = IN_PLAIN;
}

static void expect_cut(__u64 address, enum unwind_end end)
{
	expect_frames(traceback_of_malloc(address, 0), end, IN_FUNCTION(0), IN_PLAIN);
}

ACCOUNT_TEST(unwind_miss, of_a_file_without_a_table_is_remembered)
{
	struct unwind_file key;

	begin_in_plain();
	note_file(&plain.file, &key);
	expect_cut(0x1000, UNWIND_NO_TABLE);
	bpf_map_delete_elem(&unwind_objects, &key);
	expect_cut(0x2000, UNWIND_NO_TABLE);
	expect_same(tables_wanted, 0, "tables_wanted");
}

ACCOUNT_TEST(unwind_miss, of_a_file_without_a_table_allows_guesses)
{
	begin_in_plain();
	tables_begin(UNWINDER_AUTO);
	for (__u64 address = 0x1000; address <= 0x2000; address += 0x1000) {
		word_at(10) = 0;
		word_at(11) = IN_FUNCTION(2);
		expect_frames(traceback_of_malloc(address, (__u64)&word_at(10)), UNWIND_ROOT,
			      IN_FUNCTION(0), IN_PLAIN, IN_FUNCTION(2));
		expect_same(traceback_at(address)->guessed[0], 4, "guessed");
	}
}

ACCOUNT_TEST(unwind_miss, ends_when_the_table_comes)
{
	static const struct unwind_rule rules[FUNCTIONS] = { [3] = STACK_ROOT };

	begin_in_plain();
	expect_cut(0x1000, UNWIND_NO_TABLE);
	code_file_init(&plain, 3, rules);
	code_generation++;
	expect_cut(0x2000, UNWIND_ROOT);
}

ACCOUNT_TEST(unwind_miss, of_a_requested_table_is_not_remembered)
{
	static const struct unwind_rule rules[FUNCTIONS] = { [3] = STACK_ROOT };

	begin_in_plain();
	publish(&plain, (struct unwind_object){ .wanted_by = 100 });
	expect_cut(0x1000, UNWIND_NO_TABLE);
	code_file_init(&plain, 3, rules);
	expect_cut(0x2000, UNWIND_ROOT);
}

static void leave_no_code(void)
{
	begin_code();
	word_at(1) = IN_PLAIN;
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_NO_CODE, IN_FUNCTION(0));
}

ACCOUNT_TEST(unwind_miss, of_an_address_that_is_not_code_is_remembered)
{
	leave_no_code();
	fake.vma_busy = true;
	expect_frames(traceback_of_malloc(0x2000, 0), UNWIND_NO_CODE, IN_FUNCTION(0));
}

ACCOUNT_TEST(unwind_miss, ends_when_code_is_mapped_there)
{
	static const struct unwind_rule rules[FUNCTIONS] = { [3] = STACK_ROOT };
	unsigned long long ctx[1];

	leave_no_code();
	code_file_init(&plain, 3, rules);
	ctx[0] = (unsigned long)code_map(OTHER_CODE, &plain);
	code_mapped(ctx);
	expect_cut(0x2000, UNWIND_ROOT);
}

ACCOUNT_TEST(unwind_miss, of_busy_mappings_is_not_remembered)
{
	static const struct unwind_rule rules[FUNCTIONS] = { [3] = STACK_ROOT };

	begin_code();
	expect_small(0x1000);
	code_file_init(&plain, 3, rules);
	code_map(OTHER_CODE, &plain);
	word_at(1) = IN_PLAIN;
	fake.vma_busy = true;
	expect_cut(0x2000, UNWIND_BUSY);
	fake.vma_busy = false;
	expect_cut(0x3000, UNWIND_ROOT);
}
