// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/nop5.h"

#include <string.h>

/* Intel SDM vol. 2, 2.1.5 */
size_t x86_modrm_len(uint8_t modrm, uint8_t sib)
{
	uint8_t mod = modrm >> 6, rm = modrm & 7;
	bool has_sib = mod != 3 && rm == 4;

	if (mod == 3)
		return 1;
	if (mod == 1)
		return 2 + has_sib;
	if (mod == 2 || rm == 5 || (has_sib && (sib & 7) == 5))
		return 5 + has_sib;
	return 1 + has_sib;
}

/* Legacy prefixes and REX, in any order: more than an instruction can have. */
static bool is_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x40 ... 0x4f:
	case 0x64 ... 0x67:
	case 0xf0:
	case 0xf2:
	case 0xf3:
		return true;
	}
	return false;
}

static bool modrm_ends_it(const uint8_t *code, size_t at)
{
	return at < NOP5_BYTES &&
	       at + x86_modrm_len(code[at], at + 1 < NOP5_BYTES ? code[at + 1] : 0) == NOP5_BYTES;
}

bool is_nop5(const uint8_t *code, size_t size)
{
	size_t at = 0;

	if (size < NOP5_BYTES)
		return false;
	while (at < NOP5_BYTES - 1 && is_prefix(code[at]))
		at++;
	switch (code[at]) {
	case 0x0f: /* nopl */
		return at < NOP5_BYTES - 1 && code[at + 1] == 0x1f && modrm_ends_it(code, at + 2);
	case 0x89: /* mov of a register to itself; a mov to another register counts, too */
		return code[NOP5_BYTES - 1] >= 0xc0 && modrm_ends_it(code, at + 1);
	case 0x8d: /* lea without a displacement */
		return !code[NOP5_BYTES - 1] && modrm_ends_it(code, at + 1);
	case 0x90:
		return at == NOP5_BYTES - 1;
	case 0xe9: /* jmp to the next instruction */
		return !at && !memcmp(code + 1, "\0\0\0", 4);
	case 0xeb:
		return at == NOP5_BYTES - 2 && !code[NOP5_BYTES - 1];
	}
	return false;
}
