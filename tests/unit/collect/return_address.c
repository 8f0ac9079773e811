// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/build/resolve_tracebacks.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static const struct {
	const char *what;
	uint8_t before[RETURN_ADDRESS_BEFORE]; /* right-aligned: the last byte ends at the address */
	size_t before_nr;
	bool is_call;
} row[] = {
	{ "call rel32", { 0, 0, 0xe8, 1, 2, 3, 4 }, 7, true },
	{ "call rel32 cut off by the mapping's start", { 0, 0, 0xe8, 1, 2, 3, 4 }, 4, false },
	{ "call *%rax", { 0, 0, 0, 0, 0, 0xff, 0xd0 }, 7, true },
	{ "call *(%rbx)", { 0, 0, 0, 0, 0, 0xff, 0x13 }, 7, true },
	{ "call *8(%rax)", { 0, 0, 0, 0, 0xff, 0x50, 0x08 }, 7, true },
	{ "call *8(%rsp)", { 0, 0, 0, 0xff, 0x54, 0x24, 0x08 }, 7, true },
	{ "call *0x1234(%rip)", { 0, 0xff, 0x15, 0x34, 0x12, 0, 0 }, 7, true },
	{ "call *0x100(%rax)", { 0, 0xff, 0x90, 0, 1, 0, 0 }, 7, true },
	{ "call *0x100(%rsp)", { 0xff, 0x94, 0x24, 0, 1, 0, 0 }, 7, true },
	{ "call *0(,%rax,8)", { 0xff, 0x14, 0xc5, 0, 0, 0, 0 }, 7, true },
	{ "jmp *%rax", { 0, 0, 0, 0, 0, 0xff, 0xe0 }, 7, false },
	{ "push %rax", { 0, 0, 0, 0, 0, 0xff, 0xf0 }, 7, false },
	{ "nops", { 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90 }, 7, false },
	{ "ret", { 0, 0, 0, 0, 0, 0, 0xc3 }, 7, false },
	{ "nothing before", { 0 }, 0, false },
};

Test(return_address, comes_directly_after_a_call)
{
	static const uint8_t after[RETURN_ADDRESS_AFTER] = { 0x48, 0x89, 0xc3 };

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		uint8_t code[RETURN_ADDRESS_BEFORE + RETURN_ADDRESS_AFTER];

		memcpy(code, row[i].before, RETURN_ADDRESS_BEFORE);
		memcpy(code + RETURN_ADDRESS_BEFORE, after, sizeof(after));
		cr_expect_eq(is_return_address(code + RETURN_ADDRESS_BEFORE, row[i].before_nr,
					       RETURN_ADDRESS_AFTER, EM_X86_64),
			     row[i].is_call, "%s", row[i].what);
	}
}

Test(return_address, may_be_the_signal_return_code)
{
	static const uint8_t code[RETURN_ADDRESS_BEFORE + RETURN_ADDRESS_AFTER] = {
		0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
		0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05,
	};
	const uint8_t *at = code + RETURN_ADDRESS_BEFORE;

	cr_expect(is_return_address(at, RETURN_ADDRESS_BEFORE, RETURN_ADDRESS_AFTER, EM_X86_64));
	cr_expect_not(is_return_address(at, RETURN_ADDRESS_BEFORE, 8, EM_X86_64));
}

Test(return_address, of_other_machines_is_accepted)
{
	static const uint8_t code[1];

	cr_expect(is_return_address(code, 0, 0, EM_RISCV));
}

/* Every call that objdump sees in the C library: the address behind it must pass. */
Test(return_address, is_recognized_after_every_call_in_libc)
{
	FILE *calls = popen("objdump -d --no-show-raw-insn -j .text /lib/x86_64-linux-gnu/libc.so.6 |"
			    " awk '/^ /{if (was_call) print $1; was_call = ($2 == \"call\")}'", "r");
	FILE *libc = fopen("/lib/x86_64-linux-gnu/libc.so.6", "re");
	uint8_t code[RETURN_ADDRESS_BEFORE + RETURN_ADDRESS_AFTER];
	unsigned long address, call_nr = 0;

	cr_assert_not_null(libc);
	while (fscanf(calls, "%lx:", &address) == 1) {
		/* .text of libc is mapped at its offset in the file */
		fseek(libc, address - RETURN_ADDRESS_BEFORE, SEEK_SET);
		cr_assert_eq(fread(code, 1, sizeof(code), libc), sizeof(code));
		cr_expect(is_return_address(code + RETURN_ADDRESS_BEFORE, RETURN_ADDRESS_BEFORE,
					    RETURN_ADDRESS_AFTER, EM_X86_64),
			  "0x%lx", address);
		call_nr++;
	}
	cr_expect_gt(call_nr, 1000, "objdump found %lu calls", call_nr);
	pclose(calls);
	fclose(libc);
}
