// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/array.h"
#include "elf/argument_source.h"
#include "elf/elf_object.h"
#include "elf/sampler_places.h"

/* The text that says where the arguments of a probe are. */

#define REG(name) offsetof(struct user_regs_struct, name)
#define NONE ARGUMENT_NO_REGISTER

static void expect_source(const char *text, struct argument_source wanted)
{
	struct argument_source got[2];
	struct reason why = {};
	size_t nr = 0;
	int err = argument_sources_parse(text, EM_X86_64, got, ARRAY_SIZE(got), &nr, &why);

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

	cr_assert_eq(argument_sources_parse("8@%rdi -4@$5 8@8(%rsp)", EM_X86_64, got, 3, &nr, &why), 0, "%s", why.text);
	cr_expect_eq(nr, 3);
	cr_expect_eq(got[1].value, 5);
	cr_expect_eq(got[2].kind, ARGUMENT_MEMORY);
	cr_assert_eq(argument_sources_parse("", EM_X86_64, got, 3, &nr, &why), 0);
	cr_expect_eq(nr, 0);
	cr_expect_eq(argument_sources_parse("%rax %rax %rax %rax", EM_X86_64, got, 3, &nr, &why), -ENOTSUP);
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

		cr_expect_eq(argument_sources_parse(wrong[i].text, EM_X86_64, got, 2, &nr, &why), wrong[i].err, "'%s': '%s'",
			     wrong[i].text, why.text);
		cr_expect(*why.text, "%s", wrong[i].text);
	}
}

