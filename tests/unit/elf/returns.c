// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "binutils.h"
#include "elf/allocators.h"
#include "elf/elf_object.h"
#include "elf/returns.h"
#include "skip.h"

/* Where calls return, in crafted code. */

#define BASE 0x1000
#define CODE(bytes) bytes, sizeof(bytes) - 1
#define RET "\xc3"
#define PAD3 "\xcc\xcc\xcc"
#define NOP "\x90"

/* A file of code at BASE. Functions have 16 bytes each; with is_whole there is one function. */
struct fake_code {
	const char *code;
	size_t size;
	bool is_whole, has_no_extents;
	enum exit_kind slot; /* of every slot */
};

static size_t fake_read(void *object, uint64_t vaddr, void *buf, size_t len)
{
	const struct fake_code *code = object;
	uint64_t at = vaddr - BASE;

	if (at >= code->size)
		return 0;
	len = len < code->size - at ? len : code->size - at;
	memcpy(buf, code->code + at, len);
	return len;
}

static bool fake_extent(void *object, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct fake_code *code = object;

	if (code->has_no_extents || vaddr - BASE >= code->size)
		return false;
	*ret_start = code->is_whole ? BASE : vaddr & ~15ull;
	*ret_end = code->is_whole ? BASE + code->size : *ret_start + 16;
	return true;
}

/* Slots lead to the second function. */
static enum exit_kind fake_slot(void *object, uint64_t vaddr, uint64_t *ret_vaddr)
{
	(void)vaddr;
	*ret_vaddr = BASE + 16;
	return ((const struct fake_code *)object)->slot;
}

/* The fourth function is memset. */
static bool fake_returns_argument(void *object, uint64_t vaddr)
{
	(void)object;
	return vaddr == BASE + 48;
}

#define JUMP_AT_ENTRY 0x100 /* as a place: a jump at offset 0 */
#define FOUND(...) .nr = sizeof((int[]){ __VA_ARGS__ }) / sizeof(int), .place = { __VA_ARGS__ }
#define FILL8 "\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc"
#define SLOT_JMP "\xff\x25\0\0\0\0" /* jmp *0(%rip) */
#define TABLE_LOAD "\x48\x63\x04\x82" /* movslq (%rdx,%rax,4),%rax */
#define TABLE_ADD "\x48\x01\xd0" /* add %rdx,%rax */

