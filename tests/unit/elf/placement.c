// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "binutils.h"
#include "elf/elf_object.h"
#include "elf/placement.h"
#include "skip.h"

static int find(const void *code, size_t size, uint64_t address, uint16_t elf_machine,
		struct placement *ret)
{
	return placement_find(&(struct placement_function){ code, size, address, elf_machine, 0 },
			      ret);
}

/* free() has one argument, so code may overwrite rdx. */
Test(placement, protects_only_the_arguments_of_the_function)
{
	static const uint8_t code[] = { 0x31, 0xd2, 0x74, 0x00, 0xc3 }; /* xor edx, edx; je; ret */
	struct placement_function function = { code, sizeof(code), 0, EM_X86_64, 0 };
	static const uint32_t offset[] = { 0, 2, 2, 0, 0, 0, 0 }; /* by argument_nr */
	struct placement got;

	for (unsigned int i = 0; i < sizeof(offset) / sizeof(offset[0]); i++) {
		function.argument_nr = i;
		cr_assert_eq(placement_find(&function, &got), 0);
		cr_expect_eq(got.offset, offset[i], "%u arguments: +%u", i, got.offset);
	}
}

/* pymalloc's malloc: its probe needs no return address. */
Test(placement, may_come_after_a_moved_stack)
{
	static const uint8_t code[] = { 0x48, 0x83, 0xec, 0x18, 0x77, 0 }; /* sub rsp, 24; ja */
	struct placement_function function = { code, sizeof(code), 0, EM_X86_64, 3, true };
	struct placement got;

	cr_assert_eq(placement_find(&function, &got), 0);
	cr_expect_eq(got.offset, 4, "+%u", got.offset);
	function.stack_may_move = false;
	cr_assert_eq(placement_find(&function, &got), 0);
	cr_expect_eq(got.offset, 0, "+%u", got.offset);
}

/* calloc's product is in rdx, too: only where the probe reads two arguments. */
Test(placement, may_come_after_a_multiplication)
{
	static const uint8_t code[] = { 0x48, 0x89, 0xf8, 0x48, 0xf7, 0xe6, 0x70, 0 }; /* mov; mul; jo */
	struct placement_function function = { code, sizeof(code), 0, EM_X86_64, 2 };
	struct placement got;

	cr_assert_eq(placement_find(&function, &got), 0);
	cr_expect_eq(got.offset, 6, "+%u", got.offset);
	function.argument_nr = 3;
	cr_assert_eq(placement_find(&function, &got), 0);
	cr_expect_eq(got.offset, 0, "+%u", got.offset);
}

#define ADDRESS 0x1000

/* Byte strings: sizeof - 1 bytes of code, which may hold NULs. */
#define CODE(bytes) bytes, sizeof(bytes) - 1

#define TEST "\x48\x85\xff" /* test rdi, rdi */
#define JE "\x74\x10"	    /* je, to well behind */
#define ENDBR64 "\xf3\x0f\x1e\xfa"
#define RET "\xc3"
#define NOP5 "\x0f\x1f\x44\0\0"

