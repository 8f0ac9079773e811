// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "binutils.h"
#include "elf/elf_object.h"
#include "skip.h"

static int file_of(const void *bytes, size_t size)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(pwrite(fd, bytes, size, 0), (ssize_t)size);
	return fd;
}

/* Opens and closes the descriptor; errno is elf_object__open()'s. */
static struct elf_object *open_fd(int fd, struct reason *why)
{
	struct elf_object *obj = elf_object__open(fd, why);
	int err = errno;

	if (fd >= 0)
		close(fd);
	errno = err;
	return obj;
}

/* ---- a library by hand: no section headers, code at another offset than its address ---- */

#define VADDR 0x400000u

enum { SYM_NULL, SYM_UNDEFINED, SYM_MALLOC, SYM_FREE_TOO, SYM_FREE, SYM_IFUNC, SYM_DATA,
       SYM_OUTSIDE, SYM_LOCAL, SYM_NR };

static const char strings[] = "\0undefined\0malloc\0free@@V_2\0memcpy\0hidden\0table\0outside";
#define STRING(name) ((uint32_t)((const char *)memmem(strings, sizeof(strings), name, \
						       sizeof(name)) - strings))

struct image {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[3];
	struct {
		Elf64_Nhdr header;
		char name[4];
		uint8_t id[20];
	} note;
	Elf64_Dyn dyn[6];
	Elf64_Sym sym[SYM_NR];
	uint32_t hash[3 + SYM_NR];
	uint32_t gnu_hash[4 + 2 + 2 + SYM_NR];
	char str[sizeof(strings)];
	uint8_t code[64];
};

#define IMAGE_AT(field) (VADDR + offsetof(struct image, field))

static void image__symbols(struct image *image)
{
	static const unsigned int func = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
	uint64_t code = IMAGE_AT(code);

	image->sym[SYM_UNDEFINED] = (Elf64_Sym){ STRING("undefined"), func, 0, 0, code, 0 };
	image->sym[SYM_MALLOC] = (Elf64_Sym){ STRING("malloc"), func, 0, 1, code, 16 };
	image->sym[SYM_FREE_TOO] = (Elf64_Sym){ STRING("free@@V_2"),
		ELF64_ST_INFO(STB_LOCAL, STT_FUNC), 0, 1, code + 16, 4 };
	image->sym[SYM_FREE] = (Elf64_Sym){ STRING("free@@V_2"), func, 0, 1, code + 16, 9999 };
	image->sym[SYM_IFUNC] = (Elf64_Sym){ STRING("memcpy"),
		ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC), 0, 1, code + 32, 4 };
	image->sym[SYM_LOCAL] = (Elf64_Sym){ STRING("hidden"),
		ELF64_ST_INFO(STB_LOCAL, STT_FUNC), 0, 1, code + 36, 4 };
	image->sym[SYM_DATA] = (Elf64_Sym){ STRING("table"),
		ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), 0, 1, code, 8 };
	image->sym[SYM_OUTSIDE] = (Elf64_Sym){ STRING("outside"), func, 0, 1, 0x10, 8 };
}

static void image__init(struct image *image)
{
	*image = (struct image){
		.ehdr = {
			.e_ident = ELFMAG "\2\1\1", .e_type = ET_DYN, .e_machine = EM_X86_64,
			.e_version = EV_CURRENT, .e_phoff = offsetof(struct image, phdr),
			.e_ehsize = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 3,
		},
		.phdr = {
			{ PT_LOAD, PF_R | PF_X, 0, VADDR, VADDR, sizeof(*image), sizeof(*image),
			  4096 },
			{ PT_DYNAMIC, PF_R, offsetof(struct image, dyn), IMAGE_AT(dyn), IMAGE_AT(dyn),
			  sizeof(image->dyn), sizeof(image->dyn), 8 },
			{ PT_NOTE, PF_R, offsetof(struct image, note), IMAGE_AT(note), IMAGE_AT(note),
			  sizeof(image->note), sizeof(image->note), 4 },
		},
		.note = { { 4, 20, NT_GNU_BUILD_ID }, "GNU", { 0xab, 0xcd, 1, 2, 3 } },
		.dyn = {
			{ DT_SYMTAB, { IMAGE_AT(sym) } }, { DT_STRTAB, { IMAGE_AT(str) } },
			{ DT_STRSZ, { sizeof(strings) } }, { DT_HASH, { IMAGE_AT(hash) } },
		},
		.hash = { 1, SYM_NR, SYM_UNDEFINED },
		/* one bucket, symbols from SYM_MALLOC on, one word of filter */
		.gnu_hash = { 1, SYM_MALLOC, 1, 0, 0, 0, SYM_MALLOC },
	};
	image->gnu_hash[7 + SYM_NR - 1 - SYM_MALLOC] = 1;
	memcpy(image->str, strings, sizeof(strings));
	memset(image->code, 0x90, sizeof(image->code));
	image__symbols(image);
}

