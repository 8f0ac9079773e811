// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Places where pymalloc opens a pool for a size class, and where it closes an empty one (Objects/obmalloc.c). Profile-guided
 * builds copy the second to where blocks are freed often. Fields of a pool and of its arena show both:
 *
 *	allocate_from_new_pool():	movl $0xffff, 0x24(%rax)	a pool that never had a size class
 *					…
 *					movl $1, (%rax)			◄── the place: rax is the pool,
 *					cmp  %ecx, %ebp; je …
 *					mov  %ebp, 0x24(%rax)		and ebp its size class
 *
 *	insert_to_freepool():		mov  0x20(%rsi), %ebx		the number of the pool's arena
 *					…
 *					mov  0x18(%rbx), %rax		the arena's free pools
 *					mov  %rax, 0x10(%rsi)
 *					mov  %rsi, 0x18(%rbx)		◄── the place: rsi is the pool
 */
#include <string.h>

#include "elf/argument_source.h"
#include "elf/elf_object.h"
#include "elf/python/python_private.h"
#include "elf/python/python_value.h"

#define FUNCTION_MOST (1u << 20) /* bytes */

/* struct pool_header */
#define POOL_NEXT 0x10
#define POOL_ARENA 0x20
#define POOL_CLASS 0x24
#define NO_CLASS 0xffff

/* struct arena_object */
#define ARENA_FREE_POOLS 0x18

#define TYPE_DEALLOC 48 /* in a type, the same from CPython 3.9 to 3.14 */

/* ---- operands ---- */

static bool general_register(const struct python_code *code, x86_reg reg, unsigned int *ret)
{
	const char *name = reg == X86_REG_INVALID ? NULL : cs_reg_name(code->capstone, reg);
	unsigned short place;

	if (!name || !argument_register_named(name, strlen(name), &place) || place / 8 >= PYTHON_REGISTERS)
		return false;
	*ret = place / 8;
	return true;
}

/* Whether an operand is a field of what a register points to. */
static bool is_field(const struct python_code *code, const cs_x86_op *op, int64_t offset, unsigned int bytes,
		     unsigned int *ret_base)
{
	return op->type == X86_OP_MEM && op->size == bytes && op->mem.disp == offset &&
	       op->mem.index == X86_REG_INVALID && op->mem.segment == X86_REG_INVALID &&
	       general_register(code, op->mem.base, ret_base);
}

static bool is_register(const struct python_code *code, const cs_x86_op *op, unsigned int bytes, unsigned int *ret)
{
	return op->type == X86_OP_REG && op->size == bytes && general_register(code, op->reg, ret);
}

static bool is_number(const cs_x86_op *op, int64_t number)
{
	return op->type == X86_OP_IMM && op->imm == number;
}

/* The two operands of a mov that was decoded last, or NULL. */
static const cs_x86_op *operands_of_mov(const struct python_code *code)
{
	const cs_x86 *x86 = &code->insn->detail->x86;

	return code->insn->id == X86_INS_MOV && x86->op_count == 2 ? x86->operands : NULL;
}

static struct argument_source register_source(unsigned int reg, unsigned int bytes)
{
	return (struct argument_source){ .kind = ARGUMENT_REGISTER, .bytes = bytes, .scale = 1, .base = 8 * reg,
					 .index = ARGUMENT_NO_REGISTER };
}

static int add_pool_place(struct python_search *search, uint64_t vaddr, enum python_operation operation, unsigned int pool,
			  const struct argument_source *class)
{
	const struct python_site site = {
		.vaddr = vaddr, .operation = operation, .domain = PYTHON_OBJECT, .size = *class, .count = NO_ARGUMENT,
		.pointer = register_source(pool, 8),
	};

	return python_add_site(search, &site);
}

/* ---- where pools are opened ---- */

#define BEFORE_CLASS_MOST 6 /* instructions */

/* From the place to where the size class is stored: behind a comparison, on one of its sides. */
static bool find_pool_class(struct python_code *code, uint64_t at, unsigned int pool, bool may_branch, unsigned int *ret_class)
{
	for (int i = 0; i < BEFORE_CLASS_MOST && python_code__decode(code, at); i++) {
		const cs_x86_op *op = operands_of_mov(code);
		uint64_t next = at + code->insn->size;
		unsigned int base;

		if (op && is_field(code, &op[0], POOL_CLASS, 4, &base) && base == pool)
			return is_register(code, &op[1], 4, ret_class);
		if (may_branch && insn_is_jcc(code->insn) &&
		    find_pool_class(code, code->insn->detail->x86.operands[0].imm, pool, false, ret_class))
			return true;
		if (!python_code__decode(code, at) || (!insn_is_jcc(code->insn) && code->insn->id != X86_INS_CMP))
			return false;
		at = next;
	}
	return false;
}

struct openings {
	struct python_search *search;
	uint32_t nr;		/* that were found */
	uint32_t missing_nr;	/* functions that seem to open pools, but have no such place */
};

