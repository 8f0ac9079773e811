// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/known_functions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/allocators.h"
#include "elf/machine.h"

/* The prefix that an allocator has in the table, and the end of a name that only its functions have. */
static const char *const prefix_of_end[] = { "je_", "tc_", "mi_" };
static const char *const only_end[] = { "mallocx", "malloc_skip_new_handler", "heap_malloc" };
_Static_assert(ARRAY_SIZE(prefix_of_end) == ARRAY_SIZE(only_end), "one for each");

/* ---- under the names of the table ---- */

static size_t wanted_function_nr(const struct functions_wanted *wanted)
{
	return wanted ? wanted->nr : 0;
}

/*
 * All functions with names of allocator_functions[], whether they are a heap's or not, and the wanted ones; prefixes: as
 * for elf_object__find_functions_and_prefixes(), or NULL. *ret is to be freed.
 */
static int known_functions_find_named(struct elf_object *elf, const struct functions_wanted *wanted,
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

#define OPERATOR_NEW "_Znwm"
#define CODE_MAX (16 << 10) /* bytes that are read of one function */
#define CALLS_MAX 1024	    /* functions that one calls, all together */
#define SLOTS_MAX 64	    /* of them through the PLT: each costs a search of all symbols */

/*
 * How far helpers are followed. jemalloc's operator new calls malloc three calls deep, after a new_handler. A file
 * counts as a pool only if no allocator function is called within POOL_DEPTH calls.
 */
#define WRAPPER_DEPTH 2
#define POOL_DEPTH 5

/* ---- what a function calls ---- */

struct call_reader {
	struct elf_object *elf;
	struct insn_reader insns;
	uint64_t throws; /* __cxa_allocate_exception: what an exception needs is no work of a heap. 0: not there */
	uint8_t *byte;	 /* CODE_MAX */

	/* Addresses of functions, each once, in the order in which they were found. */
	uint64_t *target;
	size_t target_nr, target_alloc;
	size_t slot_nr;
	bool calls_heap; /* through the PLT */
};

static int add_call(struct call_reader *reader, uint64_t target)
{
	for (size_t i = 0; i < reader->target_nr; i++)
		if (reader->target[i] == target)
			return 0;
	if (target == reader->throws || reader->target_nr == CALLS_MAX)
		return 0;
	return array_push(reader, target, target);
}

/* A C function that gives out blocks or takes them. */
static bool is_heaps_row(const struct allocator_function *row)
{
	return !row->own && !shape_is_mapping(row->shape);
}

static bool is_heaps_name(const char *name)
{
	for (size_t i = 0; i < allocator_function_nr; i++)
		if (!strcmp(allocator_functions[i].name, name))
			return is_heaps_row(&allocator_functions[i]);
	return false;
}

static uint64_t address_of(struct elf_object *elf, const char *name)
{
	struct elf_function *found = NULL;
	uint64_t vaddr = 0;
	size_t nr;

	if (!elf_object__find_functions(elf, &name, 1, &found, &nr) && nr)
		vaddr = found->vaddr;
	free(found);
	return vaddr;
}

/* The loader fills a slot of the PLT with an allocator's function of any file, or one of this file. */
static int add_slot(struct call_reader *reader, uint64_t slot)
{
	uint64_t target = 0;
	char *name = NULL;

	if (reader->slot_nr == SLOTS_MAX || elf_object__slot_function(reader->elf, slot, &name, &target) || !name)
		return 0;
	reader->slot_nr++;
	if (is_heaps_name(name))
		reader->calls_heap = true;
	else
		target = address_of(reader->elf, name);
	free(name);
	return target ? add_call(reader, target) : 0;
}

static bool reader_is_stub(const struct call_reader *reader, uint64_t vaddr, uint64_t *ret_slot)
{
	uint8_t code[STUB_BYTES_MAX];

	return code_is_stub(&reader->insns, code, elf_object__read_at(reader->elf, vaddr, code, sizeof(code)), vaddr, ret_slot);
}

/* Adds the function that an instruction of the one from start to end calls, or jumps to. */
static int add_exit(struct call_reader *reader, const struct insn *insn, uint64_t start, uint64_t end)
{
	uint64_t slot;

	switch (insn->flow) {
	case FLOW_JUMP_SLOT:
	case FLOW_CALL_SLOT:
		return add_slot(reader, insn->target);
	case FLOW_JUMP:
	case FLOW_BRANCH:
	case FLOW_CALL:
		if (insn->target >= start && insn->target < end)
			return 0;
		return reader_is_stub(reader, insn->target, &slot) ? add_slot(reader, slot) : add_call(reader, insn->target);
	default:
		return 0;
	}
}

/* The size is 0 if it is not known: the code ends at its first return then. */
static int read_calls_in(struct call_reader *reader, uint64_t start, uint64_t size)
{
	size_t bytes = elf_object__read_at(reader->elf, start, reader->byte, size && size < CODE_MAX ? size : CODE_MAX);
	uint64_t end = start + (size ?: 1);
	struct insn insn;
	int err = 0;

	insn_reader__begin_line(&reader->insns);
	for (size_t at = 0; !err && reader->insns.machine->read(&reader->insns, reader->byte + at, bytes - at, start + at, &insn);
	     at += insn.bytes) {
		err = add_exit(reader, &insn, start, end);
		if (!size && insn.flow == FLOW_RETURN)
			break;
	}
	return err;
}

static int read_function_at(struct call_reader *reader, uint64_t vaddr)
{
	uint64_t start, end;

	return read_calls_in(reader, vaddr, elf_object__extent(reader->elf, vaddr, &start, &end) ? 0 : end - vaddr);
}

/* Reads which functions the function calls, which these call, and so on. */
static int read_calls(struct call_reader *reader, const struct elf_function *function, unsigned int depth)
{
	size_t first = 0, end;
	int err;

	reader->target_nr = 0;
	reader->slot_nr = 0;
	reader->calls_heap = false;
	err = read_calls_in(reader, function->vaddr, function->size);
	for (unsigned int level = 1; level < depth && !err && !reader->calls_heap; level++) {
		end = reader->target_nr;
		for (; first < end && !err; first++)
			err = read_function_at(reader, reader->target[first]);
	}
	return err;
}

static void call_reader__close(struct call_reader *reader)
{
	insn_reader__close(&reader->insns);
	free(reader->byte);
	free(reader->target);
}

/* After an error it is to be closed, too. */
static int call_reader__open(struct call_reader *reader, struct elf_object *elf)
{
	*reader = (struct call_reader){ .elf = elf, .throws = address_of(elf, "__cxa_allocate_exception") };
	reader->byte = malloc(CODE_MAX);
	return reader->byte ? insn_reader__open(&reader->insns, elf_object__machine(elf)) : -ENOMEM;
}

/* ---- whose functions they are ---- */

struct heap {
	const struct elf_function *function;
	size_t nr;
	const bool *taken;
};

static const struct allocator_function *known_row(const struct elf_function *function)
{
	return function->name < allocator_function_nr ? &allocator_functions[function->name] : NULL;
}

/* operator new and delete: other names are of one allocator only, or of a heap. */
static bool is_doubtful(const struct elf_function *function)
{
	const struct allocator_function *row = known_row(function);

	return row && row->own && !row->prefix;
}

/* Whether a function of the heap lies there; of its C functions only, or also of its operator new under another name. */
static bool is_heaps_address(const struct heap *heap, uint64_t vaddr, bool of_c_only)
{
	for (size_t i = 0; i < heap->nr; i++) {
		const struct allocator_function *row = known_row(&heap->function[i]);

		if (heap->taken[i] && heap->function[i].vaddr == vaddr && row && !is_doubtful(&heap->function[i]) &&
		    (is_heaps_row(row) || !of_c_only))
			return true;
	}
	return false;
}

static bool calls_heap(const struct call_reader *reader, const struct heap *heap)
{
	for (size_t i = 0; i < reader->target_nr; i++)
		if (is_heaps_address(heap, reader->target[i], true))
			return true;
	return reader->calls_heap;
}

/* libstdc++'s operator new[] calls operator new, which may be the program's. */
static bool calls_dropped(const struct call_reader *reader, const struct heap *heap)
{
	for (size_t i = 0; i < heap->nr; i++)
		for (size_t at = 0; at < reader->target_nr && !heap->taken[i]; at++)
			if (is_doubtful(&heap->function[i]) && heap->function[i].vaddr == reader->target[at])
				return true;
	return false;
}

static int check_each_doubtful(struct call_reader *reader, const struct heap *heap, bool *taken, bool *ret_any_dropped)
{
	int err = 0;

	for (size_t i = 0; i < heap->nr && !err; i++) {
		if (!taken[i] || !is_doubtful(&heap->function[i]) ||
		    is_heaps_address(heap, heap->function[i].vaddr, false))
			continue;
		err = read_calls(reader, &heap->function[i], WRAPPER_DEPTH);
		taken[i] = !calls_heap(reader, heap) && !calls_dropped(reader, heap);
		*ret_any_dropped |= !taken[i];
	}
	return err;
}

static int check_doubtful(struct call_reader *reader, const struct heap *heap, bool *taken)
{
	bool any_dropped;
	int err;

	do {
		any_dropped = false;
		err = check_each_doubtful(reader, heap, taken, &any_dropped);
	} while (any_dropped && !err);
	return err;
}

static bool has_doubtful(const struct heap *heap)
{
	for (size_t i = 0; i < heap->nr; i++)
		if (heap->taken[i] && is_doubtful(&heap->function[i]))
			return true;
	return false;
}

static void drop_doubtful(const struct heap *heap, bool *taken)
{
	for (size_t i = 0; i < heap->nr; i++)
		if (is_doubtful(&heap->function[i]))
			taken[i] = false;
}

/* glibc's and musl's malloc have functions of these names behind them. */
static bool has_c_library(struct elf_object *elf)
{
	static const char *const name[] = { "_int_malloc", "__libc_malloc_impl" };
	size_t found;

	return !elf_object__find_name(elf, name, ARRAY_SIZE(name), &found);
}

/* The same as heap_functions(), without the functions that are not the heap's. 0, -ENOMEM. */
static int heap_functions_read(struct elf_object *elf, const struct elf_function *function, size_t nr, bool *ret_taken)
{
	const struct heap heap = { .function = function, .nr = nr, .taken = ret_taken };
	struct call_reader reader;
	int err;

	heap_functions(function, nr, ret_taken);
	if (!has_doubtful(&heap))
		return 0;
	if (has_c_library(elf)) {
		drop_doubtful(&heap, ret_taken);
		return 0;
	}
	err = call_reader__open(&reader, elf);
	if (!err)
		err = check_doubtful(&reader, &heap, ret_taken);
	call_reader__close(&reader);
	return err == -ENOMEM ? err : 0;
}

/* ---- pools ---- */

static int check_pool(struct elf_object *elf, const struct heap *heap, size_t i, bool *ret)
{
	struct call_reader reader;
	int err = call_reader__open(&reader, elf);

	err = err ?: read_calls(&reader, &heap->function[i], POOL_DEPTH);
	*ret = !err && !calls_heap(&reader, heap);
	call_reader__close(&reader);
	return err == -ENOMEM ? err : 0;
}

static int find_pool(struct elf_object *elf, const struct elf_function *function, size_t nr, bool *ret)
{
	bool taken[nr + 1];
	const struct heap heap = { .function = function, .nr = nr, .taken = taken };
	int err = heap_functions_read(elf, function, nr, taken);

	for (size_t i = 0; i < nr && !err; i++)
		if (!strcmp(allocator_functions[function[i].name].name, OPERATOR_NEW) && !function[i].is_ifunc)
			return taken[i] ? 0 : check_pool(elf, &heap, i, ret);
	return err;
}

int heap_owner_has_pool(struct elf_object *elf, bool *ret)
{
	struct elf_function *function;
	size_t nr;
	int err;

	*ret = false;
	if (!address_of(elf, OPERATOR_NEW))
		return 0;
	err = known_functions_find_named(elf, NULL, NULL, &function, &nr);
	if (err)
		return err == -ENOMEM ? err : 0;
	err = find_pool(elf, function, nr, ret);
	free(function);
	return err;
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
		qsort(ret->function, ret->function_nr, sizeof(*ret->function), elf_function_compare);
	if (err)
		known_functions_release(ret);
	return err;
}

void known_functions_release(struct known_functions *known)
{
	free(known->function);
	*known = (struct known_functions){};
}