static const struct {
	const char *what;
	const char *code;
	size_t size;
	size_t nr; /* 0: refused */
	int place[4]; /* offsets; negative: a jump */
	bool is_whole, has_no_extents;
	enum exit_kind slot;
	const char *why;
} row[] = {
	{ "one", CODE(RET), FOUND(0) },
	{ "ret with a number", CODE("\xc2\x08\x00"), FOUND(0) },
	{ "bnd ret, rep ret", CODE("\x74\x02\xf2\xc3\xf3\xc3"), FOUND(2, 4) },
	{ "both sides of a branch", CODE("\x74\x01" RET NOP RET), FOUND(2, 4) },
	{ "behind an unconditional jump", CODE("\xeb\x01" RET RET), FOUND(3) },
	{ "a loop for ever, and a way out", CODE("\x74\x02\xeb\xfc" RET), FOUND(4) },
	{ "a call comes back", CODE("\xe8\x40\0\0\0" RET), FOUND(5) },
	{ "a call through a register", CODE("\xff\xd0" RET), FOUND(2) },
	{ "a call of itself", CODE("\x74\x05\xe8\xf9\xff\xff\xff" RET), FOUND(7) },
	{ "a call that ends the function", CODE("\x74\x09" RET FILL8 "\xe8\x40\0\0\0" RET),
	  FOUND(2) },
	{ "ret inside a constant", CODE("\xb8\xc3\xc3\xc3\xc3" RET), FOUND(5) },
	{ "data behind", CODE(RET "\x06\x06\xc3"), FOUND(0) },
	/* taken for shorter than they are, they would have a `ret` in the instruction behind */
	{ "ud1 ends", CODE("\x74\x05\x67\x0f\xb9\x40\x02\x48\x8b\xc3" RET), FOUND(10) },
	{ "a jump of 16 or 32 bits", CODE("\x74\x06\x66\xe9\0\0\xc3\0" RET),
	  .why = "no known instruction" },
	{ "ud2 ends", CODE("\x74\x02\x0f\x0b" RET), FOUND(4) },

	/* out of the function and back */
	{ "a tail jump", CODE("\xe9\x0b\0\0\0" FILL8 PAD3 NOP RET), FOUND(17) },
	{ "a tail jump on a condition", CODE("\x74\x0f" RET FILL8 PAD3 NOP NOP NOP RET),
	  FOUND(2, 17) },
	{ "a cold part that jumps back", CODE("\x74\x0e" RET FILL8 PAD3 NOP NOP "\xeb\xf0"), FOUND(2) },
	{ "falls into the next", CODE(FILL8 FILL8 RET), .why = "no return" },
	{ "straight into the next",
	  CODE(NOP NOP NOP NOP NOP NOP NOP NOP NOP NOP NOP NOP NOP NOP NOP NOP RET), FOUND(16) },
	{ "two that jump to each other for ever", CODE("\xeb\x0e" FILL8 PAD3 PAD3 "\xeb\xee"),
	  .why = "no return" },

	/* through what the loader writes */
	{ "to one that is probed", CODE("\x74\x06" SLOT_JMP RET), FOUND(8), .slot = EXIT_PROBED },
	{ "to the own second function", CODE(SLOT_JMP FILL8 NOP NOP NOP RET), FOUND(17),
	  .slot = EXIT_FOLLOW },
	{ "to anywhere", CODE("\x74\x06" SLOT_JMP RET), .why = "from memory at 0x1002" },
	{ "to memset", CODE(NOP SLOT_JMP), FOUND(-1), .slot = EXIT_RETURNS_ARGUMENT },
	{ "to a PLT that leads to memset", CODE("\xe9\x0b\0\0\0" FILL8 PAD3 SLOT_JMP), FOUND(-JUMP_AT_ENTRY),
	  .slot = EXIT_RETURNS_ARGUMENT },
	{ "on a condition to that PLT", CODE("\x74\x0e" RET FILL8 PAD3 NOP NOP SLOT_JMP),
	  .slot = EXIT_RETURNS_ARGUMENT, .why = "on a condition" },
	{ "to a PLT with endbr64", CODE("\xe9\x0b\0\0\0" FILL8 PAD3 "\xf3\x0f\x1e\xfa" SLOT_JMP),
	  .why = "from memory at 0x1000" },
	{ "to memset itself", CODE(NOP "\xe9\x2a\0\0\0"), FOUND(-1) },

	/* switches */
	{ "offsets from a table", CODE(TABLE_LOAD TABLE_ADD "\xff\xe0" NOP RET NOP RET),
	  FOUND(10, 12), .is_whole = true },
	{ "with notrack", CODE(TABLE_LOAD TABLE_ADD "\x3e\xff\xe0" RET), FOUND(10),
	  .is_whole = true },
	{ "of no known function", CODE(TABLE_LOAD TABLE_ADD "\xff\xe0" RET),
	  .has_no_extents = true, .why = "from a register" },
	{ "with data in it", CODE(TABLE_LOAD TABLE_ADD "\xff\xe0" RET "\x06" RET), .is_whole = true,
	  .why = "data" },
	{ "with a ud1 in it", CODE(TABLE_LOAD TABLE_ADD "\xff\xe0\x67\x0f\xb9\x40\x02\x48\x8b\xc3" RET),
	  .is_whole = true, .why = "data" },
	{ "without the table", CODE(TABLE_ADD "\xff\xe0" RET), .is_whole = true,
	  .why = "from a register" },
	{ "of another register", CODE(TABLE_LOAD TABLE_ADD "\xff\xe1" RET), .is_whole = true,
	  .why = "from a register" },
	{ "addresses", CODE("\xff\x24\xc5\x08\x10\0\0" NOP "\x10\x10\0\0\0\0\0\0" RET),
	  FOUND(16), .is_whole = true },
	{ "addresses of functions", CODE("\xff\x24\xc5\x08\x10\0\0" NOP "\0\x10\0\0\0\0\0\0" RET),
	  .is_whole = true, .why = "from memory" },

	/* jumps that are no returns */
	{ "a function pointer", CODE("\x48\x8b\x07\xff\xe0"), .why = "from a register" },
	{ "a retpoline", CODE("\xe8\x07\0\0\0\xf3\x90\x0f\xae\xe8\xeb\xf9\x48\x89\x04\x24" RET),
	  .why = "no call", .is_whole = true },
	{ "a far return", CODE("\xcb"), .why = "far" },
	{ "garbage", CODE("\x74\x01" RET "\x06"), .why = "no known instruction" },
	{ "nothing", CODE(""), .why = "no known instruction" },
	{ "a loop for ever", CODE("\xeb\xfe"), .why = "no return" },
};

