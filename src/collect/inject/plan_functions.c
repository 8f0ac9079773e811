// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/inject/plan_functions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "collect/inject/inject_private.h"
#include "collect/process/mapped_file.h"
#include "elf/allocators.h"
#include "elf/probe_info.h"

static const struct allocator_function *row_of_patch(const struct entry_patch *patch)
{
	return &allocator_functions[patch->name];
}

bool has_allocator(const struct entry_patches *patches)
{
	bool gives = false, takes = false;

	for (uint64_t i = 0; i < patches->nr; i++) {
		gives |= row_of_patch(&patches->patch[i])->shape == SHAPE_MALLOC;
		takes |= row_of_patch(&patches->patch[i])->shape == SHAPE_FREE;
	}
	return gives && takes;
}

/* ---- the choice ---- */

enum choice {
	CHOICE_PATCH,
	CHOICE_PASS,   /* it calls another function that is patched */
	CHOICE_UNSEEN, /* its blocks are not sampled */
	CHOICE_REFUSE, /* it frees blocks */
};

/*
 * A function that throws calls the language's runtime, so its callers expect any register to change that a callee may
 * change. One that goes nowhere throws nothing, and its callers may know which registers it leaves alone.
 */
static bool may_throw(const struct entry_patch *patch)
{
	return row_of_patch(patch)->throws && patch->goes_out;
}

/* The name of the variant of operator new that returns NULL instead of throwing. */
static void nothrow_name(const char *name, char *ret, size_t room)
{
	snprintf(ret, room, "%s%s", name, strncmp(name, "_Zn", 3) ? "_nothrow" : "RKSt9nothrow_t");
}

/* Its index in the plan so far, or function_nr. */
static uint32_t find_nothrow(const struct inject_allocator *allocator, const char *name)
{
	char wanted[128];
	uint32_t i = 0;

	nothrow_name(name, wanted, sizeof(wanted));
	while (i < allocator->function_nr && strcmp(allocator->function[i].name, wanted))
		i++;
	return i;
}

static enum choice choice_of_missed(const struct entry_patch *patch)
{
	enum call_shape shape = row_of_patch(patch)->shape;

	if (shape_takes(shape) && !patch->calls_taker)
		return CHOICE_REFUSE;
	return patch->calls_giver || !shape_gives(shape) ? CHOICE_PASS : CHOICE_UNSEEN;
}

static enum choice choose(const struct inject_allocator *allocator, const struct entry_patch *patch)
{
	const struct allocator_function *row = row_of_patch(patch);

	if (row->shape == SHAPE_XALLOCX) /* the block stays, with the size that it had */
		return CHOICE_PASS;
	if (row->shape == SHAPE_REALLOCARRAY && patch->passes_on) /* perhaps to another allocator, which counts the block */
		return CHOICE_PASS;
	if (*patch->fault)
		return choice_of_missed(patch);
	if (!may_throw(patch))
		return CHOICE_PATCH;
	if (patch->calls_giver || row->shape != SHAPE_MALLOC || row->of_heap ||
	    find_nothrow(allocator, row->name) == allocator->function_nr)
		return choice_of_missed(patch);
	return CHOICE_PATCH;
}

/* ---- sites ---- */

static const uint32_t kind_sites[INJECTED_KIND_NR] = {
	[INJECTED_MALLOC] = INJECTED_MALLOC_SITES,
	[INJECTED_CALLOC] = INJECTED_CALLOC_SITES,
	[INJECTED_FREE] = INJECTED_FREE_SITES,
	[INJECTED_OUTER] = INJECTED_OUTER_SITES,
	[INJECTED_OTHER] = INJECTED_OTHER_SITES,
};

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && !strcmp(text + len - end_len, end);
}

/* The hook of a kind counts without looking at what the function calls. */
static enum injected_kind hook_kind_of(const struct planned_function *function)
{
	const struct entry_patch *patch = &function->patch;
	const struct allocator_function *row = row_of_patch(patch);

	if (row->shape == SHAPE_FREE)
		return INJECTED_FREE;
	if (function->is_above && row->shape == SHAPE_MALLOC && !function->throws && !row->of_heap)
		return INJECTED_OUTER;
	if (patch->calls_giver || row->of_heap || function->is_above)
		return row->shape == SHAPE_MALLOC && !row->of_heap && !function->throws ? INJECTED_OUTER : INJECTED_OTHER;
	if (row->shape == SHAPE_MALLOC)
		return INJECTED_MALLOC;
	return row->shape == SHAPE_CALLOC && ends_with(row->name, "calloc") ? INJECTED_CALLOC : INJECTED_OTHER;
}

