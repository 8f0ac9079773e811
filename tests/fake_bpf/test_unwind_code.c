// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The walk forgets cached code when other code is mapped there; and programs that interrupt a walk. */
#include "code.h"
#include "unwind/file.bpf.h"
#include <bpf/bpf_helpers.h>

int code_mapped(unsigned long long *ctx), room_found(unsigned long long *ctx);

extern __u64 tables_wanted;

static struct code_file small, large;

/* Two files that differ in the frame of function 0. */
static void begin(void)
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

BOOK_TEST(unwind_code, is_forgotten_when_other_code_is_mapped_there)
{
	unsigned long long ctx[1];

	begin();
	expect_small(0x1000);
	ctx[0] = (unsigned long)code_map(CODE, &large);
	code_mapped(ctx);
	expect_large(0x2000);
}

BOOK_TEST(unwind_code, is_forgotten_when_its_address_range_is_assigned_again)
{
	struct vm_unmapped_area_info info = { .length = CODE_BYTES };
	unsigned long long ctx[2] = { CODE, (unsigned long)&info };

	begin();
	expect_small(0x1000);
	room_found(ctx);
	code_map(CODE, &large);
	expect_large(0x2000);
}

/* The kernel limits how far a BPF program can loop; this mapping is larger. */
BOOK_TEST(unwind_code, is_forgotten_when_a_very_large_mapping_covers_it)
{
	unsigned long long ctx[1];
	struct vm_area_struct *vma;

	begin();
	expect_small(0x1000);
	vma = code_map(CODE, &large);
	vma->vm_end = CODE + (1ULL << 45);
	ctx[0] = (unsigned long)vma;
	code_mapped(ctx);
	expect_large(0x2000);
}