static const char *const image_names[] = { "free", "malloc", "memcpy", "hidden", "table", "outside",
					   "undefined", "free", "", "mallo" };

static void expect_image_functions(const struct image *image)
{
	static const struct elf_function want[] = {
		{ .name = 0, .vaddr = IMAGE_AT(code) + 16, .size = sizeof(struct image) -
		  offsetof(struct image, code) - 16 },
		{ .name = 1, .vaddr = IMAGE_AT(code), .size = 16 },
		{ .name = 2, .vaddr = IMAGE_AT(code) + 32, .size = 4, .is_ifunc = true },
		{ .name = 3, .vaddr = IMAGE_AT(code) + 36, .size = 4, .is_local = true },
	};
	struct elf_object *obj = open_fd(file_of(image, sizeof(*image)), NULL);
	struct elf_function *got;
	size_t got_nr;

	cr_assert_not_null(obj);
	cr_expect_str_eq(elf_object__build_id(obj), "abcd010203000000000000000000000000000000");
	cr_expect(elf_object__is_dynamic(obj));
	cr_expect_eq(elf_object__machine(obj), EM_X86_64);
	cr_assert_eq(elf_object__find_functions(obj, image_names, ARRAY_SIZE(image_names), &got,
						&got_nr), 0);
	cr_assert_eq(got_nr, ARRAY_SIZE(want), "%zu", got_nr);
	for (size_t i = 0; i < got_nr; i++) {
		cr_expect_eq(got[i].name, want[i].name, "%zu", i);
		cr_expect_eq(got[i].vaddr, want[i].vaddr, "%zu", i);
		cr_expect_eq(got[i].offset, want[i].vaddr - VADDR, "%zu", i);
		cr_expect_eq(got[i].size, want[i].size, "%zu: %zu", i, got[i].size);
		cr_expect_eq(got[i].is_ifunc, want[i].is_ifunc, "%zu", i);
		cr_expect_eq(got[i].is_local, want[i].is_local, "%zu", i);
	}
	free(got);
	elf_object__close(obj);
}

Test(elf_object, finds_functions_by_sysv_hash_without_section_headers)
{
	struct image image;

	image__init(&image);
	expect_image_functions(&image);
}

Test(elf_object, finds_functions_by_gnu_hash_without_section_headers)
{
	struct image image;

	image__init(&image);
	image.dyn[3] = (Elf64_Dyn){ DT_GNU_HASH, { IMAGE_AT(gnu_hash) } };
	expect_image_functions(&image);
}

static int count_functions(const struct image *image, size_t *ret_nr)
{
	struct elf_object *obj = open_fd(file_of(image, sizeof(*image)), NULL);
	struct elf_function *got = NULL;
	int err;

	cr_assert_not_null(obj);
	err = elf_object__find_functions(obj, image_names, ARRAY_SIZE(image_names), &got, ret_nr);
	free(got);
	elf_object__close(obj);
	return err;
}

Test(elf_object, finds_no_functions_when_there_are_none)
{
	struct image image;
	size_t nr = 99;

	image__init(&image);
	image.phdr[0].p_flags = PF_R;
	cr_expect_eq(count_functions(&image, &nr), 0);
	cr_expect_eq(nr, 0, "data is no code");

	image__init(&image);
	image.dyn[3] = (Elf64_Dyn){ DT_GNU_HASH, { IMAGE_AT(gnu_hash) } };
	image.gnu_hash[6] = 0;
	cr_expect_eq(count_functions(&image, &nr), 0);
	cr_expect_eq(nr, 0, "nothing exported");

	image__init(&image);
	image.ehdr.e_phnum = 1;
	cr_expect_eq(count_functions(&image, &nr), 0);
	cr_expect_eq(nr, 0, "static");

	image__init(&image);
	image.phdr[0].p_filesz = offsetof(struct image, code);
	cr_expect_eq(count_functions(&image, &nr), 0);
	cr_expect_eq(nr, 0, "code behind the segment");
}

