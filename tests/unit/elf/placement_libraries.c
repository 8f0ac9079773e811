// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Placement in the libraries of this machine, compared with objdump. */
#include "elf/placement.h"

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
#include "skip.h"

#define LIB "/usr/lib/x86_64-linux-gnu/"
#define CODE(bytes) bytes, sizeof(bytes) - 1

/* Read by hand. A row does not apply to a build whose function starts with other bytes. */
static const struct {
	const char *path, *function;
	const char *code;
	size_t code_nr;
	uint32_t offset;
	enum placement_why why;
	const char *instruction; /* how it begins */
	unsigned int argument_nr;
} row[] = {
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

	cr_assert_eq(elf_object__find_functions(obj, &row[i].function, 1, &function, &function_nr),
		     0);
	cr_assert_eq(function_nr, 1, "%s: %zu", row[i].function, function_nr);
	code = place(obj, function, row[i].argument_nr, &got);
	if (function->size >= row[i].code_nr && !memcmp(code, row[i].code, row[i].code_nr)) {
		known = true;
		cr_expect_eq(got.offset, row[i].offset, "%s %s: +%u %s", row[i].path,
			     row[i].function, got.offset, got.instruction);
		cr_expect_eq(got.why, row[i].why, "%s: why %d", row[i].function, got.why);
		cr_expect(!strncmp(got.instruction, row[i].instruction,
				   strlen(row[i].instruction)),
			  "%s %s: %s", row[i].path, row[i].function, got.instruction);
	}
	free(code);
	free(function);
	return known;
}

Test(placement_libraries, known_functions_have_the_expected_placement)
{
	size_t known = 0;

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct elf_object *obj = open_library(row[i].path);

		if (!obj) {
			cr_log_info("no %s", row[i].path);
			continue;
		}
		if (check_row(i, obj))
			known++;
		else
			cr_log_info("another build of %s: %s not judged", row[i].path,
				    row[i].function);
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

/* The instruction writes AT&T's last operand; the mnemonic tells whether it writes more. */
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
