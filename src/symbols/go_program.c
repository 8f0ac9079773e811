// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/go_program.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/a64_words.h"
#include "elf/elf_object.h"
#include "elf/x86_instructions.h"
#include "symbols/go_table.h"

#define FUNCTION_BYTES_MAX (64u << 10)
#define WORDS_MAX 256 /* variables that a function may read */
#define VERSION_TEXT 32			   /* behind the magic: the length of the text, in a byte, and the text */
#define VERSION_IS_INLINE 2

/* ---- the version ---- */

/* Go's linker writes it behind a magic of 16 bytes, since Go 1.18 as text. */
static void read_version(const struct elf_object *elf, char ret[GO_VERSION_MAX])
{
	static const char magic[] = "\xff Go buildinf:";
	uint64_t word, vaddr = 0;
	uint8_t head[VERSION_TEXT + 1 + GO_VERSION_MAX] = {};
	size_t len;

	memcpy(&word, magic, sizeof(word));
	if (elf_object__find_word(elf, 0, UINT64_MAX, word, &vaddr) ||
	    elf_object__read_at(elf, vaddr, head, sizeof(head)) <= VERSION_TEXT ||
	    memcmp(head, magic, sizeof(magic) - 1) || !(head[sizeof(magic)] & VERSION_IS_INLINE))
		return;
	len = head[VERSION_TEXT];
	for (size_t i = 0; i < len && i < GO_VERSION_MAX - 1 && isgraph(head[VERSION_TEXT + 1 + i]); i++)
		ret[i] = head[VERSION_TEXT + 1 + i];
}

/* ---- which variables a function uses ---- */

struct words {
	uint64_t word[WORDS_MAX]; /* addresses of variables of 8 bytes, each once */
	size_t nr;
};

enum use { USE_READ, USE_STORE };

static bool has_word(const struct words *words, uint64_t address)
{
	return array_any(words->nr, i, words->word[i] == address);
}

static bool is_go_variable(const struct go_table *table, uint64_t address)
{
	static const enum go_word ranges[] = { GO_DATA_PLAIN, GO_DATA, GO_ZEROED, GO_ZEROED_PLAIN };

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (address >= go_table__word(table, ranges[i]) && address < go_table__word(table, ranges[i] + 1))
			return !(address % 8);
	return false;
}

static void add_go_variable(const struct go_table *table, uint64_t address, struct words *ret)
{
	if (is_go_variable(table, address) && !has_word(ret, address) && ret->nr < WORDS_MAX)
		ret->word[ret->nr++] = address;
}

/* A store is a mov to memory; a lea uses no variable. */
static void note_words(const struct go_table *table, const cs_insn *insn, enum use use, struct words *ret)
{
	const cs_x86 *x86 = &insn->detail->x86;

	for (uint8_t i = 0; i < x86->op_count && insn->id != X86_INS_LEA; i++) {
		const cs_x86_op *operand = &x86->operands[i];
		uint64_t address = insn->address + insn->size + operand->mem.disp;
		bool is_store = insn->id == X86_INS_MOV && !i;

		if (operand->type == X86_OP_MEM && operand->mem.base == X86_REG_RIP && operand->size == 8 && is_store == (use == USE_STORE))
			add_go_variable(table, address, ret);
	}
}

/* arm64: adrp and add make an address, and ldr and str, of 8 bytes here, add the rest of it. */
static void note_words_a64(const struct go_table *table, const uint8_t *code, size_t size, uint64_t vaddr, enum use use, struct words *ret)
{
	uint64_t made[32] = {}; /* by register; 0: none */

	for (size_t at = 0; at + 4 <= size; at += 4) {
		uint32_t insn = a64_word(code + at), memory = insn & 0xffc00000;
		uint64_t *to = &made[field(insn, 0, 5)], from = made[field(insn, 5, 5)];

		if (memory == (use == USE_STORE ? 0xf9000000 : 0xf9400000) && from)
			add_go_variable(table, from + field(insn, 10, 12) * 8, ret);
		if ((insn & 0x9f000000) == 0x90000000)
			*to = a64_page_address(insn, vaddr + at);
		else if (memory == 0x91000000)
			*to = from ? from + field(insn, 10, 12) : 0;
		else if (memory != 0xf9000000)
			*to = 0;
	}
}

struct decoder {
	const struct elf_object *elf;
	const struct go_table *table;
	csh capstone;
	cs_insn *insn;
	uint8_t code[FUNCTION_BYTES_MAX];
};

static void add_words_of(struct decoder *decoder, struct go_range code, enum use use, struct words *ret)
{
	uint64_t address = code.start, bytes = code.end - code.start;
	size_t left = elf_object__read_at(decoder->elf, code.start, decoder->code, bytes < FUNCTION_BYTES_MAX ? bytes : FUNCTION_BYTES_MAX);
	const uint8_t *at = decoder->code;

	if (elf_object__machine(decoder->elf) == EM_AARCH64)
		note_words_a64(decoder->table, at, left, address, use, ret);
	if (elf_object__machine(decoder->elf) != EM_X86_64)
		return; /* without variables the rate is not known */
	while (left && cs_disasm_iter(decoder->capstone, &at, &left, &address, decoder->insn))
		note_words(decoder->table, decoder->insn, use, ret);
}