Test(elf_object, reads_exactly_the_requested_bytes_or_fails)
{
	struct elf_object *obj;
	struct image image, got;
	uint64_t offset;

	image__init(&image);
	obj = open_fd(file_of(&image, sizeof(image)), NULL);
	cr_assert_eq(elf_object__read(obj, 0, &got, sizeof(got)), 0);
	cr_expect_eq(memcmp(&got, &image, sizeof(got)), 0);
	cr_expect_eq(elf_object__read(obj, 1, &got, sizeof(got)), -ENODATA);
	cr_expect_eq(elf_object__read(obj, UINT64_MAX, &got, 2), -ENODATA);
	cr_expect_eq(elf_object__read(obj, sizeof(image), &got, 0), 0);
	cr_expect_eq(elf_object__offset_of(obj, VADDR + 5, &offset), 0);
	cr_expect_eq(offset, 5);
	cr_expect_eq(elf_object__offset_of(obj, VADDR - 1, &offset), -ENOENT);
	cr_expect_eq(elf_object__offset_of(obj, VADDR + sizeof(image), &offset), -ENOENT);
	cr_expect_eq(offset, 5);
	elf_object__close(obj);
	elf_object__close(NULL);
}

static void expect_refused(const struct image *image, size_t size, int err, const char *what)
{
	struct reason why = { "" };
	struct elf_object *obj = open_fd(file_of(image, size), &why);

	cr_expect_null(obj, "%s", what);
	cr_expect_eq(errno, err, "%s: %s", what, strerror(errno));
	cr_expect(why.text[0], "%s", what);
	elf_object__close(obj);
}

Test(elf_object, refuses_files_that_cannot_be_probed)
{
	struct image image;
	int pipe_fd[2];

	image__init(&image);
	expect_refused(&image, 0, ENOEXEC, "empty");
	expect_refused(&image, 4, ENOEXEC, "magic only");
	image.ehdr.e_machine = EM_AARCH64;
	expect_refused(&image, sizeof(image), ENOTSUP, "another machine");
	image.ehdr.e_machine = EM_X86_64;
	image.ehdr.e_type = ET_REL;
	expect_refused(&image, sizeof(image), ENOEXEC, "an object file");
	image.ehdr.e_type = ET_DYN;
	image.ehdr.e_ident[EI_CLASS] = ELFCLASS32;
	expect_refused(&image, sizeof(image), ENOTSUP, "32-bit");
	image.ehdr.e_ident[0] = '#';
	expect_refused(&image, sizeof(image), ENOEXEC, "no ELF");

	cr_assert_eq(pipe(pipe_fd), 0);
	cr_expect_null(open_fd(pipe_fd[0], NULL));
	cr_expect_eq(errno, ENOEXEC);
	close(pipe_fd[1]);
	cr_expect_null(open_fd(-1, NULL));
	cr_expect_eq(errno, EBADF);
}

