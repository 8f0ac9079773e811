// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "elf/argument_source.h"
#include "elf/operand_text.h"
#include "elf/x86_registers.h"

/* struct x86_registers begins like the kernel's struct pt_regs. */
static const struct {
	const char *name[4]; /* of 8, 4, 2 and 1 bytes */
	unsigned short place;
} registers[] = {
#define ROW(field, ...) { { __VA_ARGS__ }, offsetof(struct x86_registers, field) }
	ROW(rax, "rax", "eax", "ax", "al"),	 ROW(rbx, "rbx", "ebx", "bx", "bl"),
	ROW(rcx, "rcx", "ecx", "cx", "cl"),	 ROW(rdx, "rdx", "edx", "dx", "dl"),
	ROW(rsi, "rsi", "esi", "si", "sil"),	 ROW(rdi, "rdi", "edi", "di", "dil"),
	ROW(rbp, "rbp", "ebp", "bp", "bpl"),	 ROW(rsp, "rsp", "esp", "sp", "spl"),
	ROW(r8, "r8", "r8d", "r8w", "r8b"),	 ROW(r9, "r9", "r9d", "r9w", "r9b"),
	ROW(r10, "r10", "r10d", "r10w", "r10b"), ROW(r11, "r11", "r11d", "r11w", "r11b"),
	ROW(r12, "r12", "r12d", "r12w", "r12b"), ROW(r13, "r13", "r13d", "r13w", "r13b"),
	ROW(r14, "r14", "r14d", "r14w", "r14b"), ROW(r15, "r15", "r15d", "r15w", "r15b"),
	ROW(rip, "rip", "eip", "ip", ""),
#undef ROW
};

#define HIGH_BYTES "abcd" /* %ah to %dh lie one byte further */

bool argument_register_named(const char *name, size_t bytes, unsigned short *ret)
{
	char low[3] = { name[0], 'l' };
	bool is_high = bytes == 2 && name[1] == 'h' && strchr(HIGH_BYTES, name[0]);

	if (is_high)
		name = low;
	for (size_t i = 0; i < ARRAY_SIZE(registers); i++)
		for (size_t k = 0; k < ARRAY_SIZE(registers[i].name); k++)
			if (bytes && strlen(registers[i].name[k]) == bytes &&
			    !memcmp(registers[i].name[k], name, bytes)) {
				*ret = registers[i].place + is_high;
				return true;
			}
	return false;
}

/* `%name`; *at moves behind it. */
static int parse_register(const char **at, unsigned short *ret, struct reason *why)
{
	size_t bytes = 0;

	while (**at == '%' && isalnum((unsigned char)(*at)[1 + bytes]))
		bytes++;
	if (!bytes)
		return refuse_argument(why, -EINVAL, "has no register where one must be", *at);
	if (!argument_register_named(*at + 1, bytes, ret) || (*at)[1 + bytes] == ':')
		return refuse_argument(why, -ENOTSUP, "is in a register that no probe can read", *at);
	*at += 1 + bytes;
	return 0;
}

/* `,%index,scale`, of which the scale may be missing. */
static int parse_index(const char **at, struct argument_source *ret, struct reason *why)
{
	uint64_t scale = 1;
	int err;

	++*at;
	err = parse_register(at, &ret->index, why);
	if (!err && **at == ',') {
		++*at;
		err = parse_number(at, &scale, why);
	}
	if (!err && scale != 1 && scale != 2 && scale != 4 && scale != 8)
		return refuse_argument(why, -EINVAL, "has an invalid scale", *at);
	ret->scale = scale;
	return err;
}

/* `displacement(%base,%index,scale)`, of which parts may be missing. */
static int parse_memory(const char **at, struct argument_source *ret, struct reason *why)
{
	int err = **at == '(' ? 0 : parse_number(at, &ret->value, why);

	ret->kind = ARGUMENT_MEMORY;
	if (err || **at != '(')
		return err;
	++*at;
	if (**at == '%')
		err = parse_register(at, &ret->base, why);
	if (!err && **at == ',')
		err = parse_index(at, ret, why);
	if (err)
		return err;
	if (**at != ')' || (ret->base == ARGUMENT_NO_REGISTER && ret->index == ARGUMENT_NO_REGISTER))
		return refuse_argument(why, -EINVAL, "is no place in memory", *at);
	++*at;
	return 0;
}

int x86_parse_operand(const char **at, struct argument_source *ret, struct reason *why)
{
	if (**at == '$') {
		++*at;
		return parse_number(at, &ret->value, why);
	}
	if (**at != '%')
		return parse_memory(at, ret, why);
	ret->kind = ARGUMENT_REGISTER;
	return parse_register(at, &ret->base, why);
}