Test(argument_source, of_arm64)
{
	static const struct {
		const char *text;
		struct argument_source wanted;
	} row[] = {
		{ "8@x0", REGISTER(8, 0, 0) },
		{ "-4@w21", REGISTER(4, 1, 21 * 8) },
		{ "x30", REGISTER(8, 0, 30 * 8) },
		{ "8@sp", REGISTER(8, 0, 31 * 8) },
		{ "-4@5", CONSTANT(4, 1, 5) },
		{ "-8@-7", CONSTANT(8, 1, -7ul) },
		{ "4@#0x10", CONSTANT(4, 0, 16) },
		{ "8@[x7]", MEMORY(8, 0, 7 * 8, NONE, 1) },
		{ "8@[sp, 12]", MEMORY(8, 12, 31 * 8, NONE, 1) },
		{ "8@[x29, #-16]", MEMORY(8, -16ul, 29 * 8, NONE, 1) },
		{ "1@[x1,8]", MEMORY(1, 8, 8, NONE, 1) },
		{ "8@[x2, x3]", MEMORY(8, 0, 16, 24, 1) },
		{ " 8@[x2, x3, lsl 3] ", MEMORY(8, 0, 16, 24, 8) },
		{ "2@[x2, x3, lsl #1]", MEMORY(2, 0, 16, 24, 2) },
	};
	static const struct {
		const char *text;
		int err;
	} wrong[] = {
		{ "8@", -EINVAL }, { "8@x31", -ENOTSUP }, { "8@xzr", -ENOTSUP }, { "8@x", -ENOTSUP }, { "8@d0", -ENOTSUP },
		{ "8f@x6", -ENOTSUP }, { "8@%x0", -ENOTSUP }, { "8@[x0", -ENOTSUP }, { "8@[x0,", -ENOTSUP }, { "8@[]", -ENOTSUP },
		{ "8@[5]", -ENOTSUP }, { "8@[x0, w1, sxtw 2]", -ENOTSUP }, { "8@[x0, x1, lsl 4]", -ENOTSUP }, { "8@[x0, 8]!", -EINVAL },
		{ "8@[x0], 8", -EINVAL }, { "8@[x0, :lo12:name]", -ENOTSUP }, { "8@name", -ENOTSUP }, { "8@5x", -ENOTSUP },
		{ "8@[x0, x1, lsl ", -ENOTSUP }, { "8@[x0, 8", -EINVAL }, { "8@x100", -ENOTSUP }, { "8@x99999999999999999999", -ENOTSUP },
	};
	struct argument_source got[2];
	struct reason why = {};
	size_t nr;

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		cr_expect_eq(argument_sources_parse(row[i].text, EM_AARCH64, got, 2, &nr, &why), 0, "%s: %s", row[i].text, why.text);
		cr_expect(nr == 1 && !memcmp(&got[0], &row[i].wanted, sizeof(*got)), "%s: %zu", row[i].text, nr);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		cr_expect_eq(argument_sources_parse(wrong[i].text, EM_AARCH64, got, 2, &nr, &why), wrong[i].err, "%s: %s", wrong[i].text,
			     why.text);
	cr_expect_eq(argument_sources_parse("8@x0 8@[sp, 8] -4@5", EM_AARCH64, got, 2, &nr, &why), -ENOTSUP);
	cr_expect_eq(argument_sources_parse("8@[sp, 8] -4@5", EM_AARCH64, got, 2, &nr, &why), 0);
	cr_expect_eq(nr, 2);
	cr_expect_eq(got[1].value, 5);
	cr_expect_eq(argument_sources_parse("8@x0", EM_RISCV, got, 2, &nr, &why), -ENOTSUP);
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

/* The probes of samplers, read from the notes of files that are made here. */

/* The file: 0x1000 bytes of headers and notes, a page of code at 0x401000, a page of data at 0x402000. */
#define NOTES_AT 0x400
#define NAMES_AT 0xf00
#define FILE_BYTES 0x3000
#define CODE 0x401000
#define DATA 0x402000

struct made {
	uint8_t bytes[FILE_BYTES];
	size_t notes; /* bytes */
	uint16_t machine; /* 0: x86-64 */
};

static const char section_names[] = "\0.note.stapsdt\0.stapsdt.base\0.shstrtab";

static void append(struct made *made, const void *bytes, size_t size)
{
	cr_assert(NOTES_AT + made->notes + size < NAMES_AT);
	memcpy(made->bytes + NOTES_AT + made->notes, bytes, size);
	made->notes += size;
}

static void align(struct made *made)
{
	while (made->notes % 4)
		append(made, "", 1);
}

/* arguments NULL: the text has no end. */
static void add_note(struct made *made, uint64_t address, uint64_t semaphore, const char *provider, const char *name,
		     const char *arguments)
{
	const uint64_t numbers[] = { address, 0, semaphore };
	const uint32_t head[] = {
		8, sizeof(numbers) + strlen(provider) + 1 + strlen(name) + 1 + (arguments ? strlen(arguments) + 1 : 2), 3,
	};

	append(made, head, sizeof(head));
	append(made, "stapsdt", 8);
	append(made, numbers, sizeof(numbers));
	append(made, provider, strlen(provider) + 1);
	append(made, name, strlen(name) + 1);
	append(made, arguments ?: "xx", arguments ? strlen(arguments) + 1 : 2);
	align(made);
}

static void add_otel(struct made *made, uint64_t address, const char *name, const char *arguments)
{
	add_note(made, address, DATA + (!strcmp(name, "free") ? 2 : 0), "otel_memory", name, arguments);
}

/* A file without notes. Its code is nops, of one byte. */
static struct made make(void)
{
	struct made made = {};

	memset(made.bytes + 0x1000, 0x90, 0x1000);
	return made;
}

static int write_file(const struct made *made)
{
	struct made out = *made;
	Elf64_Ehdr header = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_EXEC, .e_machine = made->machine ?: EM_X86_64, .e_version = 1, .e_phoff = sizeof(header),
		.e_shoff = 0x200, .e_ehsize = sizeof(header), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2,
		.e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 4, .e_shstrndx = 3,
	};
	const Elf64_Phdr segments[] = {
		{ PT_LOAD, PF_R | PF_X, 0x1000, CODE, CODE, 0x1000, 0x1000, 0x1000 },
		{ PT_LOAD, PF_R | PF_W, 0x2000, DATA, DATA, 0x1000, 0x2000, 0x1000 },
	};
	const Elf64_Shdr sections[] = {
		{},
		{ .sh_name = 1, .sh_type = SHT_NOTE, .sh_offset = NOTES_AT, .sh_size = made->notes, .sh_addralign = 4 },
		{ .sh_name = 15, .sh_type = SHT_PROGBITS, .sh_addr = 0x500000 },
		{ .sh_name = 29, .sh_type = SHT_STRTAB, .sh_offset = NAMES_AT, .sh_size = sizeof(section_names) },
	};
	int fd = memfd_create("made", MFD_CLOEXEC);

	memcpy(out.bytes, &header, sizeof(header));
	memcpy(out.bytes + sizeof(header), segments, sizeof(segments));
	memcpy(out.bytes + 0x200, sections, sizeof(sections));
	memcpy(out.bytes + NAMES_AT, section_names, sizeof(section_names));
	cr_assert_eq(write(fd, out.bytes, sizeof(out.bytes)), sizeof(out.bytes));
	return fd;
}

