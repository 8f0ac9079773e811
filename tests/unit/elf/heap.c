// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "elf/allocators.h"
#include "elf/elf_object.h"
#include "elf/probe_info.h"
#include "elf/text_copies.h"
#include "skip.h"

/* Which functions belong to an allocator, and to which one. */

/* Heaps in this program: names only, which differ in what they return. */
#define FUNCTION(name) __attribute__((noipa, used)) int name(void); int name(void) { return __LINE__ * 100 + __COUNTER__; }
#define HEAP(prefix) \
	FUNCTION(prefix##malloc) FUNCTION(prefix##free) FUNCTION(prefix##calloc) FUNCTION(prefix##realloc)
#define OTHER_HEAP(nr) HEAP(ex##nr##_) FUNCTION(EX##nr##_mallocx)

HEAP(one_)
FUNCTION(one_mallocx)
HEAP(two_)
FUNCTION(two_mallocx)
HEAP(three_)
FUNCTION(three_heap_malloc)
HEAP(four_)
FUNCTION(four_heap_malloc)
FUNCTION(four_zalloc)
FUNCTION(four_malloc_aligned)
OTHER_HEAP(1)
OTHER_HEAP(2)
OTHER_HEAP(3)

#define FUNCTIONS_MAX 12

struct named {
	char name[24]; /* of a row of allocator_functions[] */
	uint64_t vaddr;
	bool is_local;
};

static size_t index_of(const char *name)
{
	for (size_t i = 0; i < allocator_function_nr; i++)
		if (!strcmp(allocator_functions[i].name, name))
			return i;
	cr_assert_fail("there is no row %s", name);
	return 0;
}

static int by_name_and_address(const void *a, const void *b)
{
	const struct elf_function *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

static size_t find_named(const struct named *named, struct elf_function *ret)
{
	size_t nr = 0;

	for (; nr < FUNCTIONS_MAX && *named[nr].name; nr++)
		ret[nr] = (struct elf_function){
			.name = index_of(named[nr].name),
			.vaddr = named[nr].vaddr,
			.is_local = named[nr].is_local,
		};
	qsort(ret, nr, sizeof(*ret), by_name_and_address);
	return nr;
}

static bool is_among(const struct elf_function *function, size_t nr, const char *name)
{
	for (size_t i = 0; i < nr; i++)
		if (!strcmp(allocator_functions[function[i].name].name, name))
			return true;
	return false;
}

/* Keeps what is taken, and returns its number. */
static size_t keep_heap_functions(struct elf_function *function, size_t nr)
{
	bool taken[FUNCTIONS_MAX];
	size_t kept = 0;

	heap_functions(function, nr, taken);
	for (size_t i = 0; i < nr; i++)
		if (taken[i])
			function[kept++] = function[i];
	return kept;
}

#define WHOLE(is_local) \
	{ "malloc", 1, is_local }, { "free", 2, is_local }, { "calloc", 3, is_local }, \
	{ "realloc", 4, is_local }

Test(heap, includes_local_functions_only_if_it_is_complete)
{
	static const struct {
		char what[48];
		size_t nr;
		char taken[24], left[24];
		struct named function[FUNCTIONS_MAX];
	} row[] = {
		{ "a C library", 4, "malloc", "", { WHOLE(false) } },
		{ "glibc's static PIE", 5, "malloc", "",
		  { { "malloc", 1, true }, { "free", 2 }, { "calloc", 3 }, { "realloc", 4 },
		    { "valloc", 5 } } },
		{ "a hidden archive", 5, "_Znwm", "", { WHOLE(true), { "_Znwm", 5, true } } },
		{ "a static function called malloc", 0, "", "malloc", { { "malloc", 1, true } } },
		{ "static malloc and free", 0, "", "malloc",
		  { { "malloc", 1, true }, { "free", 2, true } } },
		{ "a static malloc beside the real one", 4, "malloc", "",
		  { WHOLE(false), { "malloc", 9, true } } },
		{ "two static ones", 1, "free", "calloc",
		  { { "malloc", 1, true }, { "malloc", 9, true }, { "free", 2 }, { "calloc", 3, true },
		    { "realloc", 4, true } } },
		{ "two static frees", 0, "", "free", { WHOLE(true), { "free", 9, true } } },
		{ "a second static memalign", 4, "malloc", "memalign",
		  { WHOLE(true), { "memalign", 5, true }, { "memalign", 6, true } } },
		{ "stubs at one address", 0, "", "malloc",
		  { { "malloc", 1, true }, { "free", 1, true }, { "calloc", 1, true },
		    { "realloc", 1, true } } },
		{ "whole, but of another prefix", 4, "malloc", "je_malloc",
		  { WHOLE(true), { "je_malloc", 5, true } } },
		{ "a prefix's own", 4, "je_malloc", "malloc",
		  { { "je_malloc", 1, true }, { "je_free", 2, true }, { "je_calloc", 3, true },
		    { "je_realloc", 4, true }, { "malloc", 5, true } } },
		{ "operator new without a malloc", 0, "", "_Znwm", { { "_Znwm", 1 } } },
		{ "somebody's tc_new", 0, "", "tc_new", { { "tc_new", 1 }, } },
		{ "tcmalloc's tc_new", 2, "tc_new", "", { { "tc_new", 1 }, { "tc_free", 2 } } },
		{ "mi_malloc_aligned, all that Rust has", 2, "mi_malloc_aligned", "",
		  { { "mi_malloc_aligned", 1 }, { "mi_free", 2 } } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct elf_function function[FUNCTIONS_MAX];
		size_t nr = keep_heap_functions(function, find_named(row[i].function, function));

		/* a local one beside a public one of its name is left out, the public one stays */
		cr_expect_eq(nr, row[i].nr, "%s: %zu functions", row[i].what, nr);
		if (*row[i].taken)
			cr_expect(is_among(function, nr, row[i].taken), "%s: no %s", row[i].what,
				  row[i].taken);
		if (*row[i].left)
			cr_expect(!is_among(function, nr, row[i].left), "%s: %s", row[i].what,
				  row[i].left);
	}
}

Test(heap, ignores_names_outside_the_table)
{
	struct elf_function function[] = { { .name = allocator_function_nr, .is_local = true } };

	cr_expect_eq(keep_heap_functions(function, 1), 1);
	cr_expect_eq(keep_heap_functions(function, 0), 0);
}

static void facts_of(const struct named *named, struct object_function *function,
		     struct probe_info *ret)
{
	*ret = (struct probe_info){ .function = function };
	for (; ret->function_nr < FUNCTIONS_MAX && *named[ret->function_nr].name; ret->function_nr++)
		function[ret->function_nr] = (struct object_function){
			.name = index_of(named[ret->function_nr].name),
			.vaddr = named[ret->function_nr].vaddr,
		};
}

/* Each row is checked for its first function. */
Test(heap, is_attributed_by_function_names_or_file_name)
{
	static const struct {
		char path[32];
		uint32_t domain;
		struct named function[FUNCTIONS_MAX];
	} row[] = {
		{ "/lib/libc.so.6", 0, { WHOLE(false) } },
		{ "/usr/bin/program", 0, { WHOLE(false) } },
		{ "/usr/lib/libjemalloc.so.2", 2, { WHOLE(false) } },
		{ "/usr/bin/with-jemalloc", 2, { WHOLE(false), { "mallocx", 9 } } },
		{ "/usr/bin/with-jemalloc", 2, { { "_Znwm", 8 }, WHOLE(false), { "mallocx", 9 } } },
		{ "/usr/bin/with-je_malloc", 0, { WHOLE(false), { "je_malloc", 9 }, { "je_mallocx", 8 } } },
		{ "/usr/bin/with-je_malloc", 2, { { "je_malloc", 9 }, WHOLE(false) } },
		{ "/usr/bin/with-tcmalloc", 3, { WHOLE(false), { "tc_malloc", 1 } } },
		{ "/usr/bin/with-tcmalloc", 3, { { "_Znwm", 8 }, WHOLE(false), { "tc_malloc", 1 } } },
		{ "/usr/bin/with-new-tcmalloc", 3, { WHOLE(false), { "TCMallocInternalMalloc", 1 } } },
		{ "/usr/bin/with-mimalloc", 4, { WHOLE(false), { "mi_malloc", 1 } } },
		{ "/usr/bin/with-mi_malloc", 0, { WHOLE(false), { "mi_malloc", 9 } } },
		{ "/usr/bin/with-mi_malloc", 4, { { "mi_malloc", 9 }, WHOLE(false) } },
		{ "/usr/lib/libjemalloc.so.2", 4, { { "mi_malloc", 9 } } },
		{ "/usr/bin/without-malloc", 0, { { "_Znwm", 8 }, { "mallocx", 9 } } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct object_function function[FUNCTIONS_MAX];
		struct probe_info probe_info;

		facts_of(row[i].function, function, &probe_info);
		cr_expect_eq(heap_domain(&probe_info, 0, row[i].path), row[i].domain, "row %zu: %s", i,
			     row[i].path);
	}
}

Test(heap, knows_which_functions_are_seldom_called)
{
	static const struct named named[] = {
		{ "mi_zalloc", 5 }, { "mi_malloc", 1 }, WHOLE(false), { "", 0 },
	};
	struct object_function function[FUNCTIONS_MAX];
	struct probe_info probe_info;

	facts_of(named, function, &probe_info);
	cr_expect(heap_is_seldom_called(&probe_info, 0), "mi_zalloc");
	cr_expect(!heap_is_seldom_called(&probe_info, 1), "mi_malloc is malloc");
	cr_expect(!heap_is_seldom_called(&probe_info, 2), "malloc");
	probe_info.entry = 1;
	cr_expect(!heap_is_seldom_called(&probe_info, 0), "a program may call its own");
	probe_info.entry = 0;
	probe_info.function_nr = 2;
	cr_expect(!heap_is_seldom_called(&probe_info, 0), "there is no other name to call");
}

static bool has_function(const struct probe_info *probe_info, const char *name)
{
	for (uint32_t i = 0; i < probe_info->function_nr; i++)
		if (probe_info->function[i].name < allocator_function_nr &&
		    !strcmp(allocator_functions[probe_info->function[i].name].name, name))
			return true;
	return false;
}

/* An allocator's own operator new calls no malloc of its file, or has another name of the allocator. */
Test(heap, has_the_operator_new_of_its_allocator_only)
{
	static const struct {
		const char *file, *taken, *left;
	} row[] = {
		{ "libjemalloc.so.2", "_Znwm", "_ZnwmSt11align_val_t" }, /* which calls aligned_alloc */
		{ "libjemalloc.so.2", "_ZnamRKSt9nothrow_t", "_ZdlPv" }, /* which jumps to free */
		{ "libjemalloc.so.2", "_ZdlPvm", NULL },
		{ "libtcmalloc.so.4", "_Znwm", NULL },
		{ "libtcmalloc.so.4", "_ZdlPvSt11align_val_tRKSt9nothrow_t", NULL },
		{ "libmimalloc.so.2", "_Znwm", NULL },
		{ "libmimalloc.so.2", "_ZnamRKSt9nothrow_t", "vfree" },
		{ "libstdc++.so.6", NULL, "_Znwm" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct probe_info probe_info;
		char path[64];
		int fd;

		snprintf(path, sizeof(path), "/usr/lib/x86_64-linux-gnu/%s", row[i].file);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			skip_because("no %s", path);
		cr_assert_eq(probe_info_read(fd, NULL, &probe_info, NULL), 0);
		close(fd);
		cr_expect(!row[i].taken || has_function(&probe_info, row[i].taken), "%s: no %s", path, row[i].taken);
		cr_expect(!row[i].left || !has_function(&probe_info, row[i].left), "%s: %s", path, row[i].left);
		probe_info_release(&probe_info);
	}
}

/* Gives each name in a copy of the file another prefix of the same length. Returns the copy. */
static int rename_functions(const char *path, const char *prefix, const char *other)
{
	int from = open(path, O_RDONLY), to = memfd_create("renamed", 0);
	struct stat st;
	char *bytes;

	if (from < 0)
		skip_because("no %s", path);
	cr_assert(!fstat(from, &st) && (bytes = malloc(st.st_size)));
	cr_assert_eq(read(from, bytes, st.st_size), st.st_size);
	for (char *at = bytes; (at = memmem(at + 1, bytes + st.st_size - at - 1, prefix, strlen(prefix)));)
		if (!at[-1])
			memcpy(at, other, strlen(other));
	cr_assert_eq(write(to, bytes, st.st_size), st.st_size);
	close(from);
	free(bytes);
	return to;
}

/* No table has the prefix: a whole heap with a function of this allocator only has it. */
Test(heap, may_have_any_prefix)
{
	static const struct {
		const char *file, *prefix, *other, *function;
		uint32_t domain;
	} row[] = {
		{ "libmimalloc.so.2", "mi_", "zz_", "mi_heap_malloc", DOMAIN_MIMALLOC },
		{ "libmimalloc.so.2", "mi_", "_x_", "mi_free", DOMAIN_MIMALLOC },
		{ "libtcmalloc_minimal.so.4", "tc_", "zz_", "tc_malloc", DOMAIN_TCMALLOC },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct probe_info probe_info;
		char path[64];
		uint32_t at = 0;
		int fd;

		snprintf(path, sizeof(path), "/usr/lib/x86_64-linux-gnu/%s", row[i].file);
		fd = rename_functions(path, row[i].prefix, row[i].other);
		cr_assert_eq(probe_info_read(fd, NULL, &probe_info, NULL), 0);
		close(fd);
		cr_expect_str_eq(probe_info.heap_prefix[0], row[i].other, "%s", path);
		while (at < probe_info.function_nr &&
		       strcmp(allocator_functions[probe_info.function[at].name].name, row[i].function))
			at++;
		cr_assert_lt(at, probe_info.function_nr, "%s: no %s", path, row[i].function);
		cr_expect(probe_info.function[at].renamed, "%s", row[i].function);
		cr_expect_eq(heap_domain(&probe_info, at, path), row[i].domain);
		probe_info_release(&probe_info);
	}
}

static bool has_renamed(const struct probe_info *probe_info, const char *prefix, const char *function)
{
	for (uint32_t i = 0; i < probe_info->function_nr; i++) {
		const struct object_function *found = &probe_info->function[i];

		if (found->renamed && !strcmp(probe_info->heap_prefix[found->renamed - 1], prefix) &&
		    !strcmp(allocator_functions[found->name].name, function))
			return true;
	}
	return false;
}

Test(heap, may_have_several_prefixes)
{
	struct probe_info probe_info;
	int fd = open("/proc/self/exe", O_RDONLY);

	cr_assert_eq(probe_info_read(fd, NULL, &probe_info, NULL), 0);
	close(fd);
	for (int i = 0; i < 2; i++) {
		cr_expect(has_renamed(&probe_info, i ? "one_" : "two_", "je_malloc"), "%d", i);
		cr_expect(has_renamed(&probe_info, i ? "one_" : "two_", "je_mallocx"), "%d", i);
	}
	cr_expect(has_renamed(&probe_info, "four_", "mi_heap_malloc"));
	cr_expect(!has_renamed(&probe_info, "three_", "mi_malloc"), "which has a heap_malloc(), but nothing else of mimalloc");
	cr_expect(!probe_info.has_more_heaps);
	cr_expect(probe_info_are_sound(&probe_info, NULL, UINT64_MAX));
	probe_info.function[0].renamed = HEAP_PREFIXES_MAX + 1;
	cr_expect(!probe_info_are_sound(&probe_info, NULL, UINT64_MAX));
	probe_info_release(&probe_info);
}

/* In the copy, the other heaps are whole. */
Test(heap, has_a_sign_that_more_have_a_prefix)
{
	struct probe_info probe_info;
	int fd = rename_functions("/proc/self/exe", "ex", "EX");

	cr_assert_eq(probe_info_read(fd, NULL, &probe_info, NULL), 0);
	close(fd);
	cr_expect(probe_info.has_more_heaps);
	probe_info_release(&probe_info);
}

/* Which programs may become another one: stripped ones of the system. */

Test(programs, that_become_others)
{
	static const struct {
		const char *path;
		bool calls_exec, is_loader;
	} rows[] = {
		{ "/usr/bin/env", true }, { "/bin/sh", true }, { "/bin/true" }, { "/bin/sleep" }, { "/usr/bin/python3", true },
		{ "/lib64/ld-linux-x86-64.so.2", .is_loader = true }, { "/lib/x86_64-linux-gnu/libm.so.6" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct probe_info probe_info;
		int fd = open(rows[i].path, O_RDONLY);

		if (fd < 0)
			skip_because("there is no %s", rows[i].path);
		cr_assert_eq(probe_info_read(fd, NULL, &probe_info, NULL), 0);
		close(fd);
		cr_expect_eq(probe_info.calls_exec, rows[i].calls_exec, "%s", rows[i].path);
		cr_expect_eq(probe_info.is_loader, rows[i].is_loader, "%s", rows[i].path);
		probe_info.calls_exec = 2;
		cr_expect(!probe_info_are_sound(&probe_info, NULL, UINT64_MAX));
		probe_info_release(&probe_info);
	}
}

/* Which files say that they copy code while it runs. */

/* These references make this program itself a suspect; src/elf/text_copies.c lists the signs. */
void *(*move)(void *, size_t, size_t, int, ...) = mremap;
int (*advise)(void *, size_t, int) = madvise;

static uint32_t heap;

static int find_copy(const char *path, bool has_allocator, size_t *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;
	struct elf_object *elf;

	if (fd < 0)
		skip_because("no %s", path);
	elf = elf_object__open(fd, NULL);
	close(fd);
	cr_assert(elf);
	err = text_copy_find(elf, has_allocator, ret, &heap);
	elf_object__close(elf);
	return err;
}

Test(text_copies, are_recognized_by_bytes_of_the_file)
{
	size_t row = 0;

	cr_assert_eq(find_copy("/proc/self/exe", false, &row), 0);
	cr_expect_str_eq(text_copies[row].sign, "remap_executable");
}

/* A C library contains all that a guess needs, but does not copy its code. */
Test(text_copies, are_not_found_in_ordinary_files)
{
	size_t row;

	cr_expect_eq(find_copy("/usr/lib/x86_64-linux-gnu/libc.so.6", true, &row), -ENOENT);
	cr_expect_eq(find_copy("/usr/bin/env", true, &row), -ENOENT);
	cr_expect_eq(find_copy("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", true, &row), -ENOENT);
}

Test(text_copies, are_tried_by_symbols_first_and_by_guess_last)
{
	for (size_t i = 0; i < text_copy_nr; i++) {
		cr_expect(!i || text_copies[i].kind >= text_copies[i - 1].kind, "row %zu", i);
		cr_expect_lt(strlen(text_copies[i].sign), 32, "row %zu", i);
		cr_expect(text_copies[i].kind != TEXT_COPY_BYTES || strlen(text_copies[i].sign) >= 15, "row %zu", i);
	}
	cr_expect_str_eq(text_copies[text_copy_nr - 1].sign, "/proc/self/maps");
}

/* Builds a program without symbols, and without a C library, that has this text. */
static uint32_t heap_of_program_with(const char *options, const char *text)
{
	char path[] = "/tmp/allocsnap-unit-XXXXXX", command[512];
	size_t row;
	int fd = mkstemp(path);

	cr_assert(fd >= 0);
	close(fd);
	snprintf(command, sizeof(command), "echo 'const char text[] = \"%s\"; void _start(void) {}' | gcc %s -nostdlib -s -x c -o %s -",
		 text, options, path);
	cr_assert_eq(system(command), 0);
	cr_expect_eq(find_copy(path, false, &row), -ENOENT);
	unlink(path);
	return heap;
}

Test(text_copies, texts_of_allocators_in_files_without_names)
{
	cr_expect_eq(heap_of_program_with("-static", "<jemalloc>: Malformed conf string"), DOMAIN_JEMALLOC);
	cr_expect_eq(heap_of_program_with("-static", "mimalloc: warning: "), DOMAIN_MIMALLOC);
	cr_expect_eq(heap_of_program_with("-static", "(%%7.1f MiB) Bytes in central cache freelist"), DOMAIN_TCMALLOC);
	cr_expect_eq(heap_of_program_with("-static", "tcmalloc.pageheap_free_bytes"), 0, "its users ask for that");
	cr_expect_eq(heap_of_program_with("-static", "an ordinary program"), 0);
	cr_expect_eq(heap_of_program_with("-shared -fPIC", "<jemalloc>: Malformed conf string"), 0,
		     "it would need mremap or madvise of a C library");
}

Test(text_copies, texts_of_allocators_are_in_their_libraries)
{
	static const struct {
		const char *name;
		uint32_t domain;
	} libraries[] = {
		{ "libjemalloc.so.2", DOMAIN_JEMALLOC },	   { "libtcmalloc.so.4", DOMAIN_TCMALLOC },
		{ "libtcmalloc_minimal.so.4", DOMAIN_TCMALLOC },   { "libmimalloc.so.2", DOMAIN_MIMALLOC },
		{ "libtcmalloc_debug.so.4", DOMAIN_TCMALLOC },
	};

	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
		char path[128];
		size_t row;

		snprintf(path, sizeof(path), "/usr/lib/x86_64-linux-gnu/%s", libraries[i].name);
		cr_expect_eq(find_copy(path, false, &row), -ENOENT);
		cr_expect_eq(heap, libraries[i].domain, "%s", path);
	}
}
