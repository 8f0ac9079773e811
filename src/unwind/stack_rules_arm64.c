// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/stack_rules.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"

#define SCAN_BYTES_MAX (256u << 20)

/* mov x8,#139 (rt_sigreturn); svc #0 */
static const uint32_t sigreturn[] = { 0xd2801168, 0xd4000001 };

/*
 * struct rt_sigframe of arch/arm64/kernel/signal.c: siginfo_t has 128 bytes, ucontext_t 176 before its struct sigcontext,
 * which has the fault's address, x0 to x30, sp and pc.
 */
#define FRAME_X0 (128 + 176 + 8)
#define FRAME_FP (FRAME_X0 + 29 * 8)
#define FRAME_SP (FRAME_X0 + 31 * 8)

static const struct unwind_rule rule_of_sigreturn = {
	.cfa_kind = UNWIND_CFA_SIGNAL, .cfa_off = FRAME_SP, .fp_off = FRAME_FP, .return_kind = UNWIND_RETURN_ABOVE_FP,
};

/* Nothing calls the code: the handler returns to its first byte, and is looked up at the byte before. */
static int scan_arm64_segment(Elf *elf, const struct unwind_segment *segment, const struct entries *entries, bool has_go,
			      struct stack_rules *found)
{
	uint64_t bytes = segment->end - segment->offset, vaddr;
	Elf_Data *data;
	int err = 0;

	data = bytes > SCAN_BYTES_MAX ? NULL : elf_getdata_rawchunk(elf, segment->offset, bytes, ELF_T_BYTE);
	for (size_t i = 4; !err && data && data->d_buf && i + sizeof(sigreturn) <= data->d_size; i += 4) {
		if (memcmp((const char *)data->d_buf + i, sigreturn, sizeof(sigreturn)))
			continue;
		vaddr = segment->offset + segment->delta + i;
		if (!entries_are_sure(entries, vaddr))
			err = array_push(found, rule, ((struct stack_rule){ vaddr - 1, rule_of_sigreturn }));
	}
	if (err || !has_go)
		return err;
	found->is_partial |= !data || !data->d_buf;
	return found->is_partial ? 0 : stack_rules_of_go_arm64(segment, data->d_buf, data->d_size, entries, found);
}

int stack_rules_find_arm64(Elf *elf, const struct object_cfi *cfi, const struct entries *entries, struct stack_rules *ret)
{
	int err = 0;

	*ret = (struct stack_rules){ 0 };
	for (uint32_t i = 0; !err && i < cfi->segment_nr; i++)
		err = scan_arm64_segment(elf, &cfi->segment[i], entries, cfi->has_go, ret);
	stack_rules_sort(ret);
	return err;
}
