// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "binutils.h"
#include "elf/allocators.h"
#include "elf/elf_object.h"
#include "elf/machine.h"
#include "elf/placement.h"
#include "elf/returns.h"
#include "skip.h"

/* arm64 code, on any machine: by hand, and all of C libraries against the decoder of binutils. */

#define RET 0xd65f03c0
#define RETAA 0xd65f0bff
#define NOP 0xd503201f
#define BTI_C 0xd503245f
#define PACIASP 0xd503233f
#define AUTIASP 0xd50323bf
#define STP_PRE 0xa9bd7bfd   /* stp x29, x30, [sp, #-48]! */
#define LDP_POST 0xa8c37bfd  /* ldp x29, x30, [sp], #48 */
#define MOV_X3_X0 0xaa0003e3
#define MOV_X0_X1 0xaa0103e0
#define MOV_W8_5 0x528000a8
#define STR_X0_X1 0xf9000020 /* str x0, [x1] */
#define LDAXR 0xc85ffc02     /* ldaxr x2, [x0] */
#define LDR_LITERAL 0x58000043
#define LDR_D0_LITERAL 0x5c000040
#define UDF 0
#define B(words) (0x14000000 | ((words) & 0x3ffffff))
#define BL(words) (0x94000000 | ((words) & 0x3ffffff))
#define CBZ_X0(words) (0xb4000000 | ((words) & 0x7ffff) << 5)
#define ADRP_X16 0x90000010	/* this page */
#define LDR_X17_X16_8 0xf9400611 /* ldr x17, [x16, #8] */
#define ADD_X16_8 0x91002210
#define BR(reg) (0xd61f0000 | (reg) << 5)
#define LDRH_TABLE 0x78605822 /* ldrh w2, [x1, w0, uxtw #1] */
#define ADR_X3(words) (0x10000003 | ((words) & 0x7ffff) << 5)
#define ADD_X2_X3_W2 0x8b22a862 /* add x2, x3, w2, sxth #2 */

/* ---- where functions return ---- */

#define BASE 0x10000
#define MEMSET (BASE + 0x40)
#define SLOT (BASE + 8) /* that LDR_X17_X16_8 loads, of the page of BASE */

struct words {
	const uint32_t *word;
	size_t nr;
	enum exit_kind slot;
};

static size_t words_read(void *object, uint64_t vaddr, void *buf, size_t len)
{
	const struct words *words = object;
	uint64_t at = vaddr - BASE, size = 4 * words->nr;

	if (at >= size)
		return 0;
	len = len < size - at ? len : size - at;
	memcpy(buf, (const char *)words->word + at, len);
	return len;
}

/* The first eight words are a function, the others another one. */
static bool words_extent(void *object, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct words *words = object;

	if (vaddr - BASE >= 4 * words->nr)
		return false;
	*ret_start = vaddr - BASE < 32 ? BASE : BASE + 32;
	*ret_end = vaddr - BASE < 32 ? BASE + 32 : BASE + 4 * words->nr;
	return true;
}

static enum exit_kind words_slot(void *object, uint64_t vaddr, uint64_t *ret_vaddr)
{
	cr_expect_eq(vaddr, SLOT, "slot %#lx", vaddr);
	*ret_vaddr = BASE + 32;
	return ((const struct words *)object)->slot;
}

static enum exit_kind any_slot(void *object, uint64_t vaddr, uint64_t *ret_vaddr)
{
	(void)vaddr;
	*ret_vaddr = BASE + 32;
	return ((const struct words *)object)->slot;
}

static bool words_returns_argument(void *object, uint64_t vaddr)
{
	(void)object;
	return vaddr == MEMSET;
}