static const struct {
	const char *what;
	const char *code;
	size_t size;
	uint32_t offset;
	enum placement_why why;
	const char *instruction;
} row[] = {
	/* emulated at the entry */
	{ "push", CODE("\x55"), 0, PLACEMENT_EMULATED, "push rbp" },
	{ "push r12", CODE("\x41\x54"), 0, PLACEMENT_EMULATED, "push r12" },
	{ "nop", CODE("\x90"), 0, PLACEMENT_EMULATED, "nop" },
	{ "jmp short", CODE("\xeb\x10"), 0, PLACEMENT_EMULATED, "jmp 0x1012" },
	{ "jmp near", CODE("\xe9\x10\0\0\0"), 0, PLACEMENT_EMULATED, "jmp 0x1015" },
	{ "call", CODE("\xe8\x10\0\0\0"), 0, PLACEMENT_EMULATED, "call 0x1015" },
	{ "jcc", CODE("\x7f\x10"), 0, PLACEMENT_EMULATED, "jg 0x1012" },
	{ "jcc near", CODE("\x0f\x84\0\x01\0\0"), 0, PLACEMENT_EMULATED, "je 0x1106" },

	/* not emulated, or not by all kernels, and ending the line */
	{ "rex push", CODE("\x40\x55" JE), 0, PLACEMENT_NONE_IN_REACH, "push rbp" },
	{ "rex.w push r12", CODE("\x49\x54" JE), 0, PLACEMENT_NONE_IN_REACH, "push r12" },
	{ "push imm", CODE("\x6a\x01" JE), 0, PLACEMENT_NONE_IN_REACH, "push 1" },
	{ "push mem", CODE("\xff\x37" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "xchg r8, rax", CODE("\x49\x90" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "pause", CODE("\xf3\x90" JE), 0, PLACEMENT_NONE_IN_REACH, "pause" },
	{ "bnd jmp", CODE("\xf2\xe9\x10\0\0\0"), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "data16 jmp", CODE("\x66\xe9\x10\0\0\0\0\0"), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "je, taken", CODE("\x3e\x74\x10" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "jrcxz", CODE(TEST "\xe3\x10" JE), 0, PLACEMENT_NONE_IN_REACH, "test rdi, rdi" },
	{ "loop", CODE("\xe2\x10" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "jmp *mem", CODE("\xff\x25\x10\0\0\0" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "call *rax", CODE("\xff\xd0" JE), 0, PLACEMENT_NONE_IN_REACH, "call rax" },
	{ "ret", CODE(RET "\x55"), 0, PLACEMENT_NONE_IN_REACH, "ret" },
	{ "return 0", CODE("\x31\xc0" RET "\x55"), 0, PLACEMENT_NONE_IN_REACH, "xor eax, eax" },
	{ "end without a ret", CODE(TEST), 0, PLACEMENT_NONE_IN_REACH, "test rdi, rdi" },
	{ "int3", CODE("\xcc" JE), 0, PLACEMENT_NONE_IN_REACH, "int3" },
	{ "ud2", CODE("\x0f\x0b" JE), 0, PLACEMENT_NONE_IN_REACH, "ud2" },
	{ "syscall", CODE("\x0f\x05" JE), 0, PLACEMENT_NONE_IN_REACH, "syscall" },

	/* on the line */
	{ "test, je", CODE(TEST JE), 3, PLACEMENT_EMULATED, "je 0x1015" },
	{ "test, je near", CODE(TEST "\x0f\x84\0\x01\0\0"), 3, PLACEMENT_EMULATED, "je 0x1109" },
	{ "endbr64, push", CODE(ENDBR64 "\x53"), 4, PLACEMENT_EMULATED, "push rbx" },
	{ "endbr64, jmp", CODE(ENDBR64 "\xe9\1\0\0\0"), 4, PLACEMENT_EMULATED, "jmp 0x100a" },
	{ "long nop, push", CODE("\x0f\x1f\x40\0\x55"), 4, PLACEMENT_EMULATED, "push rbp" },
	{ "data16 nop, push", CODE("\x66\x90\x55"), 2, PLACEMENT_EMULATED, "push rbp" },
	{ "cmpb global, push", CODE("\x80\x3d\1\2\3\0\0\x41\x54"), 7, PLACEMENT_EMULATED,
	  "push r12" },
	{ "mov fs:0x28, je", CODE("\x64\x48\x8b\x04\x25\x28\0\0\0" JE), 9, PLACEMENT_EMULATED,
	  NULL },
	{ "cmov rax, je", CODE("\x48\x0f\x45\xc7" JE), 4, PLACEMENT_EMULATED, NULL },
	{ "sete al, call", CODE("\x0f\x94\xc0\xe8\x10\0\0\0"), 3, PLACEMENT_EMULATED,
	  "call 0x1018" },
	{ "movq xmm0, rdi, push", CODE("\x66\x48\x0f\x6e\xc7\x55"), 5, PLACEMENT_EMULATED, NULL },

	/* nops of five bytes: never on one, if that can be */
	{ "nop5, push", CODE(NOP5 "\x55"), 5, PLACEMENT_EMULATED, "push rbp" },
	{ "nop5, sub rsp", CODE(NOP5 "\x48\x83\xec\x08" JE), 5, PLACEMENT_BEHIND_NOP, "sub rsp, 8" },
	{ "nop5 twice, ret", CODE(NOP5 NOP5 RET), 10, PLACEMENT_BEHIND_NOP, "ret" },
	{ "nop5, back to behind it", CODE(NOP5 "\x48\x83\xec\x08\x75\xfa" RET), 0, PLACEMENT_NONE_IN_REACH,
	  "nop dword ptr [rax + rax]" },
	{ "nop5, back to itself", CODE(NOP5 "\x48\x83\xec\x08\x75\xf5" RET), 5, PLACEMENT_BEHIND_NOP, NULL },
	{ "nop5, through a table", CODE(NOP5 "\x48\x83\xec\x08\xff\xe0"), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "nop5, garbage", CODE(NOP5 "\x06"), 0, PLACEMENT_NOT_DECODED, NULL },
	{ "nop5 alone", CODE(NOP5), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "endbr64, nop5, ret", CODE(ENDBR64 NOP5 RET), 0, PLACEMENT_NONE_IN_REACH, "endbr64" },
	{ "jmp to the next", CODE("\xe9\0\0\0\0\x55"), 0, PLACEMENT_NONE_IN_REACH, NULL },

	/* something before the branch that the probe must not miss */
	{ "sub rsp", CODE("\x48\x83\xec\x08" JE), 0, PLACEMENT_NONE_IN_REACH, "sub rsp, 8" },
	{ "lea rsp", CODE("\x48\x8d\x64\x24\xf8" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "pop", CODE("\x58" JE), 0, PLACEMENT_NONE_IN_REACH, "pop rax" },
	{ "leave", CODE("\xc9" JE), 0, PLACEMENT_NONE_IN_REACH, "leave" },
	{ "endbr64, mov edi, jmp", CODE(ENDBR64 "\xbf\1\0\0\0\xeb\x10"), 0,
	  PLACEMENT_NONE_IN_REACH, "endbr64" },
	{ "mul writes rdx", CODE("\x48\x89\xf8\x48\xf7\xe6\x70\x10"), 0, PLACEMENT_NONE_IN_REACH,
	  "mov rax, rdi" },
	{ "imul rsi", CODE("\x48\xf7\xee" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "div rcx", CODE("\x48\xf7\xf1" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "cqo", CODE("\x48\x99" JE), 0, PLACEMENT_NONE_IN_REACH, "cqo" },
	{ "xchg rax, rdi", CODE("\x48\x97" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "xadd rax, rdi", CODE("\x48\x0f\xc1\xf8" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "cmpxchg rdi, rax", CODE("\x48\x0f\xb1\xc7" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "bts rdi, 1", CODE("\x48\x0f\xba\xef\x01" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "rep movsb", CODE("\xf3\xa4" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "lodsb", CODE("\xac" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "cpuid", CODE("\x0f\xa2" JE), 0, PLACEMENT_NONE_IN_REACH, "cpuid" },
	{ "rdtsc", CODE("\x0f\x31" JE), 0, PLACEMENT_NONE_IN_REACH, "rdtsc" },
	{ "cmovne rdi, rax", CODE("\x48\x0f\x45\xf8" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "sete dl", CODE("\x0f\x94\xc2" JE), 0, PLACEMENT_NONE_IN_REACH, "sete dl" },
	{ "a store", CODE("\x48\xc7\x07\0\0\0\0" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "a locked store", CODE("\xf0\x48\xff\x07" JE), 0, PLACEMENT_NONE_IN_REACH, NULL },
	{ "a spill below the stack", CODE("\x48\x89\x7c\x24\xf8" JE), 0, PLACEMENT_NONE_IN_REACH,
	  NULL },

	/* branches back: 0 test, 3 je, 5 dec rax, 8 jne, 10 ret */
	{ "to the site", CODE(TEST JE "\x48\xff\xc8\x75\xf9" RET), 0, PLACEMENT_BRANCH_INTO,
	  "test rdi, rdi" },
	{ "before the site", CODE(ENDBR64 TEST JE "\x75\xf9" RET), 0, PLACEMENT_BRANCH_INTO,
	  "endbr64" },
	{ "behind the site", CODE(TEST JE "\x48\xff\xc8\x75\xfb" RET), 3, PLACEMENT_EMULATED,
	  NULL },
	{ "to the entry", CODE(TEST JE "\x48\xff\xc8\x75\xf6" RET), 3, PLACEMENT_EMULATED, NULL },
	{ "near", CODE(TEST JE "\x0f\x85\xf8\xff\xff\xff" RET), 0, PLACEMENT_BRANCH_INTO, NULL },
	{ "jmp", CODE(TEST JE "\xe9\xf9\xff\xff\xff"), 0, PLACEMENT_BRANCH_INTO, NULL },
	{ "loop", CODE(TEST JE "\xe2\xfc" RET), 0, PLACEMENT_BRANCH_INTO, NULL },
	{ "jrcxz", CODE(TEST JE "\xe3\xfc" RET), 0, PLACEMENT_BRANCH_INTO, NULL },
	{ "xbegin", CODE(TEST JE "\xc7\xf8\xf8\xff\xff\xff" RET), 0, PLACEMENT_BRANCH_INTO, NULL },
	{ "call", CODE(TEST JE "\xe8\xf9\xff\xff\xff" RET), 0, PLACEMENT_BRANCH_INTO, NULL },
	{ "call of itself", CODE(TEST JE "\xe8\xf6\xff\xff\xff" RET), 3, PLACEMENT_EMULATED, NULL },
	{ "through a register", CODE(TEST JE "\xff\xe0"), 0, PLACEMENT_BRANCH_INTO, NULL },
	{ "through a register, notrack", CODE(TEST JE "\x3e\xff\xe0"), 0, PLACEMENT_BRANCH_INTO, NULL },
	{ "through a table", CODE(TEST JE "\xff\x24\xc5\0\0\0\0"), 0, PLACEMENT_BRANCH_INTO, NULL },
	{ "through a pointer", CODE(TEST JE "\xff\x25\0\0\0\0"), 3, PLACEMENT_EMULATED, NULL },
	{ "through a table, with the site at the entry", CODE(JE "\xff\xe0"), 0, PLACEMENT_EMULATED,
	  NULL },
	{ "the site to itself", CODE(TEST "\x74\xfe" RET), 0, PLACEMENT_BRANCH_INTO, NULL },
	{ "behind garbage", CODE(TEST JE RET "\x06\xeb\xfa"), 0, PLACEMENT_BRANCH_INTO, NULL },
	{ "out of step", CODE(TEST JE RET "\x06\xb8\xeb\xf9\0\0" RET), 0, PLACEMENT_BRANCH_INTO,
	  NULL },
	{ "inside a constant", CODE(TEST JE "\xb8\xeb\xfb\0\0" RET), 3, PLACEMENT_EMULATED, NULL },

	/* no code */
	{ "nothing", CODE(""), 0, PLACEMENT_NOT_DECODED, "" },
	{ "garbage", CODE("\x06\x55"), 0, PLACEMENT_NOT_DECODED, "" },
	{ "garbage on the line", CODE(TEST "\x06\x55"), 0, PLACEMENT_NOT_DECODED, "test rdi, rdi" },
	{ "cut in the first", CODE("\x48\x85"), 0, PLACEMENT_NOT_DECODED, "" },
	{ "cut in the branch", CODE(TEST "\x0f\x84\0"), 0, PLACEMENT_NOT_DECODED, "test rdi, rdi" },
	{ "garbage behind", CODE(TEST JE "\x06\x06"), 3, PLACEMENT_EMULATED, "je 0x1015" },
};

Test(placement, follows_the_rules_for_each_instruction)
{
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct placement got;
		/* A copy of the exact size, so that ASan sees a read behind it. */
		char *code = memcpy(malloc(row[i].size ?: 1), row[i].code, row[i].size);

		cr_assert_eq(find(code, row[i].size, ADDRESS, EM_X86_64, &got), 0);
		cr_expect_eq(got.offset, row[i].offset, "%s: %u %s", row[i].what, got.offset,
			     got.instruction);
		cr_expect_eq(got.why, row[i].why, "%s: why %d", row[i].what, got.why);
		if (row[i].instruction)
			cr_expect_str_eq(got.instruction, row[i].instruction, "%s", row[i].what);
		free(code);
	}
}

/* mov of a constant to every general register in every width, then je. */
static size_t encode_mov(uint8_t code[16], unsigned int reg, unsigned int width)
{
	uint8_t rex = 0x40 | (width == 64 ? 8 : 0) | (reg >> 3);
	size_t nr = 0;

	if (width == 16)
		code[nr++] = 0x66;
	code[nr++] = rex;
	code[nr++] = (width == 8 ? 0xb0 : 0xb8) | (reg & 7);
	memset(code + nr, 0, 8);
	nr += width / 8;
	memcpy(code + nr, JE, 2);
	return nr;
}

Test(placement, detects_writes_of_registers_of_every_width)
{
	for (unsigned int reg = 0; reg < 16; reg++)
		for (unsigned int width = 8; width <= 64; width *= 2) {
			bool precious = 0x03d6 >> reg & 1; /* cx dx sp si di r8 r9 */
			struct placement got;
			uint8_t code[16];
			size_t nr = encode_mov(code, reg, width);

			cr_assert_eq(find(code, nr + 2, ADDRESS, EM_X86_64, &got), 0);
			cr_expect_eq(got.offset, precious ? 0 : nr, "register %u, %u bits: %s", reg,
				     width, got.instruction);
		}
}

Test(placement, detects_writes_of_high_bytes)
{
	for (unsigned int reg = 4; reg < 8; reg++) { /* ah ch dh bh */
		uint8_t code[] = { 0xb0 + reg, 1, 0x74, 0x10 };
		struct placement got;

		cr_assert_eq(find(code, sizeof(code), ADDRESS, EM_X86_64, &got), 0);
		cr_expect_eq(got.offset, reg == 5 || reg == 6 ? 0 : 2, "register %u", reg);
	}
}

Test(placement, stays_at_the_entry_for_other_machines)
{
	static const uint8_t code[] = { 0x48, 0x85, 0xff, 0x74, 0x10 };
	struct placement got;

	cr_assert_eq(find(code, sizeof(code), ADDRESS, EM_RISCV, &got), 0);
	cr_expect_eq(got.offset, 0);
	cr_expect_eq(got.why, PLACEMENT_NOT_DECODED);
	cr_expect_str_eq(got.instruction, "");
}

/* Code beyond the first 64 KiB could branch back, so only smaller functions have their probe moved. */
Test(placement, stays_at_the_entry_of_large_functions)
{
	size_t size = 64 << 10;
	uint8_t *code = malloc(size + 1);
	struct placement got;

	memset(code, 0x90, size + 1);
	memcpy(code, TEST JE, 5);
	cr_assert_eq(find(code, size - 1, ADDRESS, EM_X86_64, &got), 0);
	cr_expect_eq(got.offset, 3);
	cr_assert_eq(find(code, size, ADDRESS, EM_X86_64, &got), 0);
	cr_expect_eq(got.offset, 0);
	cr_assert_eq(find(code, size + 1, ADDRESS, EM_X86_64, &got), 0);
	cr_expect_eq(got.offset, 0);
	cr_expect_eq(got.why, PLACEMENT_NONE_IN_REACH);
	code[0] = 0x55;
	cr_assert_eq(find(code, size + 1, ADDRESS, EM_X86_64, &got), 0);
	cr_expect_eq(got.why, PLACEMENT_EMULATED);
	free(code);
}

Test(placement, survives_random_bytes)
{
	srand(1);
	for (size_t round = 0; round < 20000; round++) {
		size_t size = 1 + rand() % 48;
		uint8_t *code = malloc(size);
		struct placement got;

		for (size_t i = 0; i < size; i++)
			code[i] = rand();
		cr_assert_eq(find(code, size, -16ull, EM_X86_64, &got), 0);
		cr_assert_lt(got.offset, size);
		free(code);
	}
}

Test(placement, recognizes_nops_of_five_bytes)
{
	static const struct {
		const char *bytes;
		bool is;
	} row[] = {
		{ NOP5, true },
		{ "\x66\x0f\x1f\x40\0", true },
		{ "\x66\x66\x0f\x1f\0", true },
		{ "\x2e\x2e\x2e\x2e\x90", true },
		{ "\x66\x66\x66\x48\x90", true },
		{ "\xe9\0\0\0\0", true },
		{ "\x66\x66\x66\xeb\0", true },
		{ "\x48\x8d\x64\x24\0", true }, /* lea (rsp), rsp */
		{ "\x66\x66\x48\x89\xff", true }, /* mov rdi, rdi */
		{ "\x0f\x1f\x40\0\x55", false }, /* of four bytes */
		{ "\x0f\x1f\x84\0\0", false }, /* of eight */
		{ "\x90\x90\x90\x90\x90", false },
		{ "\xe9\0\0\0\1", false },
		{ "\xe8\0\0\0\0", false },
		{ "\x48\x8d\x64\x24\xf8", false }, /* lea -8(rsp), rsp */
		{ "\x4c\x8d\x54\x24\x08", false },
		{ "\x48\x89\xff\x55\x90", false },
		{ ENDBR64 "\x90", false },
		{ "\x66\x66\x66\x66\x66", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		cr_expect_eq(is_nop5((const uint8_t *)row[i].bytes, 5), row[i].is, "row %zu", i);
		cr_expect(!is_nop5((const uint8_t *)row[i].bytes, 4), "row %zu, cut", i);
	}
}

/* Placement in the libraries of this machine, compared with objdump. */

#define LIB "/usr/lib/x86_64-linux-gnu/"

/* Read by hand. A row does not apply to a build whose function starts with other bytes. */
static const struct {
	const char *path, *function;
	const char *code;
	size_t code_nr;
	uint32_t offset;
	enum placement_why why;
	const char *instruction; /* how it begins */
	unsigned int argument_nr;
} library_row[] = {
	{ LIB "libc.so.6", "malloc", CODE("\x41\x54"), 0, PLACEMENT_EMULATED, "push r12" },
	{ LIB "libc.so.6", "free", CODE("\x48\x85\xff\x0f\x84"), 3, PLACEMENT_EMULATED, "je 0x" },
	{ LIB "libc.so.6", "calloc", CODE("\x41\x55"), 0, PLACEMENT_EMULATED, "push r13" },
	{ LIB "libc.so.6", "realloc", CODE("\x41\x57"), 0, PLACEMENT_EMULATED, "push r15" },
	{ LIB "libc.so.6", "posix_memalign", CODE("\x80\x3d\x01\x02\x14\x00\x00\x41\x54"), 7,
	  PLACEMENT_EMULATED, "push r12" },
	{ LIB "libc.so.6", "mremap", CODE("\x48\x83\xec\x58"), 0, PLACEMENT_NONE_IN_REACH,
	  "sub rsp, 0x58" },
	{ LIB "libstdc++.so.6", "_Znwm", CODE("\xf3\x0f\x1e\xfa\x48\x85\xff\xb8\x01\0\0\0\x53"),
	  12, PLACEMENT_EMULATED, "push rbx" },
	{ LIB "libstdc++.so.6", "_Znam", CODE("\xf3\x0f\x1e\xfa\xe9"), 4, PLACEMENT_EMULATED,
	  "jmp 0x" },
	{ LIB "libstdc++.so.6", "_ZdlPv", CODE("\xf3\x0f\x1e\xfa\xe9"), 4, PLACEMENT_EMULATED,
	  "jmp 0x" },
	{ LIB "libjemalloc.so.2", "malloc", CODE("\x48\x81\xff\x00\x10\x00\x00\x0f\x87"), 7,
	  PLACEMENT_EMULATED, "ja 0x" },
	{ LIB "libjemalloc.so.2", "free", CODE("\x48\x89\xf8\x48\x8b\x15"), 0,
	  PLACEMENT_NONE_IN_REACH, "mov rax, rdi" },
	{ LIB "libjemalloc.so.2", "free", CODE("\x48\x89\xf8\x48\x8b\x15"), 48,
	  PLACEMENT_EMULATED, "jne 0x", 1 },
	{ LIB "libjemalloc.so.2", "calloc", CODE("\x41\x57"), 0, PLACEMENT_EMULATED, "push r15" },
	{ LIB "libjemalloc.so.2", "realloc", CODE("\x41\x57"), 0, PLACEMENT_EMULATED, "push r15" },
	{ LIB "libjemalloc.so.2", "posix_memalign", CODE("\x41\x57"), 0, PLACEMENT_EMULATED,
	  "push r15" },
	{ LIB "libjemalloc.so.2", "_Znwm", CODE("\x48\x81\xff\x00\x10\x00\x00\x0f\x87"), 7,
	  PLACEMENT_EMULATED, "ja 0x" },
};

static struct elf_object *open_library(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_object *obj = fd >= 0 ? elf_object__open(fd, NULL) : NULL;

	if (fd >= 0)
		close(fd);
	return obj;
}

static uint8_t *place(struct elf_object *obj, const struct elf_function *function,
		      unsigned int argument_nr, struct placement *ret)
{
	uint8_t *code = malloc(function->size ?: 1);

	cr_assert_eq(elf_object__read(obj, function->offset, code, function->size), 0);
	cr_assert_eq(placement_find(&(struct placement_function){
		.code = code,
		.size = function->size,
		.address = function->vaddr,
		.elf_machine = elf_object__machine(obj),
		.argument_nr = argument_nr,
	}, ret), 0);
	return code;
}

static bool check_row(size_t i, struct elf_object *obj)
{
	struct elf_function *function;
	struct placement got;
	bool known = false;
	size_t function_nr;
	uint8_t *code;

	cr_assert_eq(elf_object__find_functions(obj, &library_row[i].function, 1, &function, &function_nr),
		     0);
	cr_assert_eq(function_nr, 1, "%s: %zu", library_row[i].function, function_nr);
	code = place(obj, function, library_row[i].argument_nr, &got);
	if (function->size >= library_row[i].code_nr && !memcmp(code, library_row[i].code, library_row[i].code_nr)) {
		known = true;
		cr_expect_eq(got.offset, library_row[i].offset, "%s %s: +%u %s", library_row[i].path,
			     library_row[i].function, got.offset, got.instruction);
		cr_expect_eq(got.why, library_row[i].why, "%s: why %d", library_row[i].function, got.why);
		cr_expect(!strncmp(got.instruction, library_row[i].instruction,
				   strlen(library_row[i].instruction)),
			  "%s %s: %s", library_row[i].path, library_row[i].function, got.instruction);
	}
	free(code);
	free(function);
	return known;
}

Test(placement_libraries, known_functions_have_the_expected_placement)
{
	size_t known = 0;

	for (size_t i = 0; i < ARRAY_SIZE(library_row); i++) {
		struct elf_object *obj = open_library(library_row[i].path);

		if (!obj) {
			cr_log_info("no %s", library_row[i].path);
			continue;
		}
		if (check_row(i, obj))
			known++;
		else
			cr_log_info("another build of %s: %s not judged", library_row[i].path,
				    library_row[i].function);
		elf_object__close(obj);
	}
	if (!known)
		skip_because("none of the libraries that this test knows is here");
}

/* ---- every function of a library, against objdump ---- */

static bool judge_emulated(const struct listed_insn *insn)
{
	static const char *const start[] = { "push ", "nop", "jmp ", "call ", "j" };
	static const uint8_t plain[] = { 0x90, 0xe8, 0xe9, 0xeb };
	uint8_t a = insn->byte[0], b = insn->byte[1];
	bool text = false;

	for (size_t i = 0; i < ARRAY_SIZE(start); i++)
		text |= !strncmp(insn->text, start[i], strlen(start[i]));
	return text && (memchr(plain, a, sizeof(plain)) || (a & 0xf0) == 0x70 ||
			(a & 0xf8) == 0x50 || (a == 0x41 && (b & 0xf8) == 0x50) ||
			(a == 0x0f && (b & 0xf0) == 0x80));
}

static bool starts_with_one_of(const char *text, const char *const *start, size_t start_nr)
{
	for (size_t i = 0; i < start_nr; i++)
		if (!strncmp(text, start[i], strlen(start[i])))
			return true;
	return false;
}

/* The instruction writes AT&T's last operand; the mnemonic shows whether it writes more. */
static bool judge_harmless(const char *text)
{
	static const char *const looks[] = {
		"cmp", "test", "nop", "endbr64", "bt ", "xchg   %ax,%ax", "data16", "cs nop",
	};
	static const char *const more[] = {
		"push",	   "pop",   "j",       "call",	   "ret",     "bnd",	"notrack", "rep",
		"mul",	   "div",   "idiv",    "cqto",	   "cltd",    "xchg ",	"xadd",	   "lods",
		"leave",   "enter", "int3",    "ud2",	   "hlt",     "stos",	"loop",	   "lock",
		"syscall", "cpuid", "rdtsc",   "xbegin",   "cmpxchg", "bts",	"btr",	   "btc",
		"movsb  (", "movsw  (", "movsl  (", "movsq  (",
	};
	static const char precious[] =
		" %rdi %edi %di %dil %rsi %esi %si %sil %rdx %edx %dx %dl %dh %rcx %ecx %cx %cl %ch"
		" %rsp %esp %sp %spl %r8 %r8d %r8w %r8b %r9 %r9d %r9w %r9b ";
	const char *last = strrchr(text, ',') ?: strrchr(text, ' ');
	char word[64];

	if (starts_with_one_of(text, looks, ARRAY_SIZE(looks)))
		return strncmp(text, "cmpxchg", 7);
	if (starts_with_one_of(text, more, ARRAY_SIZE(more)))
		return false;
	if (!strncmp(text, "imul", 4) && !strchr(text, ','))
		return false;
	if (!last || last[1] != '%' || strpbrk(last, ":()"))
		return false;
	snprintf(word, sizeof(word), " %s ", last + 1);
	return !strstr(precious, word);
}

/* "je     98f00 <free+0x10>": 98f00; 0 for what has no such target. */
static uint64_t judge_target(const char *text)
{
	const char *operand = strchr(text, ' ');

	if (text[0] != 'j' && strncmp(text, "call", 4) && strncmp(text, "loop", 4) &&
	    strncmp(text, "xbegin", 6))
		return 0;
	return operand ? strtoull(operand, NULL, 16) : 0;
}

static const char *judge(const struct listed_code *code, const struct elf_function *function,
			 uint32_t offset)
{
	const struct listed_insn *entry = listed_code__at(code, function->vaddr);
	const struct listed_insn *site = listed_code__at(code, function->vaddr + offset);
	const struct listed_insn *end = code->item + code->item_nr;

	if (!entry || !site)
		return "no instruction starts there";
	if (!judge_emulated(site))
		return "not emulated";
	for (const struct listed_insn *at = entry; at < site; at++)
		if (!judge_harmless(at->text))
			return at->text;
	for (const struct listed_insn *at = entry;
	     at < end && at->vaddr < function->vaddr + function->size; at++) {
		uint64_t target = judge_target(at->text);

		if (target > function->vaddr && target <= site->vaddr)
			return "a branch goes there";
	}
	return NULL;
}

struct tally {
	size_t functions, at_entry, moved, stayed;
};

static void judge_function(struct tally *tally, struct elf_object *obj,
			   const struct listed_code *code, const struct elf_function *function)
{
	const struct listed_insn *entry = listed_code__at(code, function->vaddr);
	struct placement got;
	const char *wrong;

	if (!entry || !function->size)
		return;
	free(place(obj, function, 0, &got));
	tally->functions++;
	if (got.why != PLACEMENT_EMULATED) {
		tally->stayed++;
		cr_expect_eq(got.offset, 0, "%#lx", function->vaddr);
		cr_expect_not(judge_emulated(entry), "%#lx: %s", function->vaddr, entry->text);
		return;
	}
	tally->at_entry += !got.offset;
	tally->moved += !!got.offset;
	wrong = judge(code, function, got.offset);
	cr_expect_null(wrong, "%#lx+%u %s: %s", function->vaddr, got.offset, got.instruction,
		       wrong);
}

static void judge_library(const char *path)
{
	struct elf_object *obj = open_library(path);
	struct listed_symbols symbols = { 0 };
	struct listed_code code = { 0 };
	struct elf_function *function;
	struct tally tally = { 0 };
	size_t function_nr;
	const char **name;

	if (!obj)
		skip_because("no %s", path);
	readelf_functions(&symbols, path);
	objdump_code(&code, path);
	if (!symbols.item_nr || !code.item_nr)
		skip_because("no readelf or objdump");
	name = calloc(symbols.item_nr, sizeof(*name));
	for (size_t i = 0; i < symbols.item_nr; i++)
		name[i] = symbols.item[i].name;
	cr_assert_eq(elf_object__find_functions(obj, name, symbols.item_nr, &function,
						&function_nr), 0);
	for (size_t i = 0; i < function_nr; i++)
		judge_function(&tally, obj, &code, &function[i]);
	cr_log_info("%s: %zu functions, %zu at the entry, %zu moved, %zu stayed", path,
		    tally.functions, tally.at_entry, tally.moved, tally.stayed);
	cr_expect_gt(tally.functions, 0);
	cr_expect_gt(tally.moved, 0);
	free(function);
	free(name);
	free(code.item);
	free(symbols.item);
	elf_object__close(obj);
}

Test(placement_libraries, all_functions_of_libc_have_a_safe_placement)
{
	judge_library(LIB "libc.so.6");
}

Test(placement_libraries, all_functions_of_jemalloc_have_a_safe_placement)
{
	judge_library(LIB "libjemalloc.so.2");
}
