// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which files say that they copy code while it runs. */
#include "elf/text_copies.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/allocators.h"
#include "elf/elf_object.h"
#include "skip.h"

/* These references make this program itself a suspect; src/elf/text_copies.c lists the signs. */
void *(*move)(void *, size_t, size_t, int, ...) = mremap;
int (*advise)(void *, size_t, int) = madvise;

static uint32_t heap;

static int find(const char *path, bool has_allocator, size_t *ret)
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

	cr_assert_eq(find("/proc/self/exe", false, &row), 0);
	cr_expect_str_eq(text_copies[row].sign, "remap_executable");
}

/* A C library contains all that a guess needs, but does not copy its code. */
Test(text_copies, are_not_found_in_ordinary_files)
{
	size_t row;

	cr_expect_eq(find("/usr/lib/x86_64-linux-gnu/libc.so.6", true, &row), -ENOENT);
	cr_expect_eq(find("/usr/bin/env", true, &row), -ENOENT);
	cr_expect_eq(find("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", true, &row), -ENOENT);
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
	cr_expect_eq(find(path, false, &row), -ENOENT);
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
		cr_expect_eq(find(path, false, &row), -ENOENT);
		cr_expect_eq(heap, libraries[i].domain, "%s", path);
	}
}
