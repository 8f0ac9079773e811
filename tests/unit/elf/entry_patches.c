// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Entries that a jump can replace, in files that are made here: malloc() is the code of a row, free() can be moved. */
#include "elf/entry_patch.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "elf/allocators.h"

/* The file: a page of headers and symbols, two pages of code at 0x401000. */
#define CODE 0x401000
#define MALLOC_AT 0x100
#define FREE_AT 0x800
#define SYMBOLS_AT 0x300
#define NAMES_AT 0x400
#define CODE_BYTES 0x2000
#define FILE_BYTES (0x1000 + CODE_BYTES)

static const char names[] = "\0malloc\0free\0realloc\0calloc";

static void add_symbol(uint8_t *file, size_t nr, uint32_t name, uint64_t at, uint64_t size)
{
	const Elf64_Sym symbol = {
		.st_name = name, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1, .st_value = CODE + at,
		.st_size = size,
	};

	memcpy(file + SYMBOLS_AT + nr * sizeof(symbol), &symbol, sizeof(symbol));
}

static int make_file(uint64_t malloc_at, const void *code, size_t bytes)
{
	static const uint8_t movable[] = { 0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3, 0x90, 0x90 }; /* push; mov; pop; ret */
	const Elf64_Ehdr header = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_EXEC, .e_machine = EM_X86_64, .e_version = 1, .e_phoff = sizeof(header),
		.e_shoff = 0x200, .e_ehsize = sizeof(header), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1,
		.e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3, .e_shstrndx = 2,
	};
	const Elf64_Phdr segment = { PT_LOAD, PF_R | PF_X, 0x1000, CODE, CODE, CODE_BYTES, CODE_BYTES, 0x1000 };
	const Elf64_Shdr sections[] = {
		{},
		{ .sh_type = SHT_SYMTAB, .sh_offset = SYMBOLS_AT, .sh_size = 5 * sizeof(Elf64_Sym), .sh_link = 2,
		  .sh_entsize = sizeof(Elf64_Sym), .sh_info = 1 },
		{ .sh_type = SHT_STRTAB, .sh_offset = NAMES_AT, .sh_size = sizeof(names) },
	};
	uint8_t file[FILE_BYTES] = {};
	int fd = memfd_create("made", MFD_CLOEXEC);

	memcpy(file, &header, sizeof(header));
	memcpy(file + sizeof(header), &segment, sizeof(segment));
	memcpy(file + 0x200, sections, sizeof(sections));
	memcpy(file + NAMES_AT, names, sizeof(names));
	memset(file + 0x1000, 0xcc, CODE_BYTES);
	memcpy(file + 0x1000 + malloc_at, code, bytes);
	add_symbol(file, 1, 1, malloc_at, bytes);
	for (size_t i = 0; i < 3; i++) { /* a heap is complete */
		static const uint32_t name[] = { 8, 13, 21 };

		memcpy(file + 0x1000 + FREE_AT + i * 64, movable, sizeof(movable));
		add_symbol(file, 2 + i, name[i], FREE_AT + i * 64, sizeof(movable));
	}
	cr_assert_eq(write(fd, file, sizeof(file)), sizeof(file));
	return fd;
}

/* malloc's patch in a file whose malloc has this code. */
static struct entry_patch read_malloc_at(uint64_t malloc_at, const void *code, size_t bytes)
{
	int fd = make_file(malloc_at, code, bytes);
	struct entry_patches patches;
	struct entry_patch found = {};
	struct reason why = {};

	cr_assert_eq(entry_patches_read(fd, &patches, &why), 0, "%s", why.text);
	cr_expect(entry_patches_are_sound(&patches, FILE_BYTES));
	cr_expect_eq(patches.nr, 4);
	for (uint64_t i = 0; i < patches.nr; i++)
		if (!strcmp(allocator_functions[patches.patch[i].name].name, "malloc"))
			found = patches.patch[i];
		else
			cr_expect_str_eq(patches.patch[i].fault, "");
	entry_patches_release(&patches);
	close(fd);
	return found;
}

static struct entry_patch read_malloc(const void *code, size_t bytes)
{
	return read_malloc_at(MALLOC_AT, code, bytes);
}

#define BYTES(bytes) bytes, sizeof(bytes) - 1

