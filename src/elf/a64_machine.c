// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/machine.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "elf/a64_registers.h"
#include "elf/a64_words.h"
#include "elf/operand_text.h"

/*
 * A64, the instructions of arm64 (Arm ARM, C4.1): words of four bytes. Rows are masks of words; the first row that fits
 * counts. What the kernel does with a word under a uprobe is in arch/arm64/kernel/probes/decode-insn.c and
 * arch/arm64/include/asm/insn.h; where it steps what cannot be stepped (`ldr d0, label`), or may come to know more, this
 * is stricter.
 */

#define WORD_BYTES 4
#define RETURN_REGISTER 30
#define REGISTER_31 31 /* the stack pointer or zero, as the instruction has it */
#define CODE_ARGUMENT_NR 8

/* ---- branches, exceptions and the system: bits 28 to 26 are 101 ---- */

#define IS_BRANCH_OR_SYSTEM(word) (((word) & 0x1c000000) == 0x14000000)

enum reach { REACH_NONE, REACH_26, REACH_19, REACH_14 }; /* bits of the distance in the word */

/* is_stepped: out of line, so that a probe can sit on it; else it must be emulated, or takes no probe. */
static const struct branch {
	uint32_t mask, value;
	enum flow flow;
	enum reach reach;
	bool is_emulated, is_stepped;
	const char *text;
} branches[] = {
	{ 0xfc000000, 0x14000000, FLOW_JUMP, REACH_26, true, false, "b" },
	{ 0xfc000000, 0x94000000, FLOW_CALL, REACH_26, true, false, "bl" },
	{ 0xff000010, 0x54000000, FLOW_BRANCH, REACH_19, true, false, "b." },
	{ 0xff000010, 0x54000010, FLOW_BRANCH, REACH_19, false, false, "bc." },
	{ 0x7f000000, 0x34000000, FLOW_BRANCH, REACH_19, true, false, "cbz" },
	{ 0x7f000000, 0x35000000, FLOW_BRANCH, REACH_19, true, false, "cbnz" },
	{ 0x7f000000, 0x36000000, FLOW_BRANCH, REACH_14, true, false, "tbz" },
	{ 0x7f000000, 0x37000000, FLOW_BRANCH, REACH_14, true, false, "tbnz" },
	{ 0xfffffc1f, 0xd61f0000, FLOW_JUMP_ANYWHERE, REACH_NONE, true, false, "br" },
	{ 0xfffffc1f, 0xd63f0000, FLOW_CALL_ANYWHERE, REACH_NONE, true, false, "blr" },
	{ 0xfffffc1f, 0xd65f0000, FLOW_RETURN, REACH_NONE, true, false, "ret" },
	{ 0xfefff800, 0xd61f0800, FLOW_JUMP_ANYWHERE, REACH_NONE, false, false, "braa" },
	{ 0xfefff800, 0xd63f0800, FLOW_CALL_ANYWHERE, REACH_NONE, false, false, "blraa" },
	{ 0xffe0001f, 0xd4000001, FLOW_ON, REACH_NONE, false, false, "svc" },
	{ 0xff000000, 0xd4000000, FLOW_STOP, REACH_NONE, false, false, "brk" }, /* and other exceptions */

	/* Hints that the kernel steps: nop, bti, xpaclri, and those that sign. Not autiasp, for instance. */
	{ 0xffffffff, 0xd503201f, FLOW_ON, REACH_NONE, false, true, "nop" },
	{ 0xffffff3f, 0xd503241f, FLOW_ON, REACH_NONE, false, true, "bti" },
	{ 0xffffffff, 0xd50320ff, FLOW_ON, REACH_NONE, false, true, "xpaclri" },
	{ 0xffffffbf, 0xd503211f, FLOW_ON, REACH_NONE, false, true, "paci1716" },
	{ 0xffffffff, 0xd503233f, FLOW_ON, REACH_NONE, false, true, "paciasp" },
	{ 0xffffff9f, 0xd503231f, FLOW_ON, REACH_NONE, false, true, "pacibsp" }, /* and those that sign with zero */
	{ 0xfffff01f, 0xd503201f, FLOW_ON, REACH_NONE, false, false, "hint" },

	{ 0xfffff01f, 0xd503301f, FLOW_ON, REACH_NONE, false, true, "barrier" },
	{ 0xffd80000, 0xd5080000, FLOW_ON, REACH_NONE, false, true, "sys" },
	{ 0xffffffe0, 0xd53b4220, FLOW_ON, REACH_NONE, false, false, "mrs" }, /* of DAIF */
	{ 0xfff00000, 0xd5300000, FLOW_ON, REACH_NONE, false, true, "mrs" },
	{ 0xffc00000, 0xd5000000, FLOW_ON, REACH_NONE, false, false, "msr" }, /* and the rest of the system */
	{ 0, 0, FLOW_UNKNOWN, REACH_NONE, false, false, "an unknown branch" },
};

