// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The text that says where the arguments of a probe are. */
#include "elf/argument_source.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/user.h>

#include "base/array.h"

#define REG(name) offsetof(struct user_regs_struct, name)
#define NONE ARGUMENT_NO_REGISTER

static void expect_source(const char *text, struct argument_source wanted)
{
	struct argument_source got[2];
	struct reason why = {};
	size_t nr = 0;
	int err = argument_sources_parse(text, got, ARRAY_SIZE(got), &nr, &why);

	cr_assert_eq(err, 0, "%s: %s", text, why.text);
	cr_assert_eq(nr, 1, "%s", text);
	cr_expect(!memcmp(&got[0], &wanted, sizeof(wanted)),
		  "%s: value %#lx, kind %u, bytes %u, signed %u, scale %u, base %u, index %u", text, got[0].value,
		  got[0].kind, got[0].bytes, got[0].is_signed, got[0].scale, got[0].base, got[0].index);
	cr_expect(argument_source_is_sound(&got[0]), "%s", text);
}

#define CONSTANT(bytes_, signed_, value_) \
	(struct argument_source){ value_, ARGUMENT_CONSTANT, bytes_, signed_, 1, NONE, NONE }
#define REGISTER(bytes_, signed_, base_) \
	(struct argument_source){ 0, ARGUMENT_REGISTER, bytes_, signed_, 1, base_, NONE }
#define MEMORY(bytes_, value_, base_, index_, scale_) \
	(struct argument_source){ value_, ARGUMENT_MEMORY, bytes_, 0, scale_, base_, index_ }

Test(argument_source, constants)
{
	expect_source("8@$5", CONSTANT(8, 0, 5));
	expect_source("-4@$-5", CONSTANT(4, 1, -5ul));
	expect_source("4@$0x1F", CONSTANT(4, 0, 31));
	expect_source("2@$10-3+1", CONSTANT(2, 0, 8));
	expect_source("8@$18446744073709551615", CONSTANT(8, 0, UINT64_MAX));
}

Test(argument_source, registers_of_every_width)
{
	expect_source("8@%rdi", REGISTER(8, 0, REG(rdi)));
	expect_source("%rdi", REGISTER(8, 0, REG(rdi)));
	expect_source("-4@%edi", REGISTER(4, 1, REG(rdi)));
	expect_source("2@%di", REGISTER(2, 0, REG(rdi)));
	expect_source("1@%dil", REGISTER(1, 0, REG(rdi)));
	expect_source("1@%ah", REGISTER(1, 0, REG(rax) + 1));
	expect_source("-1@%dh", REGISTER(1, 1, REG(rdx) + 1));
	expect_source("8@%r8", REGISTER(8, 0, REG(r8)));
	expect_source("4@%r15d", REGISTER(4, 0, REG(r15)));
	expect_source("2@%r10w", REGISTER(2, 0, REG(r10)));
	expect_source("1@%r9b", REGISTER(1, 0, REG(r9)));
	expect_source("8@%rsp", REGISTER(8, 0, REG(rsp)));
	expect_source("  8@%rbp  ", REGISTER(8, 0, REG(rbp)));
}

Test(argument_source, memory)
{
	expect_source("8@(%rsp)", MEMORY(8, 0, REG(rsp), NONE, 1));
	expect_source("8@8(%rsp)", MEMORY(8, 8, REG(rsp), NONE, 1));
	expect_source("4@-20(%rbp)", MEMORY(4, -20ul, REG(rbp), NONE, 1));
	expect_source("4@-0x14(%rbp)", MEMORY(4, -20ul, REG(rbp), NONE, 1));
	expect_source("8@-8+16(%rax,%rbx,4)", MEMORY(8, 8, REG(rax), REG(rbx), 4));
	expect_source("1@(%rax,%r12)", MEMORY(1, 0, REG(rax), REG(r12), 1));
	expect_source("8@0(,%rcx,8)", MEMORY(8, 0, NONE, REG(rcx), 8));
	expect_source("8@4096", MEMORY(8, 4096, NONE, NONE, 1));
	expect_source("8@16(%rip)", MEMORY(8, 16, REG(rip), NONE, 1));
}

Test(argument_source, several_arguments)
{
	struct argument_source got[3];
	struct reason why = {};
	size_t nr;

	cr_assert_eq(argument_sources_parse("8@%rdi -4@$5 8@8(%rsp)", got, 3, &nr, &why), 0, "%s", why.text);
	cr_expect_eq(nr, 3);
	cr_expect_eq(got[1].value, 5);
	cr_expect_eq(got[2].kind, ARGUMENT_MEMORY);
	cr_assert_eq(argument_sources_parse("", got, 3, &nr, &why), 0);
	cr_expect_eq(nr, 0);
	cr_expect_eq(argument_sources_parse("%rax %rax %rax %rax", got, 3, &nr, &why), -ENOTSUP);
	cr_expect_str_eq(why.text, "a probe with more than 3 arguments");
}

Test(argument_source, others_are_refused)
{
	static const struct {
		const char *text;
		int err;
	} wrong[] = {
		{ "8@", -EINVAL },	  { "8@$", -EINVAL },	     { "8@$x", -ENOTSUP },
		{ "8@%", -EINVAL },	  { "8@%rxx", -ENOTSUP },    { "8@%xmm0", -ENOTSUP },
		{ "8f@%rax", -ENOTSUP },  { "3@%rax", -EINVAL },     { "16@%rax", -EINVAL },
		{ "-@%rax", -EINVAL },	  { "8@8(%rsp", -EINVAL },   { "8@()", -EINVAL },
		{ "8@(%rax,%rbx,3)", -EINVAL }, { "8@(%rax,)", -EINVAL }, { "8@name", -ENOTSUP },
		{ "8@name(%rip)", -ENOTSUP },	{ "8@8+name(%rip)", -ENOTSUP }, { "8@%fs:16", -ENOTSUP },
		{ "8@%raxx", -ENOTSUP },  { "8@%rax)", -EINVAL },    { "8@$5$6", -EINVAL },
		{ "8@1(%rax)2", -EINVAL }, { "8@$99999999999999999999", -EINVAL }, { "@%rax", -EINVAL },
		{ "8@8@%rax", -EINVAL },  { "\xff", -EINVAL },	     { "8@5x", -ENOTSUP },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct argument_source got[2];
		struct reason why = {};
		size_t nr;

		cr_expect_eq(argument_sources_parse(wrong[i].text, got, 2, &nr, &why), wrong[i].err, "'%s': '%s'",
			     wrong[i].text, why.text);
		cr_expect(*why.text, "%s", wrong[i].text);
	}
}

Test(argument_source, forged_ones_are_not_sound)
{
	const struct argument_source good = REGISTER(8, 0, REG(rdi));
	struct argument_source bad[8];

	cr_expect(argument_source_is_sound(&good));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].kind = ARGUMENT_KIND_NR;
	bad[1].bytes = 0;
	bad[2].bytes = 3;
	bad[3].bytes = 16;
	bad[4].is_signed = 2;
	bad[5].base = sizeof(struct user_regs_struct) - 7;
	bad[6].index = 0xfffe;
	bad[7].base = NONE;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect(!argument_source_is_sound(&bad[i]), "%zu", i);
}
