// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/text_copies.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/array.h"
#include "elf/elf_object.h"

/* Symbols come first. The last row is a guess: see has_means(). */
const struct text_copy text_copies[] = {
	{ "__bolt_hugify_self", "BOLT's -hugify", TEXT_COPY_SYMBOL },
	{ "__bolt_hugify_start_program", "BOLT's -hugify", TEXT_COPY_SYMBOL },
	{ "mremap", "it calls mremap() with MREMAP_FIXED", TEXT_COPY_CALL },
	{ "remap_executable", "remap_executable, as in ClickHouse", TEXT_COPY_BYTES },
	{ "remapExecutable", "remap_executable, as in ClickHouse", TEXT_COPY_BYTES },
	{ "huge_code_pages", "PHP's opcache.huge_code_pages", TEXT_COPY_BYTES },
	{ "CodeToLargePages", "iodlr", TEXT_COPY_BYTES },
	{ "RegionToLargePages", "iodlr", TEXT_COPY_BYTES },
	{ "DSOToLargePages", "iodlr", TEXT_COPY_BYTES },
	{ "HotTextHugePages", "HHVM's hugifyText", TEXT_COPY_BYTES },
	{ "/proc/self/maps", "it names mremap, madvise and /proc/self/maps", TEXT_COPY_BYTES },
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

	for (; text_copies[nr].kind == TEXT_COPY_SYMBOL; nr++)
		name[nr] = text_copies[nr].sign;
	return elf_object__find_name(elf, name, nr, ret_index);
}

/*
 * Whether the file imports the function. Only a C library defines it, or a program that contains
 * one.
 */
static bool wants(struct elf_object *elf, const char *name)
{
	struct elf_function *found = NULL;
	size_t nr = 0;
	int err = elf_object__find_functions(elf, &name, 1, &found, &nr);

	free(found);
	return !err && !nr && has_name(elf, name);
}

/*
 * A program that copies its code without a library needs these. A library that uses them is more
 * likely an allocator.
 */
static bool has_means(struct elf_object *elf)
{
	return has_name(elf, ".interp") && wants(elf, "mremap") && wants(elf, "madvise");
}

/* Most libraries use neither, so their bytes are not searched. */
static bool may_copy(struct elf_object *elf)
{
	return has_name(elf, "mremap") || has_name(elf, "madvise");
}

#define SEARCHED_MAX (256ull << 20)
#define BLOCK_BYTES (1u << 20)

/* ---- calls ---- */

#define CALL_BYTES 5	  /* e8 or e9, and the distance to the target */
#define ARGUMENT_BYTES 5  /* b9: mov ecx, a constant */
#define BEFORE_CALL 64	  /* bytes before a call in which its arguments are loaded */
#define FLAGS_MAX 8	  /* MREMAP_MAYMOVE, MREMAP_FIXED, MREMAP_DONTUNMAP together */

static int32_t constant_at(const uint8_t *code)
{
	int32_t value;

	memcpy(&value, code + 1, sizeof(value));
	return value;
}

static bool passes_fixed(const uint8_t *code, size_t call)
{
	for (size_t at = call < BEFORE_CALL ? 0 : call - BEFORE_CALL; at + ARGUMENT_BYTES <= call; at++)
		if (code[at] == 0xb9 && constant_at(code + at) & MREMAP_FIXED &&
		    constant_at(code + at) >= 0 && constant_at(code + at) < FLAGS_MAX)
			return true;
	return false;
}

/* Distances between places are the same in the file as in memory, within one segment. */
static bool calls_in(const uint8_t *code, size_t bytes, uint64_t offset, uint64_t function)
{
	for (size_t at = 0; at + CALL_BYTES <= bytes; at++)
		if ((code[at] | 1) == 0xe9 && offset + at + CALL_BYTES + constant_at(code + at) == function &&
		    passes_fixed(code, at))
			return true;
	return false;
}

/* Whether the file moves memory over existing mappings by its own mremap(), as a static program may. */
static bool moves_over(struct elf_object *elf, const char *mremap_name)
{
	struct elf_function *found = NULL;
	uint8_t *code = malloc(BLOCK_BYTES);
	size_t nr = 0, got = BLOCK_BYTES;
	bool does = false;

	if (code && elf_object__find_functions(elf, &mremap_name, 1, &found, &nr))
		nr = 0;
	for (uint64_t at = 0; nr && code && !does && got == BLOCK_BYTES && at < SEARCHED_MAX;
	     at += BLOCK_BYTES - BEFORE_CALL - CALL_BYTES) {
		got = elf_object__read_some(elf, at, code, BLOCK_BYTES);
		does = calls_in(code, got, at, found->offset);
	}
	free(found);
	free(code);
	return does;
}

static int find_call(struct elf_object *elf, size_t *ret_index)
{
	for (size_t i = 0; i < text_copy_nr; i++)
		if (text_copies[i].kind == TEXT_COPY_CALL && moves_over(elf, text_copies[i].sign)) {
			*ret_index = i;
			return 0;
		}
	return -ENOENT;
}

/* ---- bytes ---- */

#define OVERLAP 32 /* longer than any sign */

/* The first row whose text is in the block; nr: none. */
static size_t find_in(const char *block, size_t bytes, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (text_copies[i].kind == TEXT_COPY_BYTES &&
		    memmem(block, bytes, text_copies[i].sign, strlen(text_copies[i].sign)))
			return i;
	return nr;
}

/* Searches the file for the texts of the first nr rows. */
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
	if (has_allocator && !find_call(elf, ret_index))
		return 0;
	return find_bytes(elf, has_allocator && has_means(elf) ? GUESS + 1 : GUESS, ret_index);
}
