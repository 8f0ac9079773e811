// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/text_copies.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/elf_object.h"

/* Symbols first. The last row is a guess: see has_means(). */
const struct text_copy text_copies[] = {
	{ "__bolt_hugify_self", "BOLT's -hugify", true },
	{ "__bolt_hugify_start_program", "BOLT's -hugify", true },
	{ "remap_executable", "remap_executable, as in ClickHouse", false },
	{ "remapExecutable", "remap_executable, as in ClickHouse", false },
	{ "huge_code_pages", "PHP's opcache.huge_code_pages", false },
	{ "CodeToLargePages", "iodlr", false },
	{ "RegionToLargePages", "iodlr", false },
	{ "DSOToLargePages", "iodlr", false },
	{ "HotTextHugePages", "HHVM's hugifyText", false },
	{ "/proc/self/maps", "it names mremap, madvise and /proc/self/maps", false },
};

const size_t text_copy_nr = ARRAY_SIZE(text_copies);

#define GUESS (ARRAY_SIZE(text_copies) - 1)

static bool has_name(struct elf_object *elf, const char *name)
{
	size_t found;

	return !elf_object__find_name(elf, &name, 1, &found);
}

static int find_symbol(struct elf_object *elf, size_t *ret_index)
{
	const char *name[ARRAY_SIZE(text_copies)];
	size_t nr = 0;

	for (; text_copies[nr].is_symbol; nr++)
		name[nr] = text_copies[nr].sign;
	return elf_object__find_name(elf, name, nr, ret_index);
}

/* Only a C library, or what is linked with one statically, defines these. */
static bool wants(struct elf_object *elf, const char *name)
{
	struct elf_function *found = NULL;
	size_t nr = 0;
	int err = elf_object__find_functions(elf, &name, 1, &found, &nr);

	free(found);
	return !err && !nr && has_name(elf, name);
}

/* A program that does it by hand needs these. A library that has them is more likely an allocator. */
static bool has_means(struct elf_object *elf)
{
	return has_name(elf, ".interp") && wants(elf, "mremap") && wants(elf, "madvise");
}

/* Most libraries have neither, and are not searched. */
static bool may_copy(struct elf_object *elf)
{
	return has_name(elf, "mremap") || has_name(elf, "madvise");
}

/* ---- bytes ---- */

#define SEARCHED_MAX (256ull << 20)
#define BLOCK_BYTES (1u << 20)
#define OVERLAP 32 /* longer than any sign */

/* The first row that a block has the bytes of; nr: none. */
static size_t find_in(const char *block, size_t bytes, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (!text_copies[i].is_symbol &&
		    memmem(block, bytes, text_copies[i].sign, strlen(text_copies[i].sign)))
			return i;
	return nr;
}

/* Of the first nr rows. */
static int find_bytes(const struct elf_object *elf, size_t nr, size_t *ret_index)
{
	char *block = malloc(BLOCK_BYTES);
	size_t got = BLOCK_BYTES, found = nr;

	if (!block)
		return -ENOMEM;
	for (uint64_t at = 0; found == nr && got == BLOCK_BYTES && at < SEARCHED_MAX; at += BLOCK_BYTES - OVERLAP) {
		got = elf_object__read_some(elf, at, block, BLOCK_BYTES);
		found = find_in(block, got, nr);
	}
	free(block);
	*ret_index = found;
	return found < nr ? 0 : -ENOENT;
}

int text_copy_find(struct elf_object *elf, bool has_allocator, size_t *ret_index)
{
	int err = find_symbol(elf, ret_index);

	if (err != -ENOENT || !may_copy(elf))
		return err;
	return find_bytes(elf, has_allocator && has_means(elf) ? GUESS + 1 : GUESS, ret_index);
}