static int find(size_t i, uint16_t machine, struct returns *ret, struct reason *why)
{
	struct fake_code code = {
		.code = row[i].code,
		.size = row[i].size,
		.is_whole = row[i].is_whole,
		.has_no_extents = row[i].has_no_extents,
		.slot = row[i].slot,
	};
	const struct code_source source = {
		.object = &code,
		.elf_machine = machine,
		.read = fake_read,
		.extent = fake_extent,
		.slot = fake_slot,
		.returns_argument = fake_returns_argument,
	};

	return returns_find(&source, BASE, ret, why);
}

static void check_place(size_t i, const struct return_place *got, int want)
{
	uint64_t offset = (want < 0 ? -want : want) & (JUMP_AT_ENTRY - 1);

	cr_expect_eq(got->vaddr, BASE + offset, "%s: %#lx", row[i].what, got->vaddr);
	cr_expect_eq(got->is_in_argument, want < 0, "%s", row[i].what);
}

Test(returns, are_found_by_the_rules_for_each_instruction)
{
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct returns returns = {};
		struct reason why = {};
		int err = find(i, EM_X86_64, &returns, &why);

		cr_expect_eq(err, row[i].why ? -ENOTSUP : 0, "%s: %d %s", row[i].what, err,
			     why.text);
		if (row[i].why)
			cr_expect(strstr(why.text, row[i].why), "%s: %s", row[i].what, why.text);
		else
			cr_expect_eq(returns.place_nr, row[i].nr, "%s: %zu", row[i].what,
				     returns.place_nr);
		cr_expect_eq(returns.leads_to_probed, row[i].slot == EXIT_PROBED, "%s",
			     row[i].what);
		for (size_t k = 0; !err && k < row[i].nr && k < returns.place_nr; k++)
			check_place(i, &returns.place[k], row[i].place[k]);
		returns_release(&returns);
	}
}

Test(returns, of_other_machines_are_refused)
{
	struct returns returns = {};
	struct reason why = {};

	cr_expect_eq(find(0, EM_RISCV, &returns, &why), -ENOTSUP);
	cr_expect(*why.text);
}

/* Nothing but jumps, each to the next function: it ends, refused. */
Test(returns, in_endless_code_are_refused)
{
	size_t size = 200000 * 16;
	char *bytes = malloc(size);
	struct fake_code code = { .code = bytes, .size = size };
	const struct code_source source = {
		&code, EM_X86_64, fake_read, fake_extent, fake_slot, fake_returns_argument,
	};
	struct returns returns = {};
	struct reason why = {};
	int err;

	memset(bytes, 0xcc, size);
	for (size_t at = 0; at < size; at += 16)
		memcpy(bytes + at, "\xeb\x0e", 2);
	err = returns_find(&source, BASE + 64, &returns, &why); /* behind "memset" */
	cr_expect_eq(err, -ENOTSUP, "%d", err);
	cr_expect(strstr(why.text, "too much code"), "%s", why.text);
	returns_release(&returns);
	free(bytes);
}

/* A switch in a function of 64 MiB, most of it a hole of a file: `add %al,(%rax)`. */
static size_t read_nr;