static const struct {
	const char *what;
	uint32_t word[12]; /* 8 of the function, 4 of the next one */
	int place[4];	   /* indexes of words, minus 1; minus: the result is in the argument */
	enum exit_kind slot;
	const char *why;
} return_row[] = {
	{ "a return", { RET }, { 1 } },
	{ "two", { CBZ_X0(2), RET, NOP, RET }, { 2, 4 } },
	{ "behind a frame", { PACIASP, STP_PRE, BL(8), LDP_POST, AUTIASP, RET }, { 6 } },
	{ "a signed return", { PACIASP, RETAA }, {}, 0, "takes no probe" },
	{ "another function's", { B(8), 0, 0, 0, 0, 0, 0, 0, NOP, RET }, { 10 } },
	{ "another function's on a condition", { CBZ_X0(8), RET, 0, 0, 0, 0, 0, 0, RET }, { 2, 9 } },
	{ "a jump to memset", { B(16) }, { -1 } },
	{ "through a PLT to memset", { B(8), 0, 0, 0, 0, 0, 0, 0, ADRP_X16, LDR_X17_X16_8, ADD_X16_8, BR(17) }, { -1 },
	  EXIT_RETURNS_ARGUMENT },
	{ "through a slot", { BTI_C, ADRP_X16, NOP, LDR_X17_X16_8, BR(17), 0, 0, 0, NOP, RET }, { 10 }, EXIT_FOLLOW },
	{ "through a slot on another page", { 0xf0fffff0, 0x91400610, LDR_X17_X16_8, BR(17), 0, 0, 0, 0, RET }, { 9 }, EXIT_FOLLOW },
	{ "through a slot that is not known", { ADRP_X16, LDR_X17_X16_8, BR(17) }, {}, EXIT_UNKNOWN, "to an address" },
	{ "through a register that was overwritten", { ADRP_X16, LDR_X17_X16_8, MOV_X3_X0, 0xaa0003f1, BR(17), 0, 0, 0, RET }, {},
	  EXIT_FOLLOW, "to an address" },
	{ "through a register that a call may change", { ADRP_X16, LDR_X17_X16_8, BL(16), BR(17), 0, 0, 0, 0, RET }, {}, EXIT_FOLLOW,
	  "to an address" },
	{ "through an argument", { BR(1) }, {}, 0, "to an address" },
	{ "a switch", { LDRH_TABLE, ADR_X3(3), ADD_X2_X3_W2, BR(2), RET, NOP, RET, NOP }, { 5, 7 } },
	{ "data in a switch", { LDRH_TABLE, ADR_X3(3), ADD_X2_X3_W2, BR(2), RET, UDF, RET, NOP }, {}, 0, "data between" },
	{ "a sum without a table", { ADR_X3(3), ADD_X2_X3_W2, BR(2), RET }, {}, 0, "to an address" },
	{ "a trap", { CBZ_X0(2), 0xd4200000, RET }, { 3 } },
	{ "words that are no instruction", { NOP, 0x02000000 }, {}, 0, "no known instruction" },
	{ "a branch of later machines", { 0x74000000, RET }, {}, 0, "an unknown branch" },
};

Test(a64_code, returns_are_found_by_the_rules_for_each_instruction)
{
	for (size_t i = 0; i < ARRAY_SIZE(return_row); i++) {
		struct words words = { return_row[i].word, 12, return_row[i].slot };
		const struct code_source source = {
			&words, EM_AARCH64, words_read, words_extent, words_slot, words_returns_argument,
		};
		const char *why_not = return_row[i].why;
		struct returns got = {};
		struct reason why = {};
		size_t nr = 0;
		int err = returns_find(&source, BASE, &got, &why);

		cr_expect_eq(err, why_not ? -ENOTSUP : 0, "%s: %d %s", return_row[i].what, err, why.text);
		cr_expect(!why_not || strstr(why.text, why_not), "%s: %s", return_row[i].what, why.text);
		for (; !err && nr < 4 && return_row[i].place[nr]; nr++) {
			int place = return_row[i].place[nr];

			cr_assert_lt(nr, got.place_nr, "%s", return_row[i].what);
			cr_expect_eq(got.place[nr].vaddr, BASE + 4 * (abs(place) - 1), "%s: %#lx", return_row[i].what,
				     got.place[nr].vaddr);
			cr_expect_eq(got.place[nr].is_in_argument, place < 0, "%s", return_row[i].what);
		}
		cr_expect(err || nr == got.place_nr, "%s: %zu", return_row[i].what, got.place_nr);
		returns_release(&got);
	}
}

