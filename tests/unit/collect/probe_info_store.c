// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Facts of files with the same bytes, and of files that only look the same. */
#include "process/probe_info_store.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/allocators.h"
#include "sandbox/rpc.h"
#include "sandbox_fixture.h"

/* A small library of the package libc6 that defines malloc. */
#define LIBRARY "/usr/lib/x86_64-linux-gnu/libc_malloc_debug.so.0"

static struct probe_info_store store;
static struct sandbox *sandbox;
static char *library;
static size_t library_bytes;

static void read_library(void)
{
	int fd = open(LIBRARY, O_RDONLY | O_CLOEXEC);
	struct stat st;

	cr_assert_eq(fstat(fd, &st), 0);
	library_bytes = st.st_size;
	library = malloc(library_bytes);
	cr_assert_eq(read(fd, library, library_bytes), (ssize_t)library_bytes);
	close(fd);
}

static void begin(void)
{
	read_library();
	sandbox = parser_with(NULL, 0);
}

static void end(void)
{
	probe_info_store_release(&store);
	sandbox__close(sandbox);
	free(library);
}

TestSuite(probe_info_store, .init = begin, .fini = end);

static int file_of(const char *bytes, size_t nr)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	cr_assert_eq(pwrite(fd, bytes, nr, 0), (ssize_t)nr);
	return fd;
}

static struct stored_info *get(int fd, const struct functions_wanted *wanted)
{
	const struct file_to_read file = { .sandbox = sandbox, .fd = fd, .wanted = wanted };
	struct stored_info *probe_info = NULL;
	struct reason why = {};

	cr_assert_eq(probe_info_store_get(&store, &file, &probe_info, &why), 0, "%s", why.text);
	return probe_info;
}

static const struct object_function *malloc_of(const struct probe_info *probe_info)
{
	for (uint32_t i = 0; i < probe_info->function_nr; i++)
		if (!strcmp(allocator_functions[probe_info->function[i].name].name, "malloc"))
			return &probe_info->function[i];
	cr_assert(false, "no malloc");
	return NULL;
}

/*
 * Makes the hostile file: it has the size and build-id of the other one, but its malloc begins with one
 * instruction that covers the other's probe: `mov $0x90909090,%eax; jmp` to itself.
 */
static void forge(char *bytes, const struct probe_info *probe_info)
{
	memcpy(bytes + malloc_of(probe_info)->offset, "\xb8\x90\x90\x90\x90\xeb\xfe", 7);
}

static void expect_own(int fd, const struct stored_info *found)
{
	const struct placement *placement = &malloc_of(&found->probe_info)->placement, *own;
	struct probe_info probe_info;

	cr_assert_eq(probe_info_read(fd, NULL, &probe_info, NULL), 0);
	own = &malloc_of(&probe_info)->placement;
	cr_expect_eq(placement->offset, own->offset);
	cr_expect_str_eq(placement->instruction, own->instruction);
	probe_info_release(&probe_info);
}

/* Closes them, too. */
static void put(int fd, struct stored_info *probe_info)
{
	stored_info_put(probe_info);
	close(fd);
}

Test(probe_info_store, reads_two_files_with_the_same_bytes_once)
{
	int one = file_of(library, library_bytes), two = file_of(library, library_bytes);
	struct stored_info *first = get(one, NULL), *second;
	uint64_t readers = sandbox->generation;

	expect_own(one, first);
	sandbox->has_read = false;
	second = get(two, NULL);
	cr_expect_eq(second, first);
	cr_expect_eq(sandbox->generation, readers);
	cr_expect(!sandbox->has_read, "nothing was asked");
	put(one, first);
	expect_own(two, second);
	put(two, second);
	cr_expect_eq(get(two = file_of(library, library_bytes), NULL), first, "still known");
	put(two, first);
}

Test(probe_info_store, keeps_facts_of_a_forged_file_separate)
{
	int honest = file_of(library, library_bytes), forged;
	struct stored_info *probe_info = get(honest, NULL), *others;

	cr_assert_neq(*probe_info->probe_info.build_id, '\0');
	forge(library, &probe_info->probe_info);
	forged = file_of(library, library_bytes);
	others = get(forged, NULL);
	cr_expect_neq(others, probe_info);
	cr_expect_str_eq(others->probe_info.build_id, probe_info->probe_info.build_id);
	cr_expect_eq(malloc_of(&others->probe_info)->offset, malloc_of(&probe_info->probe_info)->offset);
	cr_expect_str_neq(malloc_of(&others->probe_info)->placement.instruction,
			  malloc_of(&probe_info->probe_info)->placement.instruction);
	expect_own(forged, others);
	expect_own(honest, probe_info);
	put(forged, others);
	put(honest, probe_info);
}