/* The next free site; INJECTED_SITES: there is none. */
static uint32_t take_site(uint32_t used[INJECTED_KIND_NR], enum injected_kind kind)
{
	uint32_t first = 0;

	if (used[kind] == kind_sites[kind])
		kind = INJECTED_OTHER;
	if (used[kind] == kind_sites[kind])
		return INJECTED_SITES;
	for (int i = 0; i < (int)kind; i++)
		first += kind_sites[i];
	return first + used[kind]++;
}

static int plan_sites_of(struct inject_allocator *allocator, struct planned_allocator *planned, bool is_alone,
			 struct reason *why)
{
	uint32_t used[INJECTED_KIND_NR] = {};

	for (uint32_t i = 0; i < allocator->function_nr; i++) {
		struct planned_function *function = &planned->function[i];

		function->is_above &= !is_alone;
		function->site = take_site(used, hook_kind_of(function));
		if (function->site == INJECTED_SITES)
			return reason_set(why, -ENOTSUP, "%s has too many functions", allocator->path);
	}
	return 0;
}

int plan_sites(struct inject_plan *plan, struct reason *why)
{
	int err = 0;

	for (uint32_t i = 0; i < plan->allocator_nr && !err; i++)
		err = plan_sites_of(&plan->allocator[i], &plan->details->allocator[i], plan->allocator_nr == 1, why);
	return err;
}

/* ---- the plan ---- */

struct planning_functions {
	const struct probe_info *facts;
	const char *path; /* of the file, without " (deleted)" */
	struct inject_allocator *allocator;
	struct planned_allocator *planned;
	struct reason *why;
};

/*
 * A C library, and the allocators of the table, take their memory from the kernel. Any other one may take it from them: a
 * library that counts bytes, or adds a header; a program's own malloc.
 */
static bool may_be_above(const struct planning_functions *planning, uint32_t name)
{
	for (uint32_t i = 0; i < planning->facts->function_nr; i++)
		if (planning->facts->function[i].name == name)
			return !heap_domain(planning->facts, i, planning->path) && !allocator_of(planning->path)->is_c_library;
	return true;
}

static void add_planned_function(const struct planning_functions *planning, const struct entry_patch *patch)
{
	const struct allocator_function *row = row_of_patch(patch);
	struct inject_allocator *allocator = planning->allocator;

	planning->planned->function[allocator->function_nr] = (struct planned_function){
		.patch = *patch,
		.throws = may_throw(patch),
		.plain = may_throw(patch) ? find_nothrow(allocator, row->name) : 0,
		.is_above = may_be_above(planning, patch->name),
	};
	allocator->function[allocator->function_nr++] = (struct inject_function){
		.name = row->name, .moved_bytes = entry_patch_moved_bytes(patch), .moved_nr = patch->insn_nr,
	};
}

static int plan_function(const struct planning_functions *planning, const struct entry_patch *patch)
{
	const struct allocator_function *row = row_of_patch(patch);
	struct inject_allocator *allocator = planning->allocator;

	switch (choose(allocator, patch)) {
	case CHOICE_REFUSE:
		return reason_set(planning->why, -ENOTSUP, "%s of %s: %s", row->name, allocator->path,
				  *patch->fault ? patch->fault : "it may throw an exception");
	case CHOICE_UNSEEN:
		allocator->has_unseen_new = true;
		return !strcmp(row->name, "malloc") ?
			       reason_set(planning->why, -ENOTSUP, "malloc of %s: %s", allocator->path, patch->fault) : 0;
	case CHOICE_PASS:
		return 0;
	case CHOICE_PATCH:
		break;
	}
	if (allocator->function_nr == INJECT_FUNCTIONS_MAX)
		return reason_set(planning->why, -ENOTSUP, "%s has too many functions", allocator->path);
	add_planned_function(planning, patch);
	return 0;
}

static uint32_t domain_of(const struct probe_info *facts, const char *path)
{
	return facts->function_nr ? heap_domain(facts, 0, path) : 0;
}

int plan_functions(const struct entry_patches *patches, const struct probe_info *facts,
		   struct inject_allocator *allocator, struct planned_allocator *planned, struct reason *why)
{
	char *path = path_of_mapping(allocator->path);
	const struct planning_functions planning = { facts, path, allocator, planned, why };
	int err = 0;

	planned->function = calloc(INJECT_FUNCTIONS_MAX, sizeof(*planned->function));
	if (!path || !planned->function)
		err = -ENOMEM;
	else
		allocator->domain = domain_of(facts, path);
	for (int throws = 0; throws < 2 && !err; throws++) /* those that throw need the others */
		for (uint64_t i = 0; i < patches->nr && !err; i++)
			if (may_throw(&patches->patch[i]) == throws)
				err = plan_function(&planning, &patches->patch[i]);
	free(path);
	return err;
}