/* ---- places at the entry ---- */

static const struct {
	const char *what;
	uint32_t word[8];
	unsigned int argument_nr;
	uint32_t offset;
	enum placement_why why;
	const char *instruction;
} placement_row[] = {
	{ "a branch", { CBZ_X0(3), RET }, 1, 0, PLACEMENT_EMULATED, "cbz 0x1000c" },
	{ "behind bti", { BTI_C, CBZ_X0(3), RET }, 1, 4, PLACEMENT_EMULATED, "cbz 0x10010" },
	{ "behind what changes no argument", { BTI_C, MOV_W8_5, MOV_X3_X0, 0x54000060, RET }, 3, 12, PLACEMENT_EMULATED, "b.eq 0x10018" },
	{ "the fourth argument is lost", { BTI_C, MOV_W8_5, MOV_X3_X0, 0x54000060, RET }, 4, 0, PLACEMENT_NONE_IN_REACH, "bti" },
	{ "the first one is lost", { MOV_X0_X1, RET }, 1, 0, PLACEMENT_NONE_IN_REACH, ".inst 0xaa0103e0" },
	{ "the stack moves", { STP_PRE, ADRP_X16, RET }, 1, 0, PLACEMENT_NONE_IN_REACH, ".inst 0xa9bd7bfd" },
	{ "the return address is signed", { PACIASP, ADRP_X16, RET }, 1, 0, PLACEMENT_NONE_IN_REACH, "paciasp" },
	{ "the return address is lost", { 0xaa0903fe, ADRP_X16, RET }, 1, 0, PLACEMENT_NONE_IN_REACH, ".inst 0xaa0903fe" },
	{ "memory changes", { STR_X0_X1, RET }, 1, 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "an exclusive load", { LDAXR, CBZ_X0(2), RET }, 1, 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "a branch back", { NOP, CBZ_X0(2), RET, B(-2) }, 1, 0, PLACEMENT_BRANCH_INTO, "nop" },
	{ "a branch back to the entry", { NOP, CBZ_X0(2), RET, B(-3) }, 1, 4, PLACEMENT_EMULATED, "cbz 0x1000c" },
	{ "a jump through a register", { NOP, CBZ_X0(2), RET, BR(2) }, 1, 0, PLACEMENT_BRANCH_INTO, "nop" },
	{ "a function that only returns", { RET }, 0, 0, PLACEMENT_EMULATED, "ret" },
	{ "no code", { 0x02000000 }, 1, 0, PLACEMENT_NOT_DECODED, NULL },
};

Test(a64_code, probes_sit_where_the_call_is_as_it_was_made)
{
	for (size_t i = 0; i < ARRAY_SIZE(placement_row); i++) {
		struct placement got;

		cr_assert_eq(placement_find(&(struct placement_function){
			.code = placement_row[i].word, .size = sizeof(placement_row[i].word), .address = BASE,
			.elf_machine = EM_AARCH64, .argument_nr = placement_row[i].argument_nr,
		}, &got), 0);
		cr_expect_eq(got.offset, placement_row[i].offset, "%s: +%u", placement_row[i].what, got.offset);
		cr_expect_eq(got.why, placement_row[i].why, "%s: %d", placement_row[i].what, got.why);
		if (placement_row[i].instruction)
			cr_expect_str_eq(got.instruction, placement_row[i].instruction, "%s: %s", placement_row[i].what, got.instruction);
	}
}