static const struct branch *branch_of(uint32_t word)
{
	const struct branch *branch = branches;

	while ((word & branch->mask) != branch->value)
		branch++;
	return branch;
}

static bool is_page_address(uint32_t word)
{
	return (word & 0x1f000000) == 0x10000000; /* adr, adrp */
}

/* ---- what other instructions write ---- */

enum written {
	WRITES_RD,	 /* bits 4 to 0; register 31 is no register */
	WRITES_RD_OR_SP, /* register 31 is the stack pointer */
	WRITES_PAIR,	 /* bits 14 to 10, too */
	WRITES_NOTHING,
	WRITES_MEMORY, /* and no register */
	WRITES_UNKNOWN,
};

static const struct effect {
	uint32_t mask, value;
	enum written written;
} effects[] = {
	{ 0x1f000000, 0x10000000, WRITES_RD },	     /* adr, adrp */
	{ 0x3f800000, 0x11000000, WRITES_RD_OR_SP }, /* add, sub: immediate */
	{ 0x3f800000, 0x31000000, WRITES_RD },	     /* adds, subs */
	{ 0x7f800000, 0x72000000, WRITES_RD },	     /* ands */
	{ 0x1f800000, 0x12000000, WRITES_RD_OR_SP }, /* and, orr, eor */
	{ 0x1f800000, 0x12800000, WRITES_RD },	     /* movz, movn, movk */
	{ 0x1f000000, 0x13000000, WRITES_RD },	     /* bitfields, extr */
	{ 0x1f000000, 0x0a000000, WRITES_RD },	     /* and, orr, eor, mov: register */
	{ 0x1f200000, 0x0b000000, WRITES_RD },	     /* add, sub: shifted register */
	{ 0x3fe00000, 0x0b200000, WRITES_RD_OR_SP }, /* add, sub: extended register */
	{ 0x3fe00000, 0x2b200000, WRITES_RD },	     /* adds, subs */
	{ 0x1fe0fc00, 0x1a000000, WRITES_RD },	     /* adc, sbc */
	{ 0x3fe00410, 0x3a400000, WRITES_NOTHING },  /* ccmp, ccmn */
	{ 0x3fe00800, 0x1a800000, WRITES_RD },	     /* csel and the like */
	{ 0x3fe00000, 0x1ac00000, WRITES_RD_OR_SP }, /* of two registers: udiv, lsl; irg writes sp */
	{ 0x7fe00000, 0x5ac00000, WRITES_RD },	     /* of one register: clz, rbit, pacia */
	{ 0x1f000000, 0x1b000000, WRITES_RD },	     /* madd, umulh */
	{ 0x3fc00000, 0x39400000, WRITES_RD },	     /* loads: at an offset */
	{ 0x3f800000, 0x39800000, WRITES_RD },
	{ 0x3fe00c00, 0x38400000, WRITES_RD }, /* at an unscaled one */
	{ 0x3fa00c00, 0x38800000, WRITES_RD },
	{ 0x3fe00c00, 0x38600800, WRITES_RD }, /* at a register's */
	{ 0x3fa00c00, 0x38a00800, WRITES_RD },
	{ 0x3fc00000, 0x29400000, WRITES_PAIR },
	{ 0x3f000000, 0x18000000, WRITES_RD },	   /* of a literal */
	{ 0x3fc00000, 0x39000000, WRITES_MEMORY }, /* stores, and loads of vectors, that change no other register */
	{ 0x3fe00c00, 0x38000000, WRITES_MEMORY },
	{ 0x3fe00c00, 0x38200800, WRITES_MEMORY },
	{ 0x3fc00000, 0x29000000, WRITES_MEMORY },
	{ 0x3f000000, 0x3d000000, WRITES_MEMORY },
	{ 0x3f800000, 0x2d000000, WRITES_MEMORY },
	{ 0xfff00000, 0xd5300000, WRITES_RD },	    /* mrs */
	{ 0xffffffff, 0xd503201f, WRITES_NOTHING }, /* nop */
	{ 0xffffff3f, 0xd503241f, WRITES_NOTHING }, /* bti */
	{ 0, 0, WRITES_UNKNOWN },
};