/* A vforked child's exec maps code in memory of its own while the child still counts for its parent. */
BOOK_TEST(unwind_code, of_a_vforked_childs_exec_does_not_affect_the_parent)
{
	struct target_thread *child;
	unsigned long long ctx[1];

	begin();
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

BOOK_TEST(unwind_code, belongs_to_the_running_image)
{
	begin();
	expect_small(0x1000);
	thread_exec(main_thread);
	code_map(CODE, &large);
	expect_large(0x2000);
}

BOOK_TEST(unwind_code, is_remembered_while_the_mappings_are_busy)
{
	begin();
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
BOOK_TEST(unwind_code, is_remembered_for_the_code_around)
{
	__u64 behind = CODE + CODE_BYTES + 0x10;
	struct vm_area_struct *vma;

	begin();
	vma = code_map(CODE, &small);
	vma->vm_end += CODE_BYTES;
	expect_small(0x1000);
	fake.vma_busy = true;
	word_at(1) = behind;
	expect_frames(traceback_of_malloc(0x2000, 0), UNWIND_NO_RULE, IN_FUNCTION(0), behind);
}

BOOK_TEST(unwind_code, is_remembered_for_some_code_around_in_a_very_large_mapping)
{
	__u64 at = CODE >> UNWIND_REGION_SHIFT;
	struct vm_area_struct *vma;

	begin();
	vma = code_map(CODE, &small);
	vma->vm_pgoff = -(1LL << 28);
	vma->vm_start -= 1ULL << 40;
	vma->vm_end += 1ULL << 40;
	expect_small(0x1000);
	cr_expect(is_place_known(at - 32) && is_place_known(at + 32), "the code around");
	cr_expect(!is_place_known(at - 33) && !is_place_known(at + 33), "more than the code around");
}

/* Two files share a region: what is known of the code around stays. */
BOOK_TEST(unwind_code, is_remembered_for_its_region_only_if_that_has_other_code_too)
{
	static const struct unwind_rule rules[FUNCTIONS] = { [3] = STACK_ROOT };
	__u64 at = CODE >> UNWIND_REGION_SHIFT, behind = CODE + CODE_BYTES / 2;
	struct code_file other_file;
	struct vm_area_struct *vma;

	begin();
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
BOOK_TEST(unwind_code, of_a_copied_page_is_its_original)
{
	struct code_file copy;
	struct unwind_file key;
	struct unwind_object object = { .copies = { 4096, CODE } };

	begin();
	code_file_init(&copy, 5, (const struct unwind_rule[FUNCTIONS]){});
	note_file(&copy.file, &key);
	bpf_map_update_elem(&unwind_objects, &key, &object, BPF_ANY);
	code_map(OTHER_CODE, &copy)->vm_pgoff = 1;
	word_at(1) = OTHER_CODE + 2 * FUNCTION_BYTES + 0x10;
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_ROOT, IN_FUNCTION(0), word_at(1));
}

/* A mapping that is noted when it is made is not looked for later. */
BOOK_TEST(unwind_code, is_known_as_soon_as_it_is_mapped)
{
	unsigned long long ctx[1];

	begin();
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

BOOK_TEST(unwind_code, of_a_walk_is_kept_for_each_thread)
{
	begin();
	other = thread_start(process, 101);
	stack_is(IN_FUNCTION(0));
	enter(SHAPE_MALLOC, sp_at(stack_depth), 8);
	fake.on_read = preempt;
	leave_with(SHAPE_MALLOC, sp_at(stack_depth), 0x1000, 0);
	cr_assert(!fake.on_read, "nobody ran in between");
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

	begin();
	code_file_init(&plain, 3, rules);
	publish(&plain, (struct unwind_object){ 0 });
	code_map(OTHER_CODE, &plain);
	word_at(1) = IN_PLAIN;
}

static void expect_cut(__u64 address, enum unwind_end end)
{
	expect_frames(traceback_of_malloc(address, 0), end, IN_FUNCTION(0), IN_PLAIN);
}

BOOK_TEST(unwind_miss, of_a_file_without_a_table_is_remembered)
{
	struct unwind_file key;

	begin_in_plain();
	note_file(&plain.file, &key);
	expect_cut(0x1000, UNWIND_NO_TABLE);
	bpf_map_delete_elem(&unwind_objects, &key);
	expect_cut(0x2000, UNWIND_NO_TABLE);
	expect_same(tables_wanted, 0, "tables_wanted");
}

BOOK_TEST(unwind_miss, of_a_file_without_a_table_allows_guesses)
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

BOOK_TEST(unwind_miss, ends_when_the_table_comes)
{
	static const struct unwind_rule rules[FUNCTIONS] = { [3] = STACK_ROOT };

	begin_in_plain();
	expect_cut(0x1000, UNWIND_NO_TABLE);
	code_file_init(&plain, 3, rules);
	code_generation++;
	expect_cut(0x2000, UNWIND_ROOT);
}

BOOK_TEST(unwind_miss, of_a_requested_table_is_not_remembered)
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
	begin();
	word_at(1) = IN_PLAIN;
	expect_frames(traceback_of_malloc(0x1000, 0), UNWIND_NO_CODE, IN_FUNCTION(0));
}

BOOK_TEST(unwind_miss, of_an_address_that_is_not_code_is_remembered)
{
	leave_no_code();
	fake.vma_busy = true;
	expect_frames(traceback_of_malloc(0x2000, 0), UNWIND_NO_CODE, IN_FUNCTION(0));
}

BOOK_TEST(unwind_miss, ends_when_code_is_mapped_there)
{
	static const struct unwind_rule rules[FUNCTIONS] = { [3] = STACK_ROOT };
	unsigned long long ctx[1];

	leave_no_code();
	code_file_init(&plain, 3, rules);
	ctx[0] = (unsigned long)code_map(OTHER_CODE, &plain);
	code_mapped(ctx);
	expect_cut(0x2000, UNWIND_ROOT);
}

BOOK_TEST(unwind_miss, of_busy_mappings_is_not_remembered)
{
	static const struct unwind_rule rules[FUNCTIONS] = { [3] = STACK_ROOT };

	begin();
	expect_small(0x1000);
	code_file_init(&plain, 3, rules);
	code_map(OTHER_CODE, &plain);
	word_at(1) = IN_PLAIN;
	fake.vma_busy = true;
	expect_cut(0x2000, UNWIND_BUSY);
	fake.vma_busy = false;
	expect_cut(0x3000, UNWIND_ROOT);
}