Test(a64_code, some_instructions_take_no_probe)
{
	static const uint32_t good[] = {
		RET, NOP, BTI_C, PACIASP, STP_PRE, CBZ_X0(3), BL(3), ADRP_X16, BR(17), 0xd63f0020 /* blr x1 */, 0xd5033bbf /* dmb ish */,
		0xd53bd041 /* mrs x1, tpidr_el0 */, 0xd50b7421 /* dc zva, x1 */, 0x88a07c41 /* cas */, 0xc8dffc22 /* ldar */,
		0xd50320ff /* xpaclri */, 0xd503211f /* pacia1716 */, 0xd503237f /* pacibsp */, 0x04e0e3e0 /* cntd x0 */,
	};
	static const uint32_t bad[] = {
		AUTIASP, RETAA, LDAXR, LDR_LITERAL, LDR_D0_LITERAL, UDF, 0xd4000001 /* svc #0 */, 0xd4200000 /* brk #0 */,
		0xd51bd041 /* msr tpidr_el0, x1 */, 0xd503203f /* yield */, 0xd503251f /* chkfeat x16 */, 0xd73f0822 /* blraa x1, x2 */,
		0xd71f0822 /* braa x1, x2 */, 0x54000070 /* bc.eq */, 0x74000000, 0x48207c40 /* casp */, 0xd8000043 /* prfm, a literal */,
		0xd53b4221 /* mrs x1, daif */, 0x02000000,
	};
	uint8_t code[4];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		cr_expect(!machine_a64.refusal(memcpy(code, &good[i], 4), 4), "%#x", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect(machine_a64.refusal(memcpy(code, &bad[i], 4), 4), "%#x", bad[i]);
	cr_expect(!machine_a64.refusal(code, 3), "a file that ends");
}

Test(a64_code, calls_are_followed_by_return_addresses)
{
	static const uint32_t call[] = { BL(4), 0xd63f0020, 0xd73f0822, B(4), RET, NOP, 0xd2801168, 0xd4000001 };

	for (size_t i = 0; i < ARRAY_SIZE(call); i++) {
		const uint8_t *at = (const uint8_t *)&call[i];
		size_t after = sizeof(call) - 4 * i;

		cr_expect_eq(machine_a64.follows_call(at, 4 * i, after), (i >= 1 && i <= 3) || i == 6, "%zu", i);
	}
	cr_expect_not(machine_a64.follows_call((const uint8_t *)&call[6], 24, 4), "cut off");
}

Test(a64_code, any_words_do_no_harm)
{
	uint32_t word[16];
	struct words words = { word, ARRAY_SIZE(word), EXIT_FOLLOW };
	const struct code_source source = { &words, EM_AARCH64, words_read, words_extent, any_slot, words_returns_argument };

	srand(1);
	for (size_t round = 0; round < 20000; round++) {
		struct placement_function function = { word, sizeof(word), BASE, EM_AARCH64, round % 7 };
		struct returns returns = {};
		struct placement placement;

		for (size_t i = 0; i < ARRAY_SIZE(word); i++) {
			word[i] = (uint32_t)rand() << 16 ^ rand();
			if (rand() % 4 == 0)
				word[i] = B(rand() % 16 - i);
		}
		returns_find(&source, BASE, &returns, NULL);
		for (size_t i = 0; i < returns.place_nr; i++)
			cr_assert_lt(returns.place[i].vaddr - BASE, sizeof(word));
		returns_release(&returns);
		cr_assert_eq(placement_find(&function, &placement), 0);
		cr_assert_lt(placement.offset, sizeof(word));
		machine_a64.refusal((const uint8_t *)word, sizeof(word));
		machine_a64.follows_call((const uint8_t *)&word[1], 4, 4);
	}
}

/* ---- whole libraries ---- */

#define OF_CROSS_COMPILER "/usr/aarch64-linux-gnu/lib/libc.so.6"

static bool begins_with_one(const char *text, const char *const *start, size_t nr)
{
	return array_any(nr, i, !strncmp(text, start[i], strlen(start[i])));
}
#define BEGINS(text, ...) \
	({ static const char *const start_[] = { __VA_ARGS__ }; begins_with_one(text, start_, ARRAY_SIZE(start_)); })

static enum flow judged_flow(const char *text)
{
	if (BEGINS(text, "retaa", "retab", "eret"))
		return FLOW_UNKNOWN;
	if (BEGINS(text, "ret"))
		return FLOW_RETURN;
	if (BEGINS(text, "blr"))
		return FLOW_CALL_ANYWHERE;
	if (BEGINS(text, "br ", "braa", "brab"))
		return FLOW_JUMP_ANYWHERE;
	if (BEGINS(text, "bl "))
		return FLOW_CALL;
	if (BEGINS(text, "b "))
		return FLOW_JUMP;
	if (BEGINS(text, "b.", "cbz", "cbnz", "tbz", "tbnz"))
		return FLOW_BRANCH;
	return BEGINS(text, "brk", "hlt", "udf", "hvc", "smc") ? FLOW_STOP : FLOW_ON;
}

/* A jump to what lies in a register may be known better. */
static enum flow plain_flow(enum flow flow)
{
	return flow == FLOW_CALL_SLOT ? FLOW_CALL_ANYWHERE :
	       flow == FLOW_JUMP_SLOT || flow == FLOW_JUMP_OFFSETS ? FLOW_JUMP_ANYWHERE : flow;
}

/* "cbz x0, 92ad4 <free+0x20>": 92ad4 */
static uint64_t judged_target(const char *text)
{
	const char *at = strrchr(text, ',') ?: strchr(text, ' ');

	return strtoull(at + 1, NULL, 16);
}

static bool judged_emulated(const char *text)
{
	enum flow flow = judged_flow(text);

	return BEGINS(text, "adr ", "adrp ") || (flow != FLOW_ON && flow != FLOW_STOP && flow != FLOW_UNKNOWN &&
						  !BEGINS(text, "braa", "brab", "blraa", "blrab"));
}

/* Whether the kernel places no probe there, in the words of the assembler. */
static bool judged_refused(const char *text)
{
	if (BEGINS(text, "ldr", "prfm"))
		return strchr(text, '<') && !strchr(text, '[');
	if (BEGINS(text, "stxr", "stlxr", "ldxr", "ldaxr", "stxp", "stlxp", "ldxp", "ldaxp"))
		return true;
	return BEGINS(text, "autiasp", "autibsp", "autia1716", "autib1716", "autiaz", "autibz", "retaa", "retab", "braa", "brab", "blraa",
		      "blrab", "svc", "hvc", "smc", "brk", "hlt", "udf", "msr", "eret", "yield", "wfe", "wfi", "sev", "hint", "csdb", "esb",
		      "psb", "dgh", "tsb", "casp", "smstart", "smstop", "cfinv", "axflag", "xaflag", "chkfeat", "gcsb");
}

/* The bit of a register by its name, as in struct insn. */
static uint16_t judged_register(const char *name)
{
	unsigned int number;

	if (!strncmp(name, "sp", 2) || !strncmp(name, "wsp", 3))
		return CHANGES_STACK;
	if ((*name != 'x' && *name != 'w') || sscanf(name + 1, "%u", &number) != 1)
		return 0;
	return number < 8 ? 1 << number : number == 30 ? CHANGES_LINK : 0;
}

/* The registers that it writes: the first operand, or two. UINT16_MAX: it may do more. */
static uint16_t judged_changes(const char *text)
{
	const char *operands = strchr(text, ' ') + 1, *second = strchr(operands, ',');

	if (BEGINS(text, "cmp ", "cmn ", "tst ", "ccmp ", "ccmn ", "nop", "bti"))
		return 0;
	if (strchr(text, '!') || strstr(text, "], ") || (*operands != 'x' && *operands != 'w' && *operands != 's') ||
	    judged_flow(text) != FLOW_ON || judged_refused(text) != BEGINS(text, "ldr") * judged_refused(text) ||
	    BEGINS(text, "st", "cas", "swp", "sys", "ldadd", "ldclr", "ldset", "ldeor", "ldsmax", "ldsmin", "ldumax", "ldumin"))
		return UINT16_MAX;
	if (BEGINS(text, "ldp ", "ldpsw "))
		return judged_register(operands) | judged_register(second + 2);
	return judged_register(operands);
}

struct seen {
	size_t words, known, refused, emulated;
};

static void judge_word(struct insn_reader *reader, const struct listed_insn *listed, struct seen *seen)
{
	const char *text = listed->text;
	struct insn insn;

	if (BEGINS(text, ".inst", ".word"))
		return;
	seen->words++;
	cr_assert(machine_a64.read(reader, listed->byte, 4, listed->vaddr, &insn), "%#lx: %s", listed->vaddr, text);
	cr_expect_eq(plain_flow(insn.flow), judged_flow(text), "%#lx: %s: %d", listed->vaddr, text, insn.flow);
	if (insn.flow == FLOW_JUMP || insn.flow == FLOW_BRANCH || insn.flow == FLOW_CALL)
		cr_expect_eq(insn.target, judged_target(text), "%#lx: %s: %#lx", listed->vaddr, text, insn.target);
	cr_expect_eq(insn.is_emulated, judged_emulated(text), "%#lx: %s", listed->vaddr, text);
	cr_expect_eq(!!machine_a64.refusal(listed->byte, 4), judged_refused(text), "%#lx: %s", listed->vaddr, text);
	if (!(insn.changes & CHANGES_MORE) && !BEGINS(text, "prf")) /* a hint counts as the register with its number */
		cr_expect_eq(insn.changes, judged_changes(text), "%#lx: %s: %#x", listed->vaddr, text, insn.changes);
	seen->known += !(insn.changes & CHANGES_MORE);
	seen->refused += judged_refused(text);
	seen->emulated += insn.is_emulated;
}

struct library {
	struct elf_object *elf;
	struct listed_code code;
	struct listed_symbols symbols;
	struct elf_function *function;
	size_t function_nr;
};

static void judge_words(const struct library *library, const char *path)
{
	struct insn_reader reader;
	struct seen seen = {};

	cr_assert_eq(insn_reader__open(&reader, EM_AARCH64), 0);
	for (size_t i = 0; i < library->code.item_nr; i++)
		judge_word(&reader, &library->code.item[i], &seen);
	insn_reader__close(&reader);
	fprintf(stderr, "%s: %zu words, the effect of %zu is known, %zu are emulated, %zu refused\n", path, seen.words, seen.known,
		seen.emulated, seen.refused);
	cr_expect_gt(seen.known, seen.words / 2);
	cr_expect_gt(seen.refused, 0);
}

/*
 * Each place is a return, or the jump to memset that ends the function. No return of the function's own code is missing, but
 * where swapcontext() goes on later.
 */
static void judge_returns(const struct library *library, const struct elf_function *function, const struct returns *returns)
{
	bool is_whole = strcmp(library->symbols.item[function->name].name, "swapcontext");
	uint64_t end = function->vaddr + function->size;

	for (size_t i = 0; i < returns->place_nr; i++) {
		const struct listed_insn *insn = listed_code__at(&library->code, returns->place[i].vaddr);

		cr_expect(insn && judged_flow(insn->text) == (returns->place[i].is_in_argument ? FLOW_JUMP : FLOW_RETURN), "%#lx: %s",
			  returns->place[i].vaddr, insn ? insn->text : "nothing");
	}
	for (const struct listed_insn *at = listed_code__at(&library->code, function->vaddr);
	     at && at < library->code.item + library->code.item_nr && at->vaddr < end; at++)
		if (judged_flow(at->text) == FLOW_RETURN && is_whole)
			cr_expect(array_any(returns->place_nr, i, returns->place[i].vaddr == at->vaddr), "%#lx: %#lx is missing",
				  function->vaddr, at->vaddr);
}

static void judge_placement(const struct library *library, const struct elf_function *function, size_t *ret_moved)
{
	const struct listed_insn *entry = listed_code__at(&library->code, function->vaddr), *site;
	const struct listed_insn *end = library->code.item + library->code.item_nr;
	uint8_t *code = malloc(function->size);
	struct placement got;

	cr_assert_eq(elf_object__read(library->elf, function->offset, code, function->size), 0);
	cr_assert_eq(placement_find(&(struct placement_function){
		.code = code, .size = function->size, .address = function->vaddr, .elf_machine = EM_AARCH64,
	}, &got), 0);
	free(code);
	site = listed_code__at(&library->code, function->vaddr + got.offset);
	cr_assert(entry && site, "%#lx", function->vaddr);
	cr_expect_eq(got.why == PLACEMENT_EMULATED, judged_emulated(site->text), "%#lx: %s", site->vaddr, site->text);
	for (const struct listed_insn *at = entry; at < site; at++)
		cr_expect_eq(judged_changes(at->text), 0, "%#lx: %s", at->vaddr, at->text);
	for (const struct listed_insn *at = entry; site > entry && at < end && at->vaddr < function->vaddr + function->size; at++) {
		enum flow flow = judged_flow(at->text);

		if (flow == FLOW_JUMP || flow == FLOW_BRANCH || flow == FLOW_CALL)
			cr_expect(judged_target(at->text) - function->vaddr - 1 >= got.offset, "%#lx: %s", at->vaddr, at->text);
	}
	*ret_moved += !!got.offset;
}

static void judge_functions(const struct library *library, const char *path)
{
	size_t followed = 0, moved = 0, of_heap = 0;
	struct code_source source;
	struct elf_code code;

	cr_assert_eq(elf_code_open(&code, library->elf, &source), 0);
	for (size_t i = 0; i < library->function_nr; i++) {
		const struct elf_function *function = &library->function[i];
		bool is_of_heap = array_any(allocator_function_nr, k, !strcmp(allocator_functions[k].name, library->symbols.item[function->name].name));
		struct returns returns = {};
		struct reason why = {};
		int err;

		if (!function->size || function->is_ifunc || !listed_code__at(&library->code, function->vaddr))
			continue;
		judge_placement(library, function, &moved);
		err = returns_find(&source, function->vaddr, &returns, &why);
		if (!err)
			judge_returns(library, function, &returns);
		followed += !err;
		of_heap += is_of_heap;
		cr_expect(!err || !is_of_heap, "%s: %s: %s", path, library->symbols.item[function->name].name, why.text);
		returns_release(&returns);
	}
	fprintf(stderr, "%s: %zu functions, the returns of %zu are known, %zu places behind the entry, %zu of a heap\n", path,
		library->function_nr, followed, moved, of_heap);
	cr_expect_gt(followed, library->function_nr / 2);
	cr_expect_gt(of_heap, 0);
}

static void judge_library(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct library library = { .elf = fd < 0 ? NULL : elf_object__open_of(fd, EM_AARCH64, NULL) };
	const char **name;

	if (!library.elf)
		skip_because("no %s", path);
	close(fd);
	objdump_a64(&library.code, path);
	readelf_functions(&library.symbols, path);
	if (!library.code.item_nr || !library.symbols.item_nr)
		skip_because("no objdump of arm64, or readelf");
	name = calloc(library.symbols.item_nr, sizeof(*name));
	for (size_t i = 0; i < library.symbols.item_nr; i++)
		name[i] = library.symbols.item[i].name;
	cr_assert_eq(elf_object__find_functions(library.elf, name, library.symbols.item_nr, &library.function, &library.function_nr), 0);
	judge_words(&library, path);
	judge_functions(&library, path);
	free(library.function);
	free(name);
	free(library.code.item);
	free(library.symbols.item);
	elf_object__close(library.elf);
}

Test(a64_libraries, of_the_cross_compiler_match_objdump)
{
	judge_library(OF_CROSS_COMPILER);
}

/* Other files, with colons between them. */
Test(a64_libraries, of_other_suites_match_objdump)
{
	char *paths = strdup(getenv("ALLOCSNAP_TEST_ARM64") ?: ""), *rest = paths, *path;

	if (!*paths)
		skip_because("ALLOCSNAP_TEST_ARM64 names no libraries");
	while ((path = strsep(&rest, ":")))
		judge_library(path);
	free(paths);
}