static enum written written_by(uint32_t word)
{
	const struct effect *effect = effects;

	while ((word & effect->mask) != effect->value)
		effect++;
	return effect->written;
}

static uint16_t change_of_number(unsigned int reg, bool is_stack)
{
	if (reg == REGISTER_31)
		return is_stack ? CHANGES_STACK : 0;
	return reg < CODE_ARGUMENT_NR ? 1 << reg : reg == RETURN_REGISTER ? CHANGES_LINK : 0;
}

static uint16_t changes_of_word(uint32_t word)
{
	enum written written = written_by(word);

	switch (written) {
	case WRITES_RD:
	case WRITES_RD_OR_SP:
		return change_of_number(field(word, 0, 5), written == WRITES_RD_OR_SP);
	case WRITES_PAIR:
		return change_of_number(field(word, 0, 5), false) | change_of_number(field(word, 10, 5), false);
	case WRITES_NOTHING:
		return 0;
	default:
		return CHANGES_MORE;
	}
}

/* ---- jumps through a register: what lies in it ---- */

/* struct earlier has only instructions that write a register. */
enum earlier_what {
	EARLIER_NONE,
	EARLIER_OTHER,
	EARLIER_ADDRESS, /* adr, adrp, and what adds a number to it: the value is what the register has */
	EARLIER_SLOT,	 /* loads from the address that the value says */
	EARLIER_ROW,	 /* loads from a table, by an index in a register */
	EARLIER_SUM,	 /* of two registers */
};

static const struct earlier *last_writer(const struct insn_reader *reader, unsigned int reg)
{
	static const struct earlier none;

	for (size_t i = 0; i < EARLIER_NR; i++)
		if (reader->earlier[i].what && reader->earlier[i].to == reg)
			return &reader->earlier[i];
	return &none;
}

static struct earlier earlier_of_word(const struct insn_reader *reader, uint32_t word, uint64_t vaddr)
{
	const struct earlier *base = last_writer(reader, field(word, 5, 5));
	struct earlier ret = { .what = EARLIER_OTHER, .to = field(word, 0, 5) };

	if (is_page_address(word)) {
		ret.what = EARLIER_ADDRESS;
		ret.value = a64_page_address(word, vaddr);
	} else if ((word & 0xff800000) == 0x91000000 && base->what == EARLIER_ADDRESS) { /* add x, x, #number */
		ret.what = EARLIER_ADDRESS;
		ret.value = base->value + ((uint64_t)field(word, 10, 12) << (field(word, 22, 1) ? 12 : 0));
	} else if ((word & 0xffc00000) == 0xf9400000 && base->what == EARLIER_ADDRESS) { /* ldr x, [x, #number] */
		ret.what = EARLIER_SLOT;
		ret.value = base->value + 8 * field(word, 10, 12);
	} else if ((word & 0x3f200c00) == 0x38200800) {
		ret.what = EARLIER_ROW;
	} else if ((word & 0xff000000) == 0x8b000000) { /* add x, x, a register */
		ret.what = EARLIER_SUM;
	}
	return ret;
}