/* ---- functions ---- */

/* The words of functions that take a sample, of those that decide whether to, and of those that run once, at the start. */
struct found {
	struct words sampling, allocating, starting;
	bool has_profile;
};

static bool begins(const char *name, const char *begin)
{
	return !strncmp(name, begin, strlen(begin));
}

static void look_at_go_function(struct decoder *decoder, const char *name, struct go_range code, struct found *ret)
{
	if (!strcmp(name, "profilealloc") || !strcmp(name, "nextSample"))
		add_words_of(decoder, code, USE_READ, &ret->sampling);
	else if (begins(name, "mallocgc"))
		add_words_of(decoder, code, USE_READ, &ret->allocating);
	else if (!strcmp(name, "schedinit") || !strcmp(name, "init"))
		add_words_of(decoder, code, USE_STORE, &ret->starting);
	ret->has_profile |= !strcmp(name, "MemProfile") || begins(name, "memProfileInternal");
}

static int look_at_functions(const struct elf_object *elf, const struct go_table *table, struct found *ret)
{
	struct decoder *decoder = calloc(1, sizeof(*decoder));
	struct go_range code;
	const char *name;
	int err = decoder ? decoder_open(&decoder->capstone, &decoder->insn) : -ENOMEM;

	if (!err) {
		decoder->elf = elf;
		decoder->table = table;
	}
	for (size_t i = 0; !err && go_table__function(table, i, &name, &code.start, &code.end); i++)
		if (name && begins(name, "runtime."))
			look_at_go_function(decoder, name + strlen("runtime."), code, ret);
	if (decoder)
		decoder_close(&decoder->capstone, &decoder->insn);
	free(decoder);
	return err;
}

/* The one variable that all three kinds of functions use; 0: none is, or several are. */
static uint64_t find_rate(const struct found *found)
{
	uint64_t rate = 0;

	for (size_t i = 0; i < found->sampling.nr; i++) {
		if (!has_word(&found->allocating, found->sampling.word[i]) || !has_word(&found->starting, found->sampling.word[i]))
			continue;
		if (rate)
			return 0;
		rate = found->sampling.word[i];
	}
	return rate;
}

/* ---- all of it ---- */

static struct go_range go_range_of(const struct go_table *table, enum go_word first)
{
	return (struct go_range){ go_table__word(table, first), go_table__word(table, first + 1) };
}

static int read_program(const struct elf_object *elf, const struct go_table *table, struct go_program *ret)
{
	struct go_program program = {
		.code = go_range_of(table, GO_CODE),
		.zeroed = { go_range_of(table, GO_ZEROED_PLAIN), go_range_of(table, GO_ZEROED) },
	};
	struct found *found = calloc(1, sizeof(*found));
	int err = found ? 0 : -ENOMEM;

	if (!err && (!program.code.start || elf_object__offset_of(elf, program.code.start, &program.code_offset)))
		err = -ENOENT;
	err = err ?: look_at_functions(elf, table, found);
	if (!err) {
		go_table__places(table, &program.table, &program.module);
		read_version(elf, program.version);
		program.rate = find_rate(found);
		program.has_profile = found->has_profile;
		*ret = program;
	}
	free(found);
	return err;
}

int go_program_read(int fd, struct go_program *ret, struct reason *why)
{
	struct elf_object *elf = elf_object__open(fd, why), *of_table = elf ? elf_object__open(fd, why) : NULL;
	struct go_table *table = NULL;
	int err = of_table ? go_table__open(of_table, &table) : -errno;

	if (!err && !table)
		err = reason_set(why, -ENOENT, "it is no Go program");
	else if (!err && (err = read_program(elf, table, ret)))
		reason_set(why, err, err == -ENOMEM ? "out of memory" : "it is of a Go before 1.18");
	go_table__free(table);
	elf_object__close(elf);
	return err;
}

static bool is_range(struct go_range range)
{
	return range.start <= range.end && range.end < UINT64_C(1) << 47;
}

bool go_program_is_sound(const struct go_program *program, uint64_t file_bytes)
{
	for (size_t i = 0; i < sizeof(program->version); i++)
		if (program->version[i] && !isgraph((unsigned char)program->version[i]))
			return false;
	return !program->version[sizeof(program->version) - 1] && is_range(program->code) && program->code.start < program->code.end &&
	       is_range(program->zeroed[0]) && is_range(program->zeroed[1]) && program->code_offset < file_bytes &&
	       program->has_profile <= 1 && program->module < UINT64_C(1) << 47 && program->table < UINT64_C(1) << 47 &&
	       !(program->module % 8) && !(program->rate % 8) && program->rate < UINT64_C(1) << 47;
}