static struct usdt_places read_made(const struct made *made)
{
	int fd = write_file(made);
	struct elf_object *elf = elf_object__open_of(fd, made->machine ?: EM_X86_64, NULL);
	struct usdt_places places;

	cr_assert(elf);
	sampler_places_read(elf, &places);
	cr_expect(made->machine || sampler_places_are_sound(&places, FILE_BYTES));
	elf_object__close(elf);
	close(fd);
	return places;
}

static void expect_fault(const struct made *made, const char *wanted)
{
	struct usdt_places places = read_made(made);

	cr_expect_eq(places.nr, 0, "%s", wanted);
	cr_expect_str_eq(places.fault, wanted);
}

Test(sampler_places, are_those_of_the_notes)
{
	struct made made = make();
	struct usdt_places places;

	add_note(&made, CODE, 0, "libc", "setjmp", "8@%rdi -4@%esi 8@%rax 8@%rdx");
	add_otel(&made, CODE + 0x10, "alloc", "8@%rbx -4@$5 8@8(%rsp)");
	add_otel(&made, CODE + 0x20, "alloc", "8@%rax 8@%rcx 8@%rdx");
	add_otel(&made, CODE + 0x30, "free", "%rdi");
	add_note(&made, CODE + 0x40, 0, "otel_memory", "other", "names a variable");
	places = read_made(&made);
	cr_assert_eq(places.nr, 3, "%s", places.fault);
	cr_expect_eq(places.place[0].offset, 0x1010);
	cr_expect_eq(places.place[0].semaphore, 0x2000);
	cr_expect_eq(sampler_place_is_free(&places.place[0]), 0);
	cr_expect_eq(places.place[0].call.argument[0].base, offsetof(struct user_regs_struct, rbx));
	cr_expect_eq(places.place[0].call.argument[1].value, 5);
	cr_expect_eq(places.place[0].call.argument[2].kind, ARGUMENT_MEMORY);
	cr_expect_eq(places.place[2].offset, 0x1030);
	cr_expect_eq(places.place[2].semaphore, 0x2002);
	cr_expect_eq(sampler_place_is_free(&places.place[2]), 1);
	cr_expect_eq(places.info_distance, 0);
}

Test(sampler_places, of_arm64)
{
	static const uint32_t nop = 0xd503201f, hint = 0xd503241f;
	struct made made = { .machine = EM_AARCH64 };
	struct usdt_places places;

	memcpy(made.bytes + 0x1010, &nop, sizeof(nop));
	memcpy(made.bytes + 0x1020, &nop, sizeof(nop));
	memcpy(made.bytes + 0x1030, &hint, sizeof(hint));
	add_otel(&made, CODE + 0x10, "alloc", "8@x0 -4@5 8@[x29, 16]");
	add_otel(&made, CODE + 0x20, "free", "8@[sp, -8]");
	places = read_made(&made);
	cr_assert_eq(places.nr, 2, "%s", places.fault);
	cr_expect_eq(places.place[0].call.argument[0].base, 0);
	cr_expect_eq(places.place[0].call.argument[1].value, 5);
	cr_expect_eq(places.place[0].call.argument[2].base, 29 * 8);
	cr_expect_eq(places.place[0].call.argument[2].value, 16);
	cr_expect_eq(places.place[1].call.argument[0].base, 31 * 8);
	cr_expect_eq(places.place[1].call.argument[0].value, -8ul);
	add_otel(&made, CODE + 0x30, "free", "8@x0");
	expect_fault(&made, "free is not on a nop");
}

Test(sampler_places, file_without_any)
{
	struct made made = make();

	cr_expect_eq(read_made(&made).nr, 0);
	expect_fault(&made, "");
	add_note(&made, CODE, 0, "libc", "free", "8@%rdi");
	expect_fault(&made, "");
}

Test(sampler_places, may_have_no_semaphore)
{
	struct made made = make();
	struct usdt_places places;

	add_note(&made, CODE, 0, "otel_memory", "alloc", "8@%rdi 8@%rsi 8@%rdx");
	add_note(&made, CODE, 0, "otel_memory", "free", "8@%rdi");
	places = read_made(&made);
	cr_assert_eq(places.nr, 2);
	cr_expect_eq(places.place[0].semaphore, 0);
}