Test(entry_patches, say_what_can_be_moved)
{
	static const struct {
		const char *what, *code;
		size_t size;
		const char *fault; /* a part of it; "": none */
		uint32_t insn_nr, skipped;
	} row[] = {
		{ "plain", BYTES("\x55\x48\x89\xe5\x53\xc3"), "", 3, 0 },
		{ "endbr64", BYTES("\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x53\xc3"), "", 3, 4 },
		{ "long instruction", BYTES("\x48\xb8\1\2\3\4\5\6\7\x08\xc3"), "", 1, 0 },
		{ "operand of rip", BYTES("\x48\x8b\x05\1\2\3\0\xc3"), "", 1, 0 },
		{ "jcc, away", BYTES("\x48\x85\xff\x74\x02\x90\x90\xc3"), "", 2, 0 },
		{ "jmp", BYTES("\xe9\0\1\0\0\xc3"), "", 1, 0 },
		{ "short jmp", BYTES("\xeb\x10\x90\x90\x90\xc3"), "cannot be moved: jmp", 0, 0 },
		{ "call", BYTES("\xe8\0\1\0\0\xc3"), "cannot be moved: call", 0, 0 },
		{ "call behind others", BYTES("\x53\xe8\0\1\0\0\xc3"), "cannot be moved: call", 1, 0 },
		{ "ret", BYTES("\x31\xc0\xc3\x90\x90\x90"), "cannot be moved: ret", 1, 0 },
		{ "int3", BYTES("\xcc\x90\x90\x90\x90\xc3"), "cannot be moved: int3", 0, 0 },
		{ "loop", BYTES("\x90\xe2\xfd\x90\x90\xc3"), "cannot be moved: loop", 1, 0 },
		{ "syscall", BYTES("\x0f\x05\x90\x90\x90\xc3"), "cannot be moved: syscall", 0, 0 },
		{ "short", BYTES("\x55\x90\x90"), "too short", 3, 0 },
		{ "no code", BYTES("\x06\x06\x06\x06\x06\x06"), "cannot be decoded", 0, 0 },
		{ "branch to the entry", BYTES("\x48\xff\xcf\x90\x90\x75\xf9\xc3"), "", 3, 0 },
		{ "branch into it", BYTES("\x48\xff\xcf\x90\x90\x75\xfc\xc3"), "leads into its entry", 3, 0 },
		{ "table", BYTES("\x55\x48\x89\xe5\x53\xff\xe0"), "by a table", 3, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct entry_patch patch = read_malloc(row[i].code, row[i].size);

		cr_expect(*row[i].fault ? strstr(patch.fault, row[i].fault) != NULL : !*patch.fault, "%s: \"%s\"", row[i].what,
			  patch.fault);
		cr_expect_eq(patch.insn_nr, row[i].insn_nr, "%s: %u instructions", row[i].what, patch.insn_nr);
		cr_expect_eq(patch.skipped, row[i].skipped, "%s", row[i].what);
		cr_expect_eq(patch.vaddr, CODE + MALLOC_AT + row[i].skipped, "%s", row[i].what);
	}
}

/* The jump is written at once, in one page. The instructions that move may reach into the next one. */
Test(entry_patches, lie_on_one_page)
{
	static const char plain[] = "\x55\x48\x89\xe5\x53\xc3", endbr64[] = "\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x53\xc3";
	static const struct {
		uint64_t at;
		const char *code;
		bool is_on_two;
	} row[] = {
		{ 0xffb, plain }, { 0xffc, plain, true }, { 0xfff, plain, true }, { 0x1000, plain },
		{ 0xff7, endbr64 }, { 0xff8, endbr64, true }, { 0xffc, endbr64 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct entry_patch patch = read_malloc_at(row[i].at, row[i].code, strlen(row[i].code));

		cr_expect_str_eq(patch.fault, row[i].is_on_two ? "its entry lies on two pages" : "", "row %zu", i);
	}
}

Test(entry_patches, see_branches_from_elsewhere)
{
	/* free() has a jump of five bytes behind its end, to malloc + 1 */
	uint8_t code[0x600] = { 0x55, 0x48, 0x89, 0xe5, 0x53, 0xc3 };
	int32_t distance = 1 - (0x500 + 5);
	struct entry_patch patch;

	memset(code + 6, 0x90, sizeof(code) - 6);
	cr_expect_str_eq(read_malloc(code, sizeof(code)).fault, "");
	code[0x500] = 0xe9;
	memcpy(code + 0x501, &distance, sizeof(distance));
	patch = read_malloc(code, 6); /* the rest is no function */
	cr_expect_str_eq(patch.fault, "");
	{
		int fd = make_file(MALLOC_AT, code, 6);
		struct entry_patches patches;

		cr_assert_eq(pwrite(fd, code + 0x500, 5, 0x1000 + MALLOC_AT + 0x500), 5);
		cr_assert_eq(entry_patches_read(fd, &patches, NULL), 0);
		for (uint64_t i = 0; i < patches.nr; i++)
			cr_expect(!strcmp(allocator_functions[patches.patch[i].name].name, "malloc") ==
				  (strstr(patches.patch[i].fault, "another function") != NULL));
		entry_patches_release(&patches);
		close(fd);
	}
}

Test(entry_patches, see_calls_of_the_allocator)
{
	uint8_t code[] = { 0x55, 0x48, 0x89, 0xe5, 0x53, 0xe8, 0, 0, 0, 0, 0xc3 };
	int32_t to_realloc = FREE_AT + 64 - (MALLOC_AT + 10), to_free = FREE_AT - (MALLOC_AT + 10);
	struct entry_patch patch;

	memcpy(code + 6, &to_free, sizeof(to_free));
	patch = read_malloc(code, sizeof(code));
	cr_expect(!patch.calls_giver && patch.calls_taker && !patch.passes_on && patch.goes_out);
	memcpy(code + 6, &to_realloc, sizeof(to_realloc));
	patch = read_malloc(code, sizeof(code));
	cr_expect(patch.calls_giver && patch.calls_taker && !patch.passes_on);
}

Test(entry_patches, move_instructions)
{
	static const uint8_t code[] = { 0x48, 0x8b, 0x05, 0, 1, 0, 0, 0xc3 }; /* mov 0x100(%rip), %rax */
	static const uint8_t branch[] = { 0x48, 0x85, 0xff, 0x74, 0x02, 0x90, 0x90, 0xc3 };
	struct entry_patch patch = read_malloc(code, sizeof(code));
	uint8_t moved[ENTRY_MOVED_ROOM], at[ENTRY_INSNS_MAX];

	cr_assert_eq(entry_patch_move(&patch, 0x10000, 0x20000, moved, at), 12);
	cr_expect_arr_eq(moved, ((uint8_t[]){ 0x48, 0x8b, 0x05, 0, 1, 0xff, 0xff, 0xe9, 0xfb, 0xff, 0xfe, 0xff }), 12);
	cr_expect_eq(entry_patch_move(&patch, 0x10000, 0x200000000, moved, at), 0, "out of reach");
	patch = read_malloc(branch, sizeof(branch));
	cr_assert_eq(entry_patch_move(&patch, 0x10000, 0x20000, moved, at), 3 + 6 + 5);
	cr_expect(!patch.goes_out, "its branch stays in it");
	/* je to 0x10007; jmp to 0x10005 */
	cr_expect_arr_eq(moved, ((uint8_t[]){ 0x48, 0x85, 0xff, 0x0f, 0x84, 0xfe, 0xff, 0xfe, 0xff, 0xe9, 0xf7, 0xff, 0xfe, 0xff }), 14);
	cr_expect_eq(at[1], 3);
}

Test(entry_patches, are_checked)
{
	static const uint8_t code[] = { 0x48, 0x8b, 0x05, 0, 1, 0, 0, 0xc3 };
	struct entry_patch good = read_malloc(code, sizeof(code)), patch;
	struct entry_patches patches = { 1, &patch };

#define EXPECT_UNSOUND(...)                                                                \
	do {                                                                               \
		patch = good;                                                              \
		cr_expect(entry_patches_are_sound(&patches, FILE_BYTES));                  \
		__VA_ARGS__;                                                               \
		cr_expect(!entry_patches_are_sound(&patches, FILE_BYTES), #__VA_ARGS__);   \
	} while (0)
	EXPECT_UNSOUND(patch.name = allocator_function_nr);
	EXPECT_UNSOUND(patch.insn_nr = ENTRY_INSNS_MAX + 1);
	EXPECT_UNSOUND(patch.insn_nr = 0);
	EXPECT_UNSOUND(patch.offset = FILE_BYTES - 1);
	EXPECT_UNSOUND(patch.insn[0].size = 16);
	EXPECT_UNSOUND(patch.insn[0].at = 4);
	EXPECT_UNSOUND(patch.insn[0].displacement_bytes = 1);
	EXPECT_UNSOUND(patch.insn[0].kind = ENTRY_INSN_KIND_NR);
	EXPECT_UNSOUND(patch.skipped = 5);
	EXPECT_UNSOUND(patch.calls_giver = 2);
	EXPECT_UNSOUND(patch.goes_out = 2);
	EXPECT_UNSOUND(memset(patch.fault, 'x', sizeof(patch.fault)));
	patches.nr = ENTRY_PATCHES_MAX + 1;
	cr_expect(!entry_patches_are_sound(&patches, FILE_BYTES));
}