/* The file is forged when it is read, and has the honest bytes when the honest file is looked up. */
Test(probe_info_store, does_not_reuse_facts_for_a_later_content_of_a_file)
{
	char *forgery = malloc(library_bytes);
	int honest = file_of(library, library_bytes), forged;
	struct probe_info known;
	struct stored_info *probe_info, *others;

	cr_assert_eq(probe_info_read(honest, NULL, &known, NULL), 0);
	memcpy(forgery, library, library_bytes);
	forge(forgery, &known);
	forged = file_of(forgery, library_bytes);
	others = get(forged, NULL);
	cr_assert_eq(pwrite(forged, library, library_bytes, 0), (ssize_t)library_bytes);
	probe_info = get(honest, NULL);
	cr_expect_neq(probe_info, others);
	expect_own(honest, probe_info);
	probe_info_release(&known);
	free(forgery);
	put(forged, others);
	put(honest, probe_info);
}

Test(probe_info_store, keeps_facts_for_other_wanted_functions_separate)
{
	static const struct functions_wanted wanted = { 1, { { "mallopt", 2 } } };
	int one = file_of(library, library_bytes), two = file_of(library, library_bytes);
	struct stored_info *without = get(one, NULL), *with = get(two, &wanted);

	cr_expect_neq(without, with);
	cr_expect_eq(with->probe_info.function_nr, without->probe_info.function_nr + 1);
	put(one, without);
	put(two, with);
}

/* A file without functions gets no probes, so the store does not copy it. */
Test(probe_info_store, does_not_keep_facts_of_files_without_probes)
{
	int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);
	struct stored_info *probe_info = get(fd, NULL);

	cr_expect_eq(probe_info->probe_info.function_nr, 0);
	cr_expect_null(probe_info->copy);
	cr_expect_eq(store.kept_nr, 0);
	put(fd, probe_info);
}

Test(probe_info_store, reads_a_file_that_is_too_large_to_copy_each_time)
{
	int fd = file_of(library, library_bytes);
	struct stored_info *probe_info, *again;

	cr_assert_eq(ftruncate(fd, (16 << 20) + 1), 0);
	probe_info = get(fd, NULL);
	again = get(fd, NULL);
	cr_expect_neq(again, probe_info);
	cr_expect_eq(store.kept_nr, 0);
	expect_own(fd, probe_info);
	expect_own(fd, again);
	stored_info_put(again);
	put(fd, probe_info);
}

#define ROOM 64

/* A file that no other is like: the library, with this as its last byte. */
static struct stored_info *get_nr(int nr)
{
	struct stored_info *probe_info;
	int fd;

	library[library_bytes - 1] = nr;
	fd = file_of(library, library_bytes);
	probe_info = get(fd, NULL);
	expect_own(fd, probe_info);
	close(fd);
	return probe_info;
}

/* Whether the reader is not asked; known it is then in any case. */
static bool was_known(int nr)
{
	sandbox->has_read = false;
	stored_info_put(get_nr(nr));
	return !sandbox->has_read;
}

Test(probe_info_store, evicts_the_least_recently_used_facts, .timeout = 600)
{
	for (int i = 0; i < ROOM; i++)
		cr_expect(!was_known(i));
	cr_expect(was_known(0));
	cr_expect(!was_known(ROOM));
	cr_expect_eq(store.kept_nr, ROOM);
	cr_expect(was_known(0), "it was used after the others");
	cr_expect(was_known(2));
	cr_expect(!was_known(1), "it was used least recently");
}

Test(probe_info_store, keeps_facts_in_use, .timeout = 600)
{
	struct stored_info *used[ROOM], *probe_info;

	for (int i = 0; i < ROOM; i++)
		used[i] = get_nr(i);
	probe_info = get_nr(ROOM);
	cr_expect_null(probe_info->copy, "there is no room: they are of one file");
	stored_info_put(probe_info);
	stored_info_put(used[7]);
	probe_info = get_nr(ROOM);
	cr_expect_not_null(probe_info->copy, "one that was not in use has given its room");
	stored_info_put(probe_info);
	for (int i = 0; i < ROOM; i++)
		if (i != 7)
			stored_info_put(used[i]);
	cr_expect_eq(store.kept_nr, ROOM);
}

/* Four of the largest files fill it. */
Test(probe_info_store, evicts_facts_of_large_files, .timeout = 600)
{
	struct stored_info *probe_info;
	int fd;

	for (int i = 0; i < 6; i++) {
		library[library_bytes - 1] = i;
		fd = file_of(library, library_bytes);
		cr_assert_eq(ftruncate(fd, 16 << 20), 0);
		probe_info = get(fd, NULL);
		cr_expect_not_null(probe_info->copy, "file %d", i);
		put(fd, probe_info);
	}
	cr_expect_eq(store.kept_nr, 4);
	cr_expect_eq(store.bytes, 64ull << 20);
}

Test(probe_info_store, refuses_a_file_that_is_no_program)
{
	int fd = file_of("no program", 10);
	const struct file_to_read file = { .sandbox = sandbox, .fd = fd };
	struct stored_info *probe_info = NULL;
	struct reason why = {};

	cr_expect_eq(probe_info_store_get(&store, &file, &probe_info, &why), -ENOEXEC);
	cr_expect_null(probe_info);
	cr_expect_neq(*why.text, '\0');
	stored_info_put(NULL);
	close(fd);
}
