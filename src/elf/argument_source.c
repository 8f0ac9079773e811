// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/argument_source.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
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

static int refuse_argument(struct reason *why, int err, const char *what, const char *at)
{
	return reason_set(why, err, "an argument of a probe %s: '%.*s'", what, (int)strcspn(at, " "), at);
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

/* One number with its sign, without wrapping around. */
static bool parse_term(const char **at, uint64_t *sum)
{
	bool is_negative = **at == '-';
	const char *digits = *at + (**at == '-' || **at == '+');
	uint64_t value;
	char *end;

	if (!isdigit((unsigned char)*digits))
		return false;
	errno = 0;
	value = strtoull(digits, &end, 0);
	if (errno)
		return false;
	*at = end;
	*sum += is_negative ? -value : value;
	return true;
}

static bool is_name(const char *at)
{
	return isalpha((unsigned char)*at) || *at == '_';
}

/* A sum of numbers. */
static int parse_number(const char **at, uint64_t *ret, struct reason *why)
{
	*ret = 0;
	do {
		const char *name = *at + (**at == '+' || **at == '-');

		if (is_name(name))
			return refuse_argument(why, -ENOTSUP, "names a variable", name);
		if (!parse_term(at, ret))
			return refuse_argument(why, -EINVAL, "has no number where one must be", *at);
	} while (**at == '+' || **at == '-');
	return is_name(*at) ? refuse_argument(why, -ENOTSUP, "names a variable", *at) : 0;
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

/* `width@`, if it is there. A width of a floating-point number ends with f. */
static int parse_width(const char **at, struct argument_source *ret, struct reason *why)
{
	const char *end = *at + strspn(*at, "-0123456789f");
	bool is_signed = **at == '-';
	size_t bytes = end - *at - is_signed;
	const char *digit = *at + is_signed;

	if (*end != '@')
		return 0;
	if (bytes && digit[bytes - 1] == 'f')
		return refuse_argument(why, -ENOTSUP, "is a floating-point number", *at);
	if (bytes != 1 || !strchr("1248", *digit))
		return refuse_argument(why, -EINVAL, "has an invalid width", *at);
	ret->is_signed = is_signed;
	ret->bytes = *digit - '0';
	*at = end + 1;
	return 0;
}

static int parse_argument(const char **at, struct argument_source *ret, struct reason *why)
{
	const char *whole = *at;
	int err;

	*ret = (struct argument_source){
		.bytes = 8, .scale = 1, .base = ARGUMENT_NO_REGISTER, .index = ARGUMENT_NO_REGISTER,
	};
	err = parse_width(at, ret, why);
	if (err)
		return err;
	if (**at == '$') {
		++*at;
		err = parse_number(at, &ret->value, why);
	} else if (**at == '%') {
		ret->kind = ARGUMENT_REGISTER;
		err = parse_register(at, &ret->base, why);
	} else {
		err = parse_memory(at, ret, why);
	}
	if (!err && **at && **at != ' ')
		return refuse_argument(why, -EINVAL, "goes on behind its end", whole);
	return err;
}

int argument_sources_parse(const char *text, struct argument_source *ret, size_t nr_max, size_t *ret_nr,
			   struct reason *why)
{
	size_t nr = 0;
	int err = 0;

	text += strspn(text, " ");
	while (*text && !err) {
		if (nr == nr_max)
			return reason_set(why, -ENOTSUP, "a probe with more than %zu arguments", nr_max);
		err = parse_argument(&text, &ret[nr++], why);
		text += strspn(text, " ");
	}
	*ret_nr = nr;
	return err;
}

static bool is_register_place(unsigned int place)
{
	return place == ARGUMENT_NO_REGISTER || place <= sizeof(struct x86_registers) - sizeof(uint64_t);
}

struct argument_source argument_constant(uint64_t value)
{
	return (struct argument_source){ .kind = ARGUMENT_CONSTANT, .value = value, .bytes = 8,
					 .base = ARGUMENT_NO_REGISTER, .index = ARGUMENT_NO_REGISTER };
}

bool argument_source_is_sound(const struct argument_source *source)
{
	return source->kind < ARGUMENT_KIND_NR && source->bytes <= 8 && source->bytes &&
	       !(source->bytes & (source->bytes - 1)) && source->is_signed <= 1 && is_register_place(source->base) &&
	       is_register_place(source->index) &&
	       (source->kind != ARGUMENT_REGISTER || source->base != ARGUMENT_NO_REGISTER);
}
