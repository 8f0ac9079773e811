// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/heap_owner.h"

#include <capstone/capstone.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/allocator_detect.h"
#include "elf/allocators.h"
#include "elf/elf_object.h"
#include "elf/known_functions.h"

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
	csh capstone;
	cs_insn *insn;
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

/* The operand that says where the instruction goes, if it is a call, or a jump of any kind; else an invalid one. */
static cs_x86_op operand_of_exit(const cs_insn *insn)
{
	const cs_detail *detail = insn->detail;

	for (size_t i = 0; i < detail->groups_count && detail->x86.op_count == 1; i++)
		if (detail->groups[i] == X86_GRP_CALL || detail->groups[i] == X86_GRP_JUMP)
			return detail->x86.operands[0];
	return (cs_x86_op){ .type = X86_OP_INVALID };
}

static bool is_slot_operand(const cs_x86_op *op)
{
	return op->type == X86_OP_MEM && op->mem.base == X86_REG_RIP;
}

/* A stub of the PLT: jmp *slot(%rip), perhaps behind an endbr64. */
static bool is_stub(struct call_reader *reader, uint64_t vaddr, uint64_t *ret_slot)
{
	uint8_t code[16];
	const uint8_t *byte = code;
	size_t left = elf_object__read_at(reader->elf, vaddr, code, sizeof(code));
	const cs_x86 *x86 = &reader->insn->detail->x86;

	while (cs_disasm_iter(reader->capstone, &byte, &left, &vaddr, reader->insn)) {
		if (reader->insn->id == X86_INS_ENDBR64)
			continue;
		if (reader->insn->id != X86_INS_JMP || !is_slot_operand(&x86->operands[0]))
			return false;
		*ret_slot = vaddr + x86->operands[0].mem.disp;
		return true;
	}
	return false;
}

/* The size is 0 if it is not known: the code ends at its first return then. */
static int read_calls_in(struct call_reader *reader, uint64_t start, uint64_t size)
{
	const uint8_t *byte = reader->byte;
	uint64_t vaddr = start, slot, end = start + (size ?: 1);
	size_t left = elf_object__read_at(reader->elf, start, reader->byte, size && size < CODE_MAX ? size : CODE_MAX);
	bool is_end = false;
	int err = 0;

	while (!err && !is_end && cs_disasm_iter(reader->capstone, &byte, &left, &vaddr, reader->insn)) {
		cs_x86_op op = operand_of_exit(reader->insn);

		is_end = !size && reader->insn->id == X86_INS_RET;
		if (is_slot_operand(&op))
			err = add_slot(reader, vaddr + op.mem.disp);
		else if (op.type == X86_OP_IMM && ((uint64_t)op.imm < start || (uint64_t)op.imm >= end))
			err = is_stub(reader, op.imm, &slot) ? add_slot(reader, slot) : add_call(reader, op.imm);
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
	if (reader->insn)
		cs_free(reader->insn, 1);
	if (reader->capstone)
		cs_close(&reader->capstone);
	free(reader->byte);
	free(reader->target);
}

/* After an error it is to be closed, too. */
static int call_reader__open(struct call_reader *reader, struct elf_object *elf)
{
	*reader = (struct call_reader){ .elf = elf, .throws = address_of(elf, "__cxa_allocate_exception") };
	if (elf_object__machine(elf) != EM_X86_64)
		return -ENOTSUP;
	reader->byte = malloc(CODE_MAX);
	if (!reader->byte || cs_open(CS_ARCH_X86, CS_MODE_64, &reader->capstone))
		return -ENOMEM;
	cs_option(reader->capstone, CS_OPT_DETAIL, CS_OPT_ON);
	reader->insn = cs_malloc(reader->capstone);
	return reader->insn ? 0 : -ENOMEM;
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

int heap_functions_read(struct elf_object *elf, const struct elf_function *function, size_t nr, bool *ret_taken)
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
