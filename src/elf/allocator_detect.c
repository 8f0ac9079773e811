// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/allocator_detect.h"

#include <string.h>

#include "base/array.h"
#include "elf/allocators.h"
#include "elf/elf_object.h"
#include "elf/probe_info.h"

/* NULL: the name is not in the table, for example one from the command line. */
static const struct allocator_function *row_of(size_t name)
{
	return name < allocator_function_nr ? &allocator_functions[name] : NULL;
}

static const char *prefix_of(const struct allocator_function *row)
{
	return row->prefix ?: "";
}

static bool is_called(const struct allocator_function *row, const char *prefix, const char *name)
{
	return row && !strcmp(prefix_of(row), prefix) && !strcmp(row->name + strlen(prefix), name);
}

/* ---- whether functions are an allocator's ---- */

/* The array is sorted by name, so functions of the same name are neighbours. */
static bool is_only_one(const struct elf_function *function, size_t nr, size_t i)
{
	return (!i || function[i - 1].name != function[i].name) &&
	       (i + 1 == nr || function[i + 1].name != function[i].name);
}

static const struct elf_function *find_only_one(const struct elf_function *function, size_t nr,
						const char *prefix, const char *name)
{
	for (size_t i = 0; i < nr; i++)
		if (is_called(row_of(function[i].name), prefix, name))
			return is_only_one(function, nr, i) ? &function[i] : NULL;
	return NULL;
}

bool heap_functions_are_whole(const struct elf_function *function, size_t nr, const char *prefix)
{
	static const char *const part[] = { "malloc", "free", "calloc", "realloc" };
	uint64_t vaddr[ARRAY_SIZE(part)];

	for (size_t i = 0; i < ARRAY_SIZE(part); i++) {
		const struct elf_function *found = find_only_one(function, nr, prefix, part[i]);

		if (!found)
			return false;
		vaddr[i] = found->vaddr;
		for (size_t k = 0; k < i; k++)
			if (vaddr[k] == vaddr[i])
				return false;
	}
	return true;
}

static bool has_prefixed_function(const struct elf_function *function, size_t nr, const char *prefix,
				  const char *name)
{
	for (size_t i = 0; i < nr; i++)
		if (is_called(row_of(function[i].name), prefix, name))
			return true;
	return false;
}

static bool is_heap_function(const struct elf_function *function, size_t nr, size_t i)
{
	const struct allocator_function *row = row_of(function[i].name);
	const char *prefix = row ? prefix_of(row) : NULL;

	if (!row)
		return true;
	if (row->own && !has_prefixed_function(function, nr, prefix, "malloc") &&
	    !has_prefixed_function(function, nr, prefix, "free"))
		return false;
	return !function[i].is_local || (is_only_one(function, nr, i) && heap_functions_are_whole(function, nr, prefix));
}

void heap_functions(const struct elf_function *function, size_t nr, bool *ret_taken)
{
	for (size_t i = 0; i < nr; i++)
		ret_taken[i] = is_heap_function(function, nr, i);
}

/* ---- which allocator's functions they are ---- */

static const struct object_function *common_malloc(const struct probe_info *facts)
{
	for (uint32_t i = 0; i < facts->function_nr; i++)
		if (is_called(row_of(facts->function[i].name), "", "malloc"))
			return &facts->function[i];
	return NULL;
}

/*
 * The domain of the file's malloc according to this function: the function is another name of
 * malloc, or it has no prefix and belongs to one allocator only. Else 0.
 */
static uint32_t domain_for(const struct object_function *malloc, const struct object_function *function)
{
	const struct allocator_function *row = row_of(function->name);

	return row && (function->vaddr == malloc->vaddr || !*prefix_of(row)) ? row->domain : 0;
}

static uint32_t common_domain(const struct probe_info *facts, const char *path)
{
	const struct object_function *malloc = common_malloc(facts);
	uint32_t domain = 0;

	for (uint32_t i = 0; i < facts->function_nr && malloc && !domain; i++)
		domain = domain_for(malloc, &facts->function[i]);
	return domain ?: allocator_of(path)->domain;
}

uint32_t heap_domain(const struct probe_info *facts, uint32_t i, const char *path)
{
	return row_of(facts->function[i].name)->domain ?: common_domain(facts, path);
}

static bool has_common_name(const struct probe_info *facts, uint64_t vaddr)
{
	for (uint32_t i = 0; i < facts->function_nr; i++) {
		const struct allocator_function *row = row_of(facts->function[i].name);

		if (row && !*prefix_of(row) && facts->function[i].vaddr == vaddr)
			return true;
	}
	return false;
}

bool heap_is_seldom_called(const struct probe_info *facts, uint32_t i)
{
	return !facts->entry && common_malloc(facts) && !has_common_name(facts, facts->function[i].vaddr);
}
