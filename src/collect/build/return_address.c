// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/build/return_address.h"

#include <elf.h>
#include <string.h>

#include "elf/placement.h"

/* ff /2: a call through a register or memory, with len bytes in total. */
static bool is_indirect_call(const uint8_t *at, size_t len)
{
	return at[0] == 0xff && (at[1] >> 3 & 7) == 2 &&
	       1 + x86_modrm_len(at[1], len > 2 ? at[2] : 0) == len;
}

bool is_return_address(const uint8_t *code, size_t before, size_t after, uint16_t elf_machine)
{
	static const uint8_t sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };

	if (elf_machine != EM_X86_64)
		return true;
	if (before >= 5 && code[-5] == 0xe8)
		return true;
	for (size_t len = 2; len <= RETURN_ADDRESS_BEFORE && len <= before; len++)
		if (is_indirect_call(code - len, len))
			return true;
	return after >= sizeof(sigreturn) && !memcmp(code, sigreturn, sizeof(sigreturn));
}
