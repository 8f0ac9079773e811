// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/known_functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/allocator_detect.h"
#include "elf/allocators.h"
#include "elf/heap_owner.h"
#include "elf/probe_info.h"

/* The prefix that an allocator has in the table, and the end of a name that only its functions have. */
static const char *const prefix_of_end[] = { "je_", "tc_", "mi_" };
static const char *const only_end[] = { "mallocx", "malloc_skip_new_handler", "heap_malloc" };
_Static_assert(ARRAY_SIZE(prefix_of_end) == ARRAY_SIZE(only_end), "one for each");

/* ---- under the names of the table ---- */

static size_t wanted_function_nr(const struct functions_wanted *wanted)
{
	return wanted ? wanted->nr : 0;
}

int known_functions_find_named(struct elf_object *elf, const struct functions_wanted *wanted,
			       struct elf_prefixes *prefixes, struct elf_function **ret, size_t *ret_nr)
{
	size_t nr = allocator_function_nr + wanted_function_nr(wanted);
	const char *name[nr];

	for (size_t i = 0; i < allocator_function_nr; i++)
		name[i] = allocator_functions[i].name;
	for (size_t i = allocator_function_nr; i < nr; i++)
		name[i] = wanted->function[i - allocator_function_nr].name;
	return elf_object__find_functions_and_prefixes(elf, name, nr, prefixes, ret, ret_nr);
}

/* Functions of the table that are no heap's in this file are what --probe may name. */
static bool name_as_wanted(const struct functions_wanted *wanted, struct elf_function *function)
{
	const char *name = allocator_functions[function->name].name;

	for (size_t i = 0; i < wanted_function_nr(wanted); i++) {
		if (strcmp(wanted->function[i].name, name))
			continue;
		function->name = allocator_function_nr + i;
		return true;
	}
	return false;
}

/* Keeps the functions that are an allocator's, or wanted. */
static int keep_functions(struct elf_object *elf, const struct functions_wanted *wanted, struct elf_function *function,
			  size_t *nr)
{
	bool taken[*nr + 1];
	size_t kept = 0;
	int err = heap_functions_read(elf, function, *nr, taken);

	for (size_t i = 0; i < *nr && !err; i++)
		if (taken[i] || name_as_wanted(wanted, &function[i]))
			function[kept++] = function[i];
	*nr = kept;
	return err;
}

/* ---- under a prefix ---- */

/*
 * X_heap_malloc() of other projects has the size first, and no heap. mimalloc has more functions of its own that take no
 * heap, such as X_malloc_aligned().
 */
static bool has_heap_functions_of_others(const struct elf_function *function, size_t nr)
{
	size_t of_heap = 0, own = 0;

	for (size_t i = 0; i < nr; i++) {
		const struct allocator_function *row = &allocator_functions[function[i].name];

		of_heap += row->of_heap;
		own += row->own && !row->of_heap;
	}
	return of_heap && own < 2;
}

/* Finds the functions with names of the table that have the allocator's prefix, under another one. */
static int find_renamed(struct elf_object *elf, const struct elf_prefix *prefix, struct elf_function **ret,
			size_t *ret_nr)
{
	static char text[128][FUNCTION_NAME_MAX];
	const char *name[ARRAY_SIZE(text)];
	size_t row[ARRAY_SIZE(text)], nr = 0;
	int err;

	for (size_t i = 0; i < allocator_function_nr && nr < ARRAY_SIZE(text); i++) {
		const struct allocator_function *known = &allocator_functions[i];

		if (!known->prefix || strcmp(known->prefix, prefix_of_end[prefix->end]))
			continue;
		snprintf(text[nr], sizeof(text[nr]), "%s%s", prefix->text, known->name + strlen(known->prefix));
		name[nr] = text[nr];
		row[nr++] = i;
	}
	err = elf_object__find_functions(elf, name, nr, ret, ret_nr);
	for (size_t i = 0; !err && i < *ret_nr; i++)
		(*ret)[i].name = row[(*ret)[i].name];
	return err;
}

static int add_renamed_heap(struct elf_object *elf, const char *prefix, struct elf_function *function, size_t nr,
			    struct known_functions *ret)
{
	int err = keep_functions(elf, NULL, function, &nr);

	strcpy(ret->prefix[ret->prefix_nr++], prefix);
	for (size_t i = 0; i < nr && !err; i++) {
		function[i].renamed = ret->prefix_nr;
		err = array_push(ret, function, function[i]);
	}
	return err;
}

static int add_functions_of(struct elf_object *elf, const struct elf_prefix *prefix, struct known_functions *ret)
{
	struct elf_function *found = NULL;
	size_t nr = 0;
	int err = find_renamed(elf, prefix, &found, &nr);

	if (err)
		return err;
	if (heap_functions_are_whole(found, nr, prefix_of_end[prefix->end]) && !has_heap_functions_of_others(found, nr)) {
		if (ret->prefix_nr < HEAP_PREFIXES_MAX)
			err = add_renamed_heap(elf, prefix->text, found, nr, ret);
		else
			ret->has_more_heaps = true;
	}
	free(found);
	return err;
}

/* ---- the whole ---- */

static int by_row_and_address(const void *a, const void *b)
{
	const struct elf_function *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

int known_functions_find(struct elf_object *elf, const struct functions_wanted *wanted, struct known_functions *ret)
{
	struct elf_prefixes prefixes = { .end = only_end, .end_nr = ARRAY_SIZE(only_end) };
	int err;

	*ret = (struct known_functions){};
	err = known_functions_find_named(elf, wanted, &prefixes, &ret->function, &ret->function_nr);
	if (err)
		return err;
	ret->function_alloc = ret->function_nr;
	err = keep_functions(elf, wanted, ret->function, &ret->function_nr);
	ret->has_more_heaps = prefixes.are_more;
	for (size_t i = 0; i < prefixes.found_nr && !err; i++)
		err = add_functions_of(elf, &prefixes.found[i], ret);
	if (ret->function_nr)
		qsort(ret->function, ret->function_nr, sizeof(*ret->function), by_row_and_address);
	if (err)
		known_functions_release(ret);
	return err;
}

void known_functions_release(struct known_functions *known)
{
	free(known->function);
	*known = (struct known_functions){};
}