static void remember_word(struct insn_reader *reader, uint32_t word, uint64_t vaddr)
{
	enum written written = written_by(word);

	if (written == WRITES_UNKNOWN)
		insn_reader__begin_line(reader);
	if (written == WRITES_PAIR)
		insn_reader__remember(reader, (struct earlier){ .what = EARLIER_OTHER, .to = field(word, 10, 5) });
	if (written <= WRITES_PAIR)
		insn_reader__remember(reader, earlier_of_word(reader, word, vaddr));
}

/*
 * ldrh w, [table, index]; add x, base, w, sxth #2; br x: offsets from the base to places in the function. An address that
 * was loaded from a fixed place is a slot.
 */
static enum flow flow_through(const struct insn_reader *reader, unsigned int reg, enum flow anywhere, uint64_t *ret_target)
{
	const struct earlier *writer = last_writer(reader, reg);

	if (writer->what == EARLIER_SLOT) {
		*ret_target = writer->value;
		return anywhere == FLOW_JUMP_ANYWHERE ? FLOW_JUMP_SLOT : FLOW_CALL_SLOT;
	}
	if (writer->what != EARLIER_SUM || anywhere != FLOW_JUMP_ANYWHERE)
		return anywhere;
	for (const struct earlier *row = writer + 1; row < reader->earlier + EARLIER_NR; row++)
		if (row->what == EARLIER_ROW)
			return FLOW_JUMP_OFFSETS;
	return anywhere;
}

/* ---- the machine ---- */

static uint64_t branch_target_of(const struct branch *branch, uint32_t word, uint64_t vaddr)
{
	static const struct { unsigned int low, bits; } where[] = {
		[REACH_26] = { 0, 26 }, [REACH_19] = { 5, 19 }, [REACH_14] = { 5, 14 },
	};

	if (branch->reach == REACH_NONE)
		return 0;
	return vaddr + signed_field(word, where[branch->reach].low, where[branch->reach].bits) * WORD_BYTES;
}

static void set_branch(const struct insn_reader *reader, uint32_t word, uint64_t vaddr, struct insn *ret)
{
	const struct branch *branch = branch_of(word);

	ret->flow = branch->flow;
	ret->target = branch_target_of(branch, word, vaddr);
	ret->what = branch->text;
	ret->is_emulated = branch->is_emulated;
	if (branch->flow == FLOW_JUMP_ANYWHERE || branch->flow == FLOW_CALL_ANYWHERE)
		ret->flow = flow_through(reader, field(word, 5, 5), branch->flow, &ret->target);
	if ((word & 0xfffffbff) == 0xd65f0bff) {
		ret->flow = FLOW_UNKNOWN;
		ret->what = "a return that checks a signature, which takes no probe,";
	}
}

/* Words of no instruction; of those that bit 31 sets apart, SME has some. */
static bool is_unallocated(uint32_t word)
{
	uint32_t group = field(word, 25, 4);

	return group == 1 || group == 3 || (group == 0 && !(word >> 31));
}

static bool is_undefined(uint32_t word)
{
	return word < 0x10000; /* udf */
}