/* Whether the instruction decoded last says that a pool never had a size class. */
static bool is_first_use(const struct python_code *code)
{
	const cs_x86_op *op = operands_of_mov(code);
	unsigned int base;

	return op && is_field(code, &op[0], POOL_CLASS, 4, &base) && is_number(&op[1], NO_CLASS);
}

static int add_opening(struct openings *openings, uint64_t at)
{
	struct python_code *code = &openings->search->code;
	const cs_x86_op *op = operands_of_mov(code);
	uint64_t next = at + code->insn->size;
	struct argument_source source;
	unsigned int pool, class;

	if (!op || !is_field(code, &op[0], 0, 4, &pool) || !is_number(&op[1], 1) || !find_pool_class(code, next, pool, true, &class))
		return 0;
	source = register_source(class, 4);
	openings->nr++;
	return add_pool_place(openings->search, at, PYTHON_POOL_OPEN, pool, &source);
}

static int look_for_openings(struct openings *openings, uint64_t start, uint64_t end)
{
	struct python_code *code = &openings->search->code;
	bool has_first_use = false;
	uint32_t nr = openings->nr;
	int err = 0;

	for (uint64_t at = start; at < end && python_code__decode(code, at); at += code->insn->size)
		has_first_use |= is_first_use(code);
	for (uint64_t at = start, next; has_first_use && !err && at < end && python_code__decode(code, at); at = next) {
		next = at + code->insn->size;
		err = add_opening(openings, at);
	}
	openings->missing_nr += has_first_use && openings->nr == nr;
	return err;
}

/* Whether the bytes there may end an instruction of is_first_use(): a displacement and a number. */
static bool may_be_first_use(const struct python_code *code, size_t at)
{
	static const uint8_t end[] = { POOL_CLASS, 0xff, 0xff, 0, 0 };
	const uint8_t *byte = code->byte + at;

	return at + sizeof(end) <= code->size && at >= 3 && !memcmp(byte, end, sizeof(end)) &&
	       ((byte[-2] == 0xc7 && (byte[-1] & 0xf8) == 0x40) || (byte[-3] == 0xc7 && byte[-2] == 0x44));
}

static int find_openings(struct openings *openings)
{
	const struct python_code *code = &openings->search->code;
	uint64_t start, end, looked_until = 0;
	int err = 0;

	for (size_t at = 0; at < code->size && !err; at++) {
		if (code->start + at < looked_until || !may_be_first_use(code, at) ||
		    !python_code__extent(code, code->start + at, &start, &end) || end - start > FUNCTION_MOST)
			continue;
		err = look_for_openings(openings, start, end);
		looked_until = end;
	}
	return err;
}

/* ---- where they are closed ---- */

#define KEPT 4 /* of each kind of load */

/* A straight line of instructions. Registers with equal numbers have equal values. */
struct straight_line {
	uint32_t value[PYTHON_REGISTERS], value_nr;
	uint32_t numbered[KEPT], numbered_nr; /* pools whose arena's number was loaded */
	struct {
		uint32_t value, arena;
	} head[KEPT]; /* the free pools of an arena */
	uint32_t head_nr;
	uint32_t linked_pool, linked_arena; /* the next of this pool are the free ones of this arena; 0: none */
};

static void line_begin(struct straight_line *line)
{
	*line = (struct straight_line){ .value_nr = PYTHON_REGISTERS };
	for (unsigned int i = 0; i < PYTHON_REGISTERS; i++)
		line->value[i] = i + 1;
}

static void line_load(struct straight_line *line, const struct python_code *code, const cs_x86_op *op)
{
	unsigned int to, base;
	uint32_t of;

	if (is_register(code, &op[0], 4, &to) && is_field(code, &op[1], POOL_ARENA, 4, &base)) {
		line->numbered[line->numbered_nr++ % KEPT] = line->value[base];
		line->value[to] = ++line->value_nr;
	} else if (is_register(code, &op[0], 8, &to) && is_field(code, &op[1], ARENA_FREE_POOLS, 8, &base)) {
		of = line->value[base];
		line->value[to] = ++line->value_nr;
		line->head[line->head_nr % KEPT].arena = of;
		line->head[line->head_nr++ % KEPT].value = line->value[to];
	} else if (is_register(code, &op[0], 8, &to) && is_register(code, &op[1], 8, &base)) {
		line->value[to] = line->value[base];
	} else if (general_register(code, op[0].reg, &to)) {
		line->value[to] = ++line->value_nr;
	}
}

static bool was_numbered(const struct straight_line *line, uint32_t pool)
{
	for (int i = 0; i < KEPT; i++)
		if (line->numbered[i] == pool)
			return true;
	return false;
}