static size_t read_hole(void *object, uint64_t vaddr, void *buf, size_t len)
{
	static const char code[] = TABLE_LOAD TABLE_ADD "\xff\xe0";
	const struct fake_code *hole = object;

	if (vaddr - BASE >= hole->size)
		return 0;
	read_nr++;
	memset(buf, 0, len);
	if (vaddr == BASE)
		memcpy(buf, code, sizeof(code) - 1);
	return len;
}

Test(returns, in_endless_switches_are_refused)
{
	struct fake_code code = { .size = 64 << 20, .is_whole = true };
	const struct code_source source = {
		&code, EM_X86_64, read_hole, fake_extent, fake_slot, fake_returns_argument,
	};
	struct returns returns = {};
	struct reason why = {};
	int err = returns_find(&source, BASE, &returns, &why);

	cr_expect_eq(err, -ENOTSUP, "%d", err);
	cr_expect(strstr(why.text, "too much code"), "%s", why.text);
	cr_expect_lt(read_nr, 1000, "%zu windows were read", read_nr);
	returns_release(&returns);
}

/* Jumps through 2000 slots. One slot is quick to look up, but all of them would take too long. */
static size_t slot_nr;

static enum exit_kind count_slots(void *object, uint64_t vaddr, uint64_t *ret_vaddr)
{
	slot_nr++;
	return fake_slot(object, vaddr, ret_vaddr);
}

Test(returns, in_endless_slots_are_refused)
{
	enum { NR = 2000 };
	static char bytes[NR * 16];
	struct fake_code code = { .code = bytes, .size = sizeof(bytes), .slot = EXIT_PROBED };
	const struct code_source source = {
		&code, EM_X86_64, fake_read, fake_extent, count_slots, fake_returns_argument,
	};
	struct returns returns = {};
	struct reason why = {};

	for (size_t at = 0; at < sizeof(bytes); at += 16) /* je to the next; jmp *slot */
		memcpy(bytes + at, "\x74\x0e\xff\x25\0\0\0\0", 8);
	cr_expect_eq(returns_find(&source, BASE + 64, &returns, &why), -ENOTSUP);
	cr_expect_lt(slot_nr, 1000, "%zu slots were looked up", slot_nr);
	returns_release(&returns);
}

Test(returns, in_random_bytes_do_no_harm)
{
	char bytes[64];
	struct fake_code code = { .code = bytes, .size = sizeof(bytes) };
	const struct code_source source = {
		&code, EM_X86_64, fake_read, fake_extent, fake_slot, fake_returns_argument,
	};

	srand(1);
	for (size_t round = 0; round < 20000; round++) {
		struct returns returns = {};

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = rand();
		code.is_whole = round & 1;
		code.has_no_extents = round & 2;
		returns_find(&source, BASE, &returns, NULL);
		for (size_t i = 0; i < returns.place_nr; i++)
			cr_assert_lt(returns.place[i].vaddr - BASE, sizeof(bytes));
		returns_release(&returns);
	}
}

/* Return sites of this machine's allocators, compared with objdump. */

#define LIB "/usr/lib/x86_64-linux-gnu/"

static bool is_return(const struct listed_insn *insn)
{
	return insn && (!strncmp(insn->text, "ret", 3) || !strncmp(insn->text, "bnd ret", 7) ||
			!strncmp(insn->text, "rep", 3) || !strncmp(insn->text, "repz ret", 8));
}

static bool is_jump_to_memset(const struct listed_insn *insn)
{
	return insn && !strncmp(insn->text, "jmp", 3);
}

static bool has_place(const struct returns *returns, uint64_t vaddr)
{
	for (size_t i = 0; i < returns->place_nr; i++)
		if (returns->place[i].vaddr == vaddr)
			return true;
	return false;
}

