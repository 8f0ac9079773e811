// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* ELF files that are made to cost time and memory: what makes no sense is not gone through. */
#include "elf/elf_object.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define VADDR 0x400000u

static struct elf_object *open_bytes(const void *bytes, size_t size)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct elf_object *obj;

	cr_assert_geq(fd, 0);
	cr_assert_eq(pwrite(fd, bytes, size, 0), (ssize_t)size);
	obj = elf_object__open(fd, NULL);
	close(fd);
	cr_assert_not_null(obj);
	return obj;
}

static const Elf64_Ehdr header = {
	.e_ident = ELFMAG "\2\1\1", .e_type = ET_DYN, .e_machine = EM_X86_64,
	.e_version = EV_CURRENT, .e_phoff = sizeof(Elf64_Ehdr), .e_ehsize = sizeof(Elf64_Ehdr),
	.e_phentsize = sizeof(Elf64_Phdr),
};

/* ---- overlapping note segments: a file of 5 MiB could make the reader read 64 GiB ---- */

#define JUNK_NR 8
#define JUNK_BYTES (1u << 20)

struct noted {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[JUNK_NR + 1];
	struct {
		Elf64_Nhdr header;
		char name[4];
		uint8_t id[4];
	} note;
	char junk[JUNK_BYTES + JUNK_NR * 4];
};

static void noted__init(struct noted *noted, size_t junk_nr)
{
	memset(noted, 0, sizeof(*noted));
	noted->ehdr = header;
	noted->ehdr.e_phnum = junk_nr + 1;
	for (size_t i = 0; i < junk_nr; i++)
		noted->phdr[i] = (Elf64_Phdr){
			.p_type = PT_NOTE, .p_offset = offsetof(struct noted, junk) + 4 * i,
			.p_filesz = JUNK_BYTES - 4096, .p_align = 4,
		};
	noted->phdr[junk_nr] = (Elf64_Phdr){
		.p_type = PT_NOTE, .p_offset = offsetof(struct noted, note),
		.p_filesz = JUNK_BYTES - 4096, .p_align = 4,
	};
	noted->note.header = (Elf64_Nhdr){ 4, 4, NT_GNU_BUILD_ID };
	memcpy(noted->note.name, "GNU", 4);
	memcpy(noted->note.id, "\1\2\3\4", 4);
}

static void expect_build_id(size_t junk_nr, const char *id)
{
	struct noted *noted = malloc(sizeof(*noted));
	struct elf_object *obj;

	noted__init(noted, junk_nr);
	obj = open_bytes(noted, sizeof(*noted));
	cr_expect_str_eq(elf_object__build_id(obj), id, "%zu: %s", junk_nr,
			 elf_object__build_id(obj));
	elf_object__close(obj);
	free(noted);
}

/* The limit is for all segments together. */
Test(elf_hostile, overlapping_notes_are_read_up_to_a_limit)
{
	expect_build_id(0, "01020304");
	expect_build_id(1, "");
	expect_build_id(JUNK_NR, "");
}

/* ---- strings that do not end: 5 million symbols, each with a name of 128 MiB ---- */

#define LONG_BYTES 65536

struct named {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[2];
	Elf64_Dyn dyn[5];
	Elf64_Sym sym[3];
	uint32_t hash[2];
	char strings[LONG_BYTES];
};

#define AT(field) (VADDR + offsetof(struct named, field))

static void named__init(struct named *named)
{
	static const unsigned int func = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);

	*named = (struct named){
		.ehdr = header,
		.phdr = {
			{ PT_LOAD, PF_R | PF_X, 0, VADDR, VADDR, sizeof(*named), sizeof(*named),
			  4096 },
			{ PT_DYNAMIC, PF_R, offsetof(struct named, dyn), AT(dyn), AT(dyn),
			  sizeof(named->dyn), sizeof(named->dyn), 8 },
		},
		.dyn = {
			{ DT_SYMTAB, { AT(sym) } }, { DT_STRTAB, { AT(strings) } },
			{ DT_STRSZ, { LONG_BYTES } }, { DT_HASH, { AT(hash) } },
		},
		.sym = {
			{}, { 1, func, 0, 1, AT(strings), 1 },
			{ LONG_BYTES - 4, func, 0, 1, AT(strings) + 8, 1 },
		},
		.hash = { 1, 3 },
	};
	named->ehdr.e_phnum = 2;
	memset(named->strings, 'a', LONG_BYTES - 1);
}

Test(elf_hostile, names_without_an_end_are_ignored)
{
	struct named *named = malloc(sizeof(*named));
	struct elf_function *got = NULL;
	const char *name[2];
	struct elf_object *obj;
	size_t nr = 0;

	named__init(named);
	name[0] = &named->strings[1];
	name[1] = "aaa";
	obj = open_bytes(named, sizeof(*named));
	cr_expect_eq(elf_object__find_functions(obj, name, 2, &got, &nr), 0);
	cr_assert_eq(nr, 1, "%zu", nr);
	cr_expect_eq(got[0].name, 1, "the short one");
	free(got);
	elf_object__close(obj);
	free(named);
}
