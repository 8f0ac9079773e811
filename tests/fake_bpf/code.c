// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "code.h"
#include "unwind/file.bpf.h"
#include <bpf/bpf_helpers.h>
#include <stdlib.h>
#include <string.h>

/* The size of a table in words: pages, rules, rows. */
#define TABLE_WORDS 64
#define RULES_AT 8
#define ROWS_AT 32

static __u32 table_nr;
__u32 stack_depth = 400;

static __u64 *word_of(__u32 index)
{
	__u32 slab_nr = index / UNWIND_SLAB_WORDS, at = index % UNWIND_SLAB_WORDS;
	struct unwind_slab *slab = (void *)bpf_map_lookup_elem(&unwind_slabs, &slab_nr);

	return bpf_map_lookup_elem(slab, &at);
}

void code_file_init(struct code_file *code, __u64 inode, const struct unwind_rule rule[FUNCTIONS])
{
	struct unwind_file file;
	__u32 at = table_nr++ * TABLE_WORDS;
	struct unwind_object object = {
		.page_nr = 1, .page_at = at, .rule_at = at + RULES_AT, .row_at = at + ROWS_AT,
		.segment_nr = 1, .segment = { { .offset = 0, .end = CODE_BYTES } },
	};

	code->inode = (struct inode){ .i_ino = inode, .i_generation = 7 };
	code->file = (struct file){ &code->inode };
	note_file(&code->file, &file);
	*word_of(at) = (__u64)FUNCTIONS << 32;
	for (__u32 i = 0; i < FUNCTIONS; i++) {
		__u64 row = UNWIND_ROW(i * FUNCTION_BYTES, i);

		memcpy(word_of(at + RULES_AT + i), &rule[i], sizeof(rule[i]));
		*word_of(at + ROWS_AT + i / 2) |= row << 32 * (i & 1);
	}
	bpf_map_update_elem(&unwind_objects, &file, &object, BPF_ANY);
}

struct vm_area_struct *code_map(__u64 address, struct code_file *code)
{
	__u32 i = 0;

	while (i < fake.vma_nr && fake.vma[i].vm_start != address)
		i++;
	if (i == FAKE_VMAS)
		abort();
	fake.vma[i] = (struct vm_area_struct){ address, address + CODE_BYTES, VM_EXEC, 0,
					       code ? &code->file : NULL };
	if (i == fake.vma_nr)
		fake.vma_nr++;
	return &fake.vma[i];
}

__u64 stack_pointer(void)
{
	return sp_at(stack_depth) + RET_POPS;
}

struct traceback *traceback_of_malloc(__u64 address, __u64 frame_pointer)
{
	stack_is(IN_FUNCTION(0));
	enter(SHAPE_MALLOC, sp_at(stack_depth), 8);
	leave_with(SHAPE_MALLOC, sp_at(stack_depth), address, frame_pointer);
	return traceback_at(address);
}

void tables_begin(enum unwinder how)
{
	unwinder = how;
	settings_set(TRACEBACK_LIMIT_DEFAULT, 0x5eed);
	process->mm.uprobes_state.xol_area = &process->xol;
}

void frames_check(const struct traceback *traceback, int end, const __u64 *pc, __u32 nr)
{
	cr_assert(traceback);
	expect_same(traceback->end, end, "end");
	expect_same(traceback->nframe, nr, "nframe");
	expect_same(traceback->total_nframe, nr, "total_nframe");
	for (__u32 i = 0; i < nr; i++)
		expect_same(traceback->pc[i], pc[i], "a frame");
}
