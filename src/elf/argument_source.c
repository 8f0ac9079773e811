// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/argument_source.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "elf/machine.h"
#include "elf/operand_text.h"

int refuse_argument(struct reason *why, int err, const char *what, const char *at)
{
	return reason_set(why, err, "an argument of a probe %s: '%.*s'", what, (int)strcspn(at, " "), at);
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
int parse_number(const char **at, uint64_t *ret, struct reason *why)
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

static int parse_argument(const struct machine *machine, const char **at, struct argument_source *ret, struct reason *why)
{
	const char *whole = *at;
	int err;

	*ret = (struct argument_source){
		.bytes = 8, .scale = 1, .base = ARGUMENT_NO_REGISTER, .index = ARGUMENT_NO_REGISTER,
	};
	err = parse_width(at, ret, why);
	if (err)
		return err;
	err = machine->parse_operand(at, ret, why);
	if (!err && **at && **at != ' ')
		return refuse_argument(why, -EINVAL, "goes on behind its end", whole);
	return err;
}

int argument_sources_parse(const char *text, uint16_t elf_machine, struct argument_source *ret, size_t nr_max, size_t *ret_nr,
			   struct reason *why)
{
	const struct machine *machine = machine_of(elf_machine);
	size_t nr = 0;
	int err = 0;

	if (!machine)
		return reason_set(why, -ENOTSUP, "arguments of a machine that is not known");

	text += strspn(text, " ");
	while (*text && !err) {
		if (nr == nr_max)
			return reason_set(why, -ENOTSUP, "a probe with more than %zu arguments", nr_max);
		err = parse_argument(machine, &text, &ret[nr++], why);
		text += strspn(text, " ");
	}
	*ret_nr = nr;
	return err;
}

static bool is_register_place(unsigned int place)
{
	const struct machine *machine = machine_of(machine_here());

	return place == ARGUMENT_NO_REGISTER || (machine && place <= machine->register_bytes - sizeof(uint64_t));
}

/* The integer arguments of a call lie in registers (x86-64 psABI, 3.2.3; AAPCS64, 6.8.2). */
struct argument_source argument_at(uint32_t position, bool is_narrow)
{
	return (struct argument_source){ .kind = ARGUMENT_REGISTER, .bytes = is_narrow ? 4 : 8, .scale = 1,
					 .base = machine_of(machine_here())->argument_place[position - 1],
					 .index = ARGUMENT_NO_REGISTER };
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