/* Returns whether a pool becomes the first free one of its arena. *ret: the pool's register. */
static bool line_store(struct straight_line *line, const struct python_code *code, const cs_x86_op *op, unsigned int *ret)
{
	unsigned int base;

	if (!is_register(code, &op[1], 8, ret))
		return false;
	if (is_field(code, &op[0], POOL_NEXT, 8, &base))
		for (int i = 0; i < KEPT; i++)
			if (line->head[i].value == line->value[*ret]) {
				line->linked_pool = line->value[base];
				line->linked_arena = line->head[i].arena;
			}
	return is_field(code, &op[0], ARENA_FREE_POOLS, 8, &base) && line->linked_pool == line->value[*ret] &&
	       line->linked_arena == line->value[base] && was_numbered(line, line->linked_pool);
}

/* A register that an instruction writes has a new value. */
static void line_forget(struct straight_line *line, const struct python_code *code)
{
	cs_regs read, written;
	uint8_t read_nr, written_nr;
	unsigned int nr;

	if (cs_regs_access(code->capstone, code->insn, read, &read_nr, written, &written_nr)) {
		line_begin(line);
		return;
	}
	for (uint8_t i = 0; i < written_nr; i++)
		if (general_register(code, written[i], &nr))
			line->value[nr] = ++line->value_nr;
}

/* Follows the instruction decoded last. Returns whether a pool is closed there. */
static bool line_step(struct straight_line *line, const struct python_code *code, unsigned int *ret_pool)
{
	const cs_x86_op *op = operands_of_mov(code);

	if (python_code__leaves(code))
		line_begin(line);
	else if (op && op[0].type == X86_OP_REG)
		line_load(line, code, op);
	else if (op)
		return line_store(line, code, op, ret_pool);
	else
		line_forget(line, code);
	return false;
}

static int look_for_closings(struct python_search *search, uint64_t start, uint64_t end, uint32_t *nr)
{
	struct python_code *code = &search->code;
	struct straight_line line;
	unsigned int pool;
	int err = 0;

	line_begin(&line);
	for (uint64_t at = start; at < end && !err && python_code__decode(code, at); at += code->insn->size)
		if (line_step(&line, code, &pool)) {
			++*nr;
			err = add_pool_place(search, at, PYTHON_POOL_CLOSE, pool, &(struct argument_source)NO_ARGUMENT);
		}
	return err;
}

/* The lengths of the bytes of an operand (ModRM, SIB, displacement) with a small offset, or 0; *ret: its other register. */
static size_t operand_with(const uint8_t *byte, uint8_t offset, uint8_t *ret)
{
	bool has_sib = (byte[0] & 7) == 4;

	*ret = byte[0] >> 3 & 7;
	return byte[0] >> 6 == 1 && byte[1 + has_sib] == offset ? 2 + has_sib : 0;
}

#define CLOSING_BYTES 64 /* before the place, in which the loads are */

/* Whether the bytes there may be the store of a closing, and those before it the pool's link. */
static bool may_be_closing(const struct python_code *code, size_t at)
{
	const uint8_t *byte = code->byte + at;
	uint8_t pool, other;

	if (at < CLOSING_BYTES || at + 8 > code->size || (byte[0] & 0xf8) != 0x48 || byte[1] != 0x89 ||
	    !operand_with(byte + 2, ARENA_FREE_POOLS, &pool))
		return false;
	for (int i = 1; i < CLOSING_BYTES; i++)
		if (byte[-i] == 0x8b && operand_with(byte - i + 1, POOL_ARENA, &other) && (byte[1 - i] & 7) == pool)
			return true;
	return false;
}

static int find_closings(struct python_search *search, uint32_t *nr)
{
	const struct python_code *code = &search->code;
	uint64_t start, end, looked_until = 0;
	int err = 0;

	for (size_t at = 0; at < code->size && !err; at++) {
		if (code->start + at < looked_until || !may_be_closing(code, at) ||
		    !python_code__extent(code, code->start + at, &start, &end) || end - start > FUNCTION_MOST)
			continue;
		err = look_for_closings(search, start, end, nr);
		looked_until = end;
	}
	return err;
}

/* ---- all ---- */

int python_find_growth(struct python_search *search)
{
	struct openings openings = { .search = search };
	uint32_t closing_nr = 0;
	int err = find_openings(&openings) ?: find_closings(search, &closing_nr);

	if (!err && (!openings.nr || openings.missing_nr || !closing_nr))
		python_info__refuse(search->info, "it was not found where its allocator opens and closes pools");
	return err;
}

uint64_t python_code_end(const struct python_search *search)
{
	uint64_t function;

	if (!search->symbol[SYMBOL_CODE_TYPE] ||
	    elf_object__pointer_at(search->elf, search->symbol[SYMBOL_CODE_TYPE] + TYPE_DEALLOC, &function) ||
	    !python_code__has(&search->code, function)) {
		python_info__refuse(search->info, "it was not found where its code objects end");
		return 0;
	}
	return function;
}