static bool a64_read(struct insn_reader *reader, const uint8_t *byte, size_t left, uint64_t vaddr, struct insn *ret)
{
	uint32_t word = left < WORD_BYTES ? 0 : a64_word(byte);

	if (left < WORD_BYTES || vaddr % WORD_BYTES || (is_unallocated(word) && !is_undefined(word)))
		return false;
	*ret = (struct insn){ .vaddr = vaddr, .bytes = WORD_BYTES, .word = word, .changes = changes_of_word(word) };
	if (is_undefined(word)) {
		ret->flow = FLOW_STOP;
		ret->may_be_data = true;
	} else if (IS_BRANCH_OR_SYSTEM(word)) {
		set_branch(reader, word, vaddr, ret);
	} else if (is_page_address(word)) {
		ret->is_emulated = true;
		ret->what = word >> 31 ? "adrp" : "adr";
		ret->target = a64_page_address(word, vaddr);
	}
	ret->is_of_stub = !ret->changes && ret->flow == FLOW_ON; /* bti; adrp, ldr, add of x16 and x17 */
	if (ret->flow != FLOW_BRANCH)
		remember_word(reader, word, vaddr);
	return true;
}

/* As assemblers write them; those that no table here names as a word. */
static void a64_text(const struct insn_reader *reader, const struct insn *insn, char text[INSN_TEXT_MAX])
{
	static const char condition[16][3] = { "eq", "ne", "hs", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt",
					       "le", "al", "nv" };
	bool has_condition = insn->what && strchr(insn->what, '.');

	(void)reader;
	if (!insn->what)
		snprintf(text, INSN_TEXT_MAX, ".inst 0x%08x", insn->word);
	else if (insn->target)
		snprintf(text, INSN_TEXT_MAX, "%s%s 0x%llx", insn->what, has_condition ? condition[field(insn->word, 0, 4)] : "",
			 (unsigned long long)insn->target);
	else
		snprintf(text, INSN_TEXT_MAX, "%s", insn->what);
}

static const char *a64_refusal(const uint8_t *code, size_t size)
{
	const struct branch *branch;
	uint32_t word;

	if (size < WORD_BYTES)
		return NULL;
	word = a64_word(code);
	if (is_unallocated(word))
		return "on no instruction";
	if (IS_BRANCH_OR_SYSTEM(word)) {
		branch = branch_of(word);
		return branch->is_emulated || branch->is_stepped ? NULL : "on an instruction that takes no probe";
	}
	if ((word & 0x3b000000) == 0x18000000)
		return "on a load from near itself, which the kernel cannot do elsewhere";
	if ((word & 0x3f800000) == 0x08000000)
		return "on an exclusive load or store, which a trap would make fail for ever";
	return NULL;
}

static bool a64_is_nop(const uint8_t *code, size_t size)
{
	return size >= WORD_BYTES && a64_word(code) == 0xd503201f;
}

static bool a64_follows_call(const uint8_t *code, size_t before, size_t after)
{
	static const uint8_t sigreturn[] = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4 }; /* mov x8, #139; svc #0 */
	enum flow flow = FLOW_ON;

	if (before >= WORD_BYTES && IS_BRANCH_OR_SYSTEM(a64_word(code - WORD_BYTES)))
		flow = branch_of(a64_word(code - WORD_BYTES))->flow;
	return flow == FLOW_CALL || flow == FLOW_CALL_ANYWHERE ||
	       (after >= sizeof(sigreturn) && !memcmp(code, sigreturn, sizeof(sigreturn)));
}

const struct machine machine_a64 = {
	.elf_machine = EM_AARCH64,
	.step = WORD_BYTES,
	.argument_nr = CODE_ARGUMENT_NR,
	.relocation = {
		[RELOCATION_JUMP_SLOT] = R_AARCH64_JUMP_SLOT, [RELOCATION_GLOB_DAT] = R_AARCH64_GLOB_DAT,
		[RELOCATION_ABSOLUTE] = R_AARCH64_ABS64, [RELOCATION_RELATIVE] = R_AARCH64_RELATIVE,
		[RELOCATION_IRELATIVE] = 1032, /* R_AARCH64_IRELATIVE, which the header of musl lacks */
	},
	.register_bytes = sizeof(struct a64_registers),
	.argument_place = { 0, 8, 16, 24, 32, 40 },
	.parse_operand = a64_parse_operand,
	.read = a64_read,
	.text = a64_text,
	.refusal = a64_refusal,
	.is_nop = a64_is_nop,
	.follows_call = a64_follows_call,
};