/* Every site is a correct one, and no `ret` of the function itself is missing. */
static void judge(const struct listed_code *code, const struct elf_function *function,
		  const char *name, const struct returns *returns)
{
	uint64_t end = function->vaddr + function->size;
	const struct listed_insn *at = listed_code__at(code, function->vaddr);

	for (size_t i = 0; i < returns->place_nr; i++) {
		const struct return_place *place = &returns->place[i];
		const struct listed_insn *insn = listed_code__at(code, place->vaddr);

		cr_expect(place->is_in_argument ? is_jump_to_memset(insn) : is_return(insn),
			  "%s: %#lx: %s", name, place->vaddr, insn ? insn->text : "nothing");
	}
	for (; at && at < code->item + code->item_nr && at->vaddr < end; at++)
		if (is_return(at))
			cr_expect(has_place(returns, at->vaddr), "%s: %#lx is missing", name,
				  at->vaddr);
}

static struct elf_object *open_library(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_object *obj = fd >= 0 ? elf_object__open(fd, NULL) : NULL;

	if (fd >= 0)
		close(fd);
	if (!obj)
		skip_because("no %s", path);
	return obj;
}

static void judge_function(const struct code_source *source, const struct listed_code *code,
			   const struct elf_function *function, const char *path)
{
	const struct allocator_function *known = &allocator_functions[function->name];
	struct returns returns = {};
	struct reason why = {};
	int err;

	if (known->shape == SHAPE_FREE || function->is_local)
		return;
	err = returns_find(source, function->vaddr, &returns, &why);
	cr_expect_eq(err, 0, "%s: %s: %s", path, known->name, why.text);
	if (!err)
		judge(code, function, known->name, &returns);
	returns_release(&returns);
}

static void judge_library(const char *path)
{
	struct elf_object *obj = open_library(path);
	const char *name[allocator_function_nr];
	struct listed_code code = { 0 };
	struct elf_function *function;
	struct code_source source;
	struct elf_code elf_code;
	size_t nr;

	objdump_code(&code, path);
	if (!code.item_nr)
		skip_because("no objdump");
	for (size_t i = 0; i < allocator_function_nr; i++)
		name[i] = allocator_functions[i].name;
	cr_assert_eq(elf_code_open(&elf_code, obj, &source), 0);
	cr_assert_eq(elf_object__find_functions(obj, name, allocator_function_nr, &function, &nr),
		     0);
	cr_expect_gt(nr, 0);
	for (size_t i = 0; i < nr; i++)
		judge_function(&source, &code, &function[i], path);
	free(function);
	free(code.item);
	elf_object__close(obj);
}

Test(returns_libraries, of_libc_match_objdump)
{
	judge_library(LIB "libc.so.6");
}

Test(returns_libraries, of_jemalloc_match_objdump)
{
	judge_library(LIB "libjemalloc.so.2");
}

Test(returns_libraries, of_tcmalloc_match_objdump)
{
	judge_library(LIB "libtcmalloc_minimal.so.4");
}

Test(returns_libraries, of_mimalloc_match_objdump)
{
	judge_library(LIB "libmimalloc.so.2.0");
}

Test(returns_libraries, of_musl_match_objdump)
{
	judge_library("/usr/lib/x86_64-linux-musl/libc.so");
}

/* ---- .eh_frame_hdr against the sizes of symbols ---- */

Test(returns_libraries, extents_match_the_symbol_sizes)
{
	struct elf_object *obj = open_library(LIB "libc.so.6");
	struct listed_symbols symbols = { 0 };
	size_t same = 0, all = 0;

	readelf_functions(&symbols, LIB "libc.so.6");
	if (!symbols.item_nr)
		skip_because("no readelf");
	for (size_t i = 0; i < symbols.item_nr; i++) {
		uint64_t start, end;

		if (!symbols.item[i].size || elf_object__extent(obj, symbols.item[i].vaddr, &start,
								&end))
			continue;
		all++;
		same += start == symbols.item[i].vaddr && end == start + symbols.item[i].size;
	}
	cr_log_info("%zu of %zu functions of %zu", same, all, symbols.item_nr);
	cr_expect_gt(all, symbols.item_nr * 9 / 10);
	cr_expect_gt(same, all * 9 / 10);
	free(symbols.item);
	elf_object__close(obj);
}
