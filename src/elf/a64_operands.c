// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "elf/a64_registers.h"
#include "elf/operand_text.h"

/* x0 to x30, w0 to w30, sp; *at moves behind it. */
static bool take_register(const char **at, unsigned short *ret)
{
	size_t bytes = 0;
	unsigned long number;

	while (isalnum((unsigned char)(*at)[bytes]))
		bytes++;
	number = bytes > 1 && bytes <= 3 && isdigit((unsigned char)(*at)[1]) ? strtoul(*at + 1, NULL, 10) : A64_REGISTERS;
	if (bytes == 2 && !memcmp(*at, "sp", 2))
		*ret = offsetof(struct a64_registers, sp);
	else if ((**at == 'x' || **at == 'w') && number < A64_REGISTERS)
		*ret = offsetof(struct a64_registers, x) + number * sizeof(uint64_t);
	else
		return false;
	*at += bytes;
	return true;
}

static void skip_comma(const char **at)
{
	*at += strspn(*at, ", ");
}

/* `, xindex` and `, lsl number`, which may be missing. An index of four bytes is none that a probe can read. */
static bool take_index(const char **at, struct argument_source *ret)
{
	if (**at != 'x' || !take_register(at, &ret->index))
		return false;
	skip_comma(at);
	if (!strncmp(*at, "lsl ", 4)) {
		*at += 4 + ((*at)[4] == '#');
		if (**at < '0' || **at > '3')
			return false;
		ret->scale = 1 << (*(*at)++ - '0');
	}
	return true;
}

/* `[base]`, `[base, number]` or `[base, index]` */
static int parse_memory_in_brackets(const char **at, struct argument_source *ret, struct reason *why)
{
	const char *whole = *at;
	int err = 0;

	++*at;
	ret->kind = ARGUMENT_MEMORY;
	if (!take_register(at, &ret->base))
		return refuse_argument(why, -ENOTSUP, "is at a place that no probe can read", whole);
	skip_comma(at);
	*at += **at == '#';
	if (isdigit((unsigned char)**at) || **at == '-')
		err = parse_number(at, &ret->value, why);
	else if (**at != ']' && !take_index(at, ret))
		err = refuse_argument(why, -ENOTSUP, "is at a place that no probe can read", whole);
	if (err)
		return err;
	if (**at != ']')
		return refuse_argument(why, -EINVAL, "is no place in memory", whole);
	++*at;
	return 0;
}

int a64_parse_operand(const char **at, struct argument_source *ret, struct reason *why)
{
	if (**at == '[')
		return parse_memory_in_brackets(at, ret, why);
	if (**at == '#' || **at == '-' || isdigit((unsigned char)**at)) {
		*at += **at == '#';
		return parse_number(at, &ret->value, why);
	}
	ret->kind = ARGUMENT_REGISTER;
	return take_register(at, &ret->base) ? 0 : refuse_argument(why, **at ? -ENOTSUP : -EINVAL, "is nothing that a probe can read", *at);
}
