// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/text_copies.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/array.h"
#include "elf/allocators.h"
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

/* Most libraries use neither, so their bytes are not searched. A static program without symbols does not show what it uses. */
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

#define TEXT_MIN 15 /* bytes of the shortest text; a test checks the texts of text_copies[] */
#define OVERLAP 48  /* longer than any */

/* Only allocators print these. The first byte is apart: so this program has no such text itself. X(first, rest, domain). */
#define HEAP_TEXTS(X) \
	X('<', "jemalloc>: Malformed conf string", DOMAIN_JEMALLOC) \
	X('B', "ytes in central cache freelist", DOMAIN_TCMALLOC) \
	X('m', "imalloc: warning: ", DOMAIN_MIMALLOC)

#define X(first, rest, domain) \
	_Static_assert(sizeof(rest) > TEXT_MIN && sizeof(rest) < OVERLAP, "a search finds it, also across blocks");
HEAP_TEXTS(X)
#undef X

static const struct {
	char first;
	const char *rest;
	uint32_t domain;
} heap_texts[] = {
#define X(first, rest, domain) { first, rest, domain },
	HEAP_TEXTS(X)
#undef X
};

#define PAIRS (1 << 16)

/*
 * A search for all texts in one pass. The two bytes at a place show how far the next place is at which the first
 * TEXT_MIN bytes of a text may end.
 */
struct text_search {
	size_t copy_nr;	   /* rows of text_copies[] to look for */
	size_t copy;	   /* the first of them that was found; copy_nr: none */
	uint32_t *heap;	   /* the domain of an allocator's text; NULL: not to look for */
	uint8_t shift[PAIRS];
	char block[BLOCK_BYTES];
};

static size_t pair_at(const char *at)
{
	return (uint8_t)at[0] << 8 | (uint8_t)at[1];
}

static void add_searched_text(struct text_search *search, const char *text)
{
	for (size_t i = 0; i + 2 <= TEXT_MIN; i++) {
		uint8_t *shift = &search->shift[pair_at(text + i)], left = TEXT_MIN - 2 - i;

		if (*shift > left)
			*shift = left;
	}
}

static void add_searched_texts(struct text_search *search)
{
	memset(search->shift, TEXT_MIN - 1, sizeof(search->shift));
	for (size_t i = 0; i < search->copy_nr; i++)
		if (text_copies[i].kind == TEXT_COPY_BYTES)
			add_searched_text(search, text_copies[i].sign);
	for (size_t i = 0; search->heap && i < ARRAY_SIZE(heap_texts); i++)
		add_searched_text(search, heap_texts[i].rest);
}

static bool is_text_at(const char *at, size_t left, const char *text)
{
	size_t len = strlen(text);

	return len <= left && !memcmp(at, text, len);
}

static void compare_searched_texts(struct text_search *search, const char *at, size_t left)
{
	for (size_t i = 0; i < search->copy; i++)
		if (text_copies[i].kind == TEXT_COPY_BYTES && is_text_at(at, left, text_copies[i].sign))
			search->copy = i;
	for (size_t i = 0; search->heap && at > search->block && i < ARRAY_SIZE(heap_texts); i++)
		if (at[-1] == heap_texts[i].first && is_text_at(at, left, heap_texts[i].rest))
			*search->heap = heap_texts[i].domain;
}

static void search_block(struct text_search *search, size_t bytes)
{
	for (size_t at = 0; at + TEXT_MIN <= bytes;) {
		uint8_t shift = search->shift[pair_at(search->block + at + TEXT_MIN - 2)];

		if (!shift)
			compare_searched_texts(search, search->block + at, bytes - at);
		at += shift ?: 1;
	}
}

/* Searches the file for the texts of the first nr rows, and, if heap is not NULL, for the texts of allocators. */
static int find_bytes(const struct elf_object *elf, size_t nr, size_t *ret_index, uint32_t *heap)
{
	struct text_search *search = malloc(sizeof(*search));
	size_t got = BLOCK_BYTES;

	if (!search)
		return -ENOMEM;
	search->copy_nr = search->copy = nr;
	search->heap = heap;
	add_searched_texts(search);
	for (uint64_t at = 0; search->copy == nr && got == BLOCK_BYTES && at < SEARCHED_MAX; at += BLOCK_BYTES - OVERLAP) {
		got = elf_object__read_some(elf, at, search->block, BLOCK_BYTES);
		search_block(search, got);
	}
	*ret_index = search->copy;
	free(search);
	return *ret_index < nr ? 0 : -ENOENT;
}

int text_copy_find(struct elf_object *elf, bool has_allocator, size_t *ret_index, uint32_t *ret_heap)
{
	int err = find_symbol(elf, ret_index);

	*ret_heap = 0;
	if (err != -ENOENT || (!may_copy(elf) && (has_allocator || elf_object__is_dynamic(elf))))
		return err;
	if (has_allocator && !find_call(elf, ret_index))
		return 0;
	return find_bytes(elf, has_allocator && has_means(elf) ? GUESS + 1 : GUESS, ret_index,
			  has_allocator ? NULL : ret_heap);
}