#define ALLOC "8@%rdi 8@%rsi 8@%rdx"

Test(sampler_places, all_must_be_usable)
{
	static const struct {
		uint64_t address, semaphore;
		const char *name, *arguments, *fault;
	} bad[] = {
		{ CODE, DATA, "alloc", "8@%rdi 8@%rsi", "alloc has 2 arguments, not 3" },
		{ CODE, DATA, "free", ALLOC, "free has 3 arguments, not 1" },
		{ CODE, DATA, "alloc", ALLOC " 8@%rcx", "alloc has 4 arguments, not 3" },
		{ CODE, DATA, "free", "8@arena(%rip)", "an argument of a probe names a variable: 'arena(%rip)'" },
		{ CODE + 0x800, DATA, "free", "8@%rdi", "free is not on a nop" },
		{ CODE + 0x1000, DATA, "free", "8@%rdi", "free is not on a nop" },
		{ DATA, DATA, "alloc", ALLOC, "alloc is not on a nop" },
		{ 0, DATA, "alloc", ALLOC, "alloc is not on a nop" },
		{ CODE, DATA + 1, "alloc", ALLOC, "the semaphore of alloc is not in the file" },
		{ CODE, CODE, "alloc", ALLOC, "the semaphore of alloc is not in the file" },
		{ CODE, DATA + 0x1000, "free", "8@%rdi", "the semaphore of free is not in the file" },
		{ CODE, 1, "free", "8@%rdi", "the semaphore of free is not in the file" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct made made = make();

		made.bytes[0x1800] = 0xc3;
		add_otel(&made, CODE, "alloc", ALLOC);
		add_otel(&made, CODE, "free", "8@%rdi");
		add_note(&made, bad[i].address, bad[i].semaphore, "otel_memory", bad[i].name, bad[i].arguments);
		expect_fault(&made, bad[i].fault);
	}
}

Test(sampler_places, may_be_of_either_provider)
{
	struct made made = make();
	struct usdt_places places;

	add_note(&made, CODE, DATA, "ddheap", "alloc", ALLOC);
	add_note(&made, CODE + 0x10, DATA + 2, "ddheap", "free", "8@%rdi");
	add_note(&made, CODE + 0x20, DATA, "otherheap", "alloc", ALLOC);
	places = read_made(&made);
	cr_expect_eq(places.nr, 2, "%s", places.fault);
}

Test(sampler_places, may_have_no_frees_but_need_allocations)
{
	struct made made = make(), other = make();
	struct usdt_places places;

	add_otel(&made, CODE, "alloc", ALLOC);
	places = read_made(&made);
	cr_expect(places.nr == 1 && !sampler_places_tell_frees(&places) && sampler_places_are_sound(&places, 0x3000), "%s", places.fault);
	add_otel(&other, CODE, "free", "8@%rdi");
	expect_fault(&other, "it has free, but not alloc");
}

Test(sampler_places, may_be_on_a_nop_of_five_bytes)
{
	struct made made = make();

	memcpy(made.bytes + 0x1010, "\x0f\x1f\x44\0\0", 5);
	add_otel(&made, CODE + 0x10, "alloc", ALLOC);
	add_otel(&made, CODE + 0x10, "free", "8@%rdi");
	cr_expect_eq(read_made(&made).nr, 2); /* whether it may be probed there is decided later */
}

Test(sampler_places, are_not_too_many)
{
	struct made made = make();

	for (int i = 0; i < 20; i++)
		add_otel(&made, CODE, "free", "%rdi");
	add_otel(&made, CODE, "alloc", ALLOC);
	cr_expect_eq(read_made(&made).nr, 21);
}

/* ---- other USDT probes ---- */

static void read_wanted(const struct made *made, const struct usdt_wanted *wanted, size_t nr, struct usdt_places *ret)
{
	int fd = write_file(made);
	struct elf_object *elf = elf_object__open(fd, NULL);

	cr_assert(elf);
	usdt_places_read(elf, wanted, nr, ret);
	cr_expect(usdt_places_are_sound(ret, nr, FILE_BYTES));
	elf_object__close(elf);
	close(fd);
}

Test(usdt_places, are_those_that_are_wanted_with_the_arguments_that_are_taken)
{
	static const struct usdt_wanted wanted[] = {
		{ "p:malloc", .position = { 1, 3 }, .constant = { 0, 0, 1 } },
		{ "p:free", .position = { 1 }, .constant = { 0, 0, 1 } },
		{ "p:malloc", .position = { 2 }, .constant = { 0, 64, 1 } },
	};
	struct made made = make();
	struct usdt_places places;

	add_note(&made, CODE, DATA, "p", "malloc", "8@%rdi -4@%ecx 8@%rsi 8@$0");
	add_note(&made, CODE + 0x10, DATA + 2, "p", "free", "8@%rdx");
	add_note(&made, CODE + 0x20, DATA, "p:", "malloc", "8@%rdi");
	add_note(&made, CODE + 0x20, DATA, "p", "mallocs", "8@%xmm0");
	read_wanted(&made, wanted, ARRAY_SIZE(wanted), &places);
	cr_assert_eq(places.nr, 3, "%s", places.fault);
	cr_expect_eq(places.place[0].wanted, 0);
	cr_expect_eq(places.place[0].offset, places.place[1].offset);
	cr_expect_eq(places.place[0].call.argument[0].base, REG(rdi));
	cr_expect_eq(places.place[0].call.argument[1].base, REG(rsi));
	cr_expect_eq(places.place[0].call.argument[2].value, 1);
	cr_expect_eq(places.place[1].wanted, 2);
	cr_expect_eq(places.place[1].call.argument[0].base, REG(rcx));
	cr_expect_eq(places.place[1].call.argument[1].value, 64);
	cr_expect_eq(places.place[2].wanted, 1);
	cr_expect_eq(places.place[2].semaphore, places.place[0].semaphore + 2);
	cr_expect(!usdt_places_are_sound(&places, 2, FILE_BYTES), "row 2 of 2");
}

Test(usdt_places, must_have_the_arguments)
{
	static const struct usdt_wanted wanted = { "p:malloc", .position = { 1, 3 } };
	struct made made = make();
	struct usdt_places places;

	add_note(&made, CODE, DATA, "p", "malloc", "8@%rdi 8@%rsi");
	read_wanted(&made, &wanted, 1, &places);
	cr_expect_eq(places.nr, 0);
	cr_expect_str_eq(places.fault, "malloc has no argument 3");
}

/* Cut and random notes: nothing is read behind the section, and what is found is sound. */
Test(sampler_places, damaged_notes)
{
	struct made good = make();
	uint64_t random = 1;

	add_otel(&good, CODE, "alloc", ALLOC);
	add_otel(&good, CODE, "free", "8@%rdi");
	add_note(&good, CODE, 0, "otel_memory", "free", NULL);
	cr_expect_eq(read_made(&good).nr, 2); /* the note without an end is none */
	for (size_t cut = 0; cut < good.notes; cut++) {
		struct made made = good;

		made.notes = cut;
		read_made(&made);
	}
	for (int i = 0; i < 3000; i++) {
		struct made made = good;

		for (int k = 0; k < 4; k++) {
			random = random * 6364136223846793005 + 1442695040888963407;
			made.bytes[NOTES_AT + (random >> 33) % made.notes] = random >> 56;
		}
		read_made(&made);
	}
}

Test(sampler_places, forged_ones_are_not_sound)
{
	struct made made = make();
	struct usdt_places good, bad;

	add_otel(&made, CODE, "alloc", ALLOC);
	add_otel(&made, CODE, "free", "8@%rdi");
	good = read_made(&made);
#define EXPECT_BAD(change) \
	do { \
		bad = good; \
		change; \
		cr_expect(!sampler_places_are_sound(&bad, FILE_BYTES), #change); \
	} while (0)
	EXPECT_BAD(bad.nr = USDT_PLACES_MAX + 1);
	EXPECT_BAD((bad.nr = 1, bad.place[0].wanted = 1));
	EXPECT_BAD(memset(bad.fault, 'x', sizeof(bad.fault)));
	EXPECT_BAD(bad.place[0].offset = FILE_BYTES);
	EXPECT_BAD(bad.place[1].semaphore = FILE_BYTES);
	EXPECT_BAD(bad.place[1].semaphore = 1);
	EXPECT_BAD(bad.place[0].wanted = 1);
	EXPECT_BAD(bad.place[0].wanted = 4);
	EXPECT_BAD(bad.place[0].call.argument[2].bytes = 0);
	EXPECT_BAD(bad.place[1].call.argument[1].base = 0x1000);
}