Test(elf_object, refuses_broken_tables)
{
	static const struct {
		const char *what;
		size_t dyn;
		uint64_t value;
	} row[] = {
		{ "symbols outside", 0, 0x10 },	  { "strings outside", 1, 0x10 },
		{ "no strings", 2, 0 },		  { "strings behind the end", 2, 1 << 20 },
		{ "hash outside", 3, 0x10 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct image image;
		size_t nr = 99;

		image__init(&image);
		image.dyn[row[i].dyn].d_un.d_val = row[i].value;
		cr_expect_eq(count_functions(&image, &nr), -ENOEXEC, "%s", row[i].what);
		cr_expect_eq(nr, 99, "%s", row[i].what);
	}
}

/* Calls every question. The answers do not matter; no call may crash. */
static void use(const void *bytes, size_t size)
{
	struct elf_object *obj = open_fd(file_of(bytes, size), NULL);
	struct elf_function *got = NULL;
	size_t got_nr = 0;
	char code[64];

	if (!obj)
		return;
	cr_assert_leq(strlen(elf_object__build_id(obj)), 128);
	if (elf_object__find_functions(obj, image_names, ARRAY_SIZE(image_names), &got, &got_nr))
		got_nr = 0;
	for (size_t i = 0; i < got_nr; i++)
		elf_object__read(obj, got[i].offset, code, sizeof(code));
	free(got);
	elf_object__close(obj);
}

Test(elf_object, survives_any_changed_byte_of_a_library)
{
	static const uint8_t value[] = { 0, 1, 0x7f, 0x80, 0xff };
	union {
		struct image image;
		uint8_t byte[sizeof(struct image)];
	} it, broken;

	for (int gnu = 0; gnu < 2; gnu++) {
		image__init(&it.image);
		if (gnu)
			it.image.dyn[3] = (Elf64_Dyn){ DT_GNU_HASH, { IMAGE_AT(gnu_hash) } };
		for (size_t i = 0; i < sizeof(it); i++)
			for (size_t j = 0; j < ARRAY_SIZE(value); j++) {
				broken = it;
				broken.byte[i] = value[j];
				use(&broken, sizeof(broken));
			}
		for (size_t size = 0; size < sizeof(it); size++)
			use(&it, size);
	}
}

static void *slurp(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *bytes;

	if (fd < 0 || fstat(fd, &st))
		skip_because("no %s", path);
	bytes = malloc(st.st_size);
	cr_assert_eq(read(fd, bytes, st.st_size), st.st_size);
	close(fd);
	*size = st.st_size;
	return bytes;
}

/* Breaks bytes of the headers, and of section headers at the end, of a small real library. */
Test(elf_object, survives_a_real_library_changed_at_random)
{
	size_t size;
	uint8_t *bytes = slurp("/usr/lib/x86_64-linux-gnu/libdl.so.2", &size);
	uint8_t *broken = malloc(size);

	srand(1);
	for (size_t round = 0; round < 4000; round++) {
		memcpy(broken, bytes, size);
		for (size_t i = rand() % 8; i < 8; i++) {
			size_t into = rand() % 4096 % size;

			broken[rand() % 2 ? into : size - 1 - into] = rand();
		}
		use(broken, rand() % 4 ? size : rand() % size);
	}
	free(broken);
	free(bytes);
}

Test(elf_object, refuses_more_matches_than_the_limit)
{
	struct {
		struct image image;
		Elf64_Sym sym[ELF_FUNCTIONS_MAX + 1];
	} *big = calloc(1, sizeof(*big));
	struct elf_function *got = NULL;
	struct elf_object *obj;
	size_t got_nr;

	image__init(&big->image);
	big->image.phdr[0].p_filesz = big->image.phdr[0].p_memsz = sizeof(*big);
	big->image.dyn[0].d_un.d_ptr = VADDR + sizeof(big->image);
	big->image.hash[1] = ELF_FUNCTIONS_MAX + 1;
	for (size_t i = 0; i <= ELF_FUNCTIONS_MAX; i++) {
		big->sym[i] = big->image.sym[SYM_MALLOC];
		big->sym[i].st_value = VADDR + i;
	}
	obj = open_fd(file_of(big, sizeof(*big)), NULL);
	cr_expect_eq(elf_object__find_functions(obj, image_names, ARRAY_SIZE(image_names), &got,
						&got_nr), -E2BIG);
	cr_expect_null(got);
	elf_object__close(obj);
	free(big);
}

/* ELF files that are made to cost time and memory: what makes no sense is not gone through. */

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

#define NAMED_AT(field) (VADDR + offsetof(struct named, field))

static void named__init(struct named *named)
{
	static const unsigned int func = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);

	*named = (struct named){
		.ehdr = header,
		.phdr = {
			{ PT_LOAD, PF_R | PF_X, 0, VADDR, VADDR, sizeof(*named), sizeof(*named),
			  4096 },
			{ PT_DYNAMIC, PF_R, offsetof(struct named, dyn), NAMED_AT(dyn), NAMED_AT(dyn),
			  sizeof(named->dyn), sizeof(named->dyn), 8 },
		},
		.dyn = {
			{ DT_SYMTAB, { NAMED_AT(sym) } }, { DT_STRTAB, { NAMED_AT(strings) } },
			{ DT_STRSZ, { LONG_BYTES } }, { DT_HASH, { NAMED_AT(hash) } },
		},
		.sym = {
			{}, { 1, func, 0, 1, NAMED_AT(strings), 1 },
			{ LONG_BYTES - 4, func, 0, 1, NAMED_AT(strings) + 8, 1 },
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

/* Real ELF files of this machine, compared with readelf. */

#define LIB "/usr/lib/x86_64-linux-gnu/"

static struct elf_object *open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_object *obj;

	if (fd < 0)
		return NULL;
	obj = elf_object__open(fd, NULL);
	close(fd);
	cr_assert_not_null(obj, "%s", path);
	return obj;
}

static bool is_listed(const struct listed_symbols *symbols, const char *name,
		      const struct elf_function *function)
{
	for (size_t i = 0; i < symbols->item_nr; i++) {
		const struct listed_symbol *listed = &symbols->item[i];

		if (listed->vaddr == function->vaddr && listed->size == function->size &&
		    listed->is_ifunc == function->is_ifunc &&
		    listed->is_local == function->is_local && !strcmp(listed->name, name))
			return true;
	}
	return false;
}

static bool is_found(const struct elf_function *function, size_t function_nr,
		     const char *const *name, const struct listed_symbol *listed)
{
	for (size_t i = 0; i < function_nr; i++)
		if (function[i].vaddr == listed->vaddr &&
		    !strcmp(name[function[i].name], listed->name))
			return true;
	return false;
}

static void compare_with_readelf(const char *path)
{
	struct elf_object *obj = open_file(path);
	struct listed_symbols symbols = { 0 };
	struct elf_function *function;
	char command[512], line[256];
	size_t function_nr;
	const char **name;

	if (!obj)
		skip_because("no %s", path);
	readelf_functions(&symbols, path);
	if (!symbols.item_nr)
		skip_because("no readelf");
	name = calloc(symbols.item_nr, sizeof(*name));
	for (size_t i = 0; i < symbols.item_nr; i++)
		name[i] = symbols.item[i].name;
	cr_assert_eq(elf_object__find_functions(obj, name, symbols.item_nr, &function,
						&function_nr), 0);
	for (size_t i = 0; i < symbols.item_nr; i++)
		cr_expect(is_found(function, function_nr, name, &symbols.item[i]), "%s", name[i]);
	for (size_t i = 0; i < function_nr; i++)
		cr_expect(is_listed(&symbols, name[function[i].name], &function[i]), "%s",
			  name[function[i].name]);
	snprintf(command, sizeof(command), "readelf -n %s | sed -n 's/.*Build ID: //p'", path);
	first_line(line, sizeof(line), command);
	cr_expect_str_eq(elf_object__build_id(obj), line);
	cr_log_info("%s: %zu functions of %zu symbols, build-id %s", path, function_nr,
		    symbols.item_nr, line);
	free(function);
	free(name);
	free(symbols.item);
	elf_object__close(obj);
}

Test(elf_libraries, libc_functions_match_readelf)
{
	compare_with_readelf(LIB "libc.so.6");
}

Test(elf_libraries, jemalloc_functions_match_readelf)
{
	compare_with_readelf(LIB "libjemalloc.so.2");
}

static int static_function_of_this_test(void)
{
	return getpid();
}

/* .symtab, without versions or exports; the code there is what runs. */
Test(elf_libraries, own_functions_are_found_in_symtab)
{
	static const char *const name[] = { "static_function_of_this_test", "elf_object__open" };
	struct elf_object *obj = open_file("/proc/self/exe");
	struct elf_function *got;
	uint8_t code[16];
	size_t got_nr;

	cr_assert_not_null(obj);
	cr_assert_eq(elf_object__find_functions(obj, name, ARRAY_SIZE(name), &got, &got_nr), 0);
	cr_assert_eq(got_nr, 2);
	cr_expect(got[0].is_local);
	cr_expect_not(got[1].is_local);
	for (size_t i = 0; i < got_nr; i++) {
		cr_assert_eq(elf_object__read(obj, got[i].offset, code, sizeof(code)), 0);
		cr_expect_eq(memcmp(code, i ? (void *)elf_object__open :
					      (void *)static_function_of_this_test,
				    sizeof(code)), 0);
	}
	free(got);
	elf_object__close(obj);
}
