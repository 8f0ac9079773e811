// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/go_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/elf_object.h"

#define TABLE_BYTES_MAX (256u << 20) /* the largest programs have a quarter of it */
#define FUNCTIONS_MAX (1u << 22)
#define MAGICS_MAX 64	/* places that only look like a table; an honest file has one or two */
#define STEPS_MAX (1u << 22) /* of one number list */
#define CHECKED_TREES 1000

/* "fb ff ff ff", or fa, f1, f0; two zeros; the unit of code addresses; 8, the bytes of an address. */
#define MAGIC_MASK 0xff00fffffffffff0ull
#define MAGIC 0x08000000fffffff0ull

/* ---- layouts ---- */

/*
 * The header's words follow the magic. A function begins with its address, of as many bytes as in a row. The places of its
 * other numbers count from behind the address.
 */
struct layout {
	uint8_t magic;
	uint8_t address_bytes;	  /* of a row: 8, or 4, which count from the beginning of the code */
	uint8_t first_offset;	  /* index of the header's word that has the offset of the names; 0: the header has no offsets */
	uint8_t unit, first_line; /* in a function; 0: not there */
	uint8_t tree_nr;	  /* in a function: how many trees it has, in a byte; the number lists' offsets follow */
	uint8_t call_bytes, call_name, call_parent, call_line; /* in a call of a tree */
};

static const struct layout layouts[] = {
	{ 0xfb, 8, 0, .tree_nr = 31, .call_bytes = 20, .call_name = 12, .call_parent = 16 },
	{ 0xfa, 8, 2, .unit = 28, .tree_nr = 35, .call_bytes = 20, .call_name = 12, .call_parent = 16 },
	{ 0xf0, 4, 3, .unit = 28, .tree_nr = 35, .call_bytes = 20, .call_name = 12, .call_parent = 16 },
	{ 0xf1, 4, 3, .unit = 28, .first_line = 32, .tree_nr = 39, .call_bytes = 16, .call_name = 4, .call_parent = 8,
	  .call_line = 12 },
};

/* In a function, from behind its address. */
#define FUNCTION_NAME 0
#define FUNCTION_FILES 16
#define FUNCTION_LINES 20
#define FUNCTION_LISTS 24 /* the number of its further lists */
#define CALLS_LIST 2	  /* which of these has the inlined calls */

/* Words of the moduledata; for where its trees begin there are candidates, by version. */
#define MODULE_FIRST 20 /* the code of the first function */
#define MODULE_LAST 21
#define MODULE_CODE GO_CODE
#define MODULE_WORDS 44

static const uint8_t module_trees[] = { 38, 40, 43 };
static const uint8_t tree_indices[] = { 3, 4, 2 };

struct go_function {
	uint64_t address;
	uint32_t at; /* in the table: behind its address */
};

struct go_table {
	struct elf_object *elf;
	const struct layout *layout;
	uint64_t vaddr; /* of the table */
	char *bytes;	/* one more than the table has, a zero */
	size_t bytes_nr;
	size_t names, units, files, lists, functions; /* offsets in the table */
	struct go_function *function; /* sorted; the last one is where the code ends */
	size_t function_nr;	      /* without that one */
	struct elf_pointer *pointer;
	size_t pointer_nr;
	uint64_t module, module_word[MODULE_WORDS];
	uint8_t tree_index; /* which tree of a function has its inlined calls */
	uint64_t trees;	    /* the address that the offsets of trees count from */
	bool has_trees;
};

/* ---- reading ---- */

static bool has_bytes(const struct go_table *table, uint64_t at, size_t bytes)
{
	return at <= table->bytes_nr && bytes <= table->bytes_nr - at;
}

/* 0 if the table does not have it. */
static uint64_t number_at(const struct go_table *table, uint64_t at, size_t bytes)
{
	uint64_t number = 0;

	if (has_bytes(table, at, bytes))
		memcpy(&number, table->bytes + at, bytes); /* little-endian */
	return number;
}

/* A word that may be a pointer: as the loader leaves it. */
static uint64_t word_as_loaded(const struct go_table *table, uint64_t vaddr, uint64_t in_file)
{
	size_t i = array_first(table->pointer_nr, i, table->pointer[i].at >= vaddr);

	return i < table->pointer_nr && table->pointer[i].at == vaddr ? table->pointer[i].to : in_file;
}

static uint64_t pointer_in_table(const struct go_table *table, uint64_t at)
{
	return word_as_loaded(table, table->vaddr + at, number_at(table, at, 8));
}

/* Text at an offset, or NULL. The byte behind the table ends the last text. */
static const char *go_text_at(const struct go_table *table, uint64_t at)
{
	return at < table->bytes_nr && table->bytes[at] ? table->bytes + at : NULL;
}

static const char *name_at(const struct go_table *table, int32_t offset)
{
	return offset > 0 || (offset == 0 && table->names) ? go_text_at(table, table->names + offset) : NULL;
}

/* Whether a name begins there, and no other name has it in its middle. */
static bool begins_name(const struct go_table *table, int32_t offset)
{
	const char *name = name_at(table, offset);

	return name && (name == table->bytes + table->names || !name[-1]);
}

/* 7 bits a byte, the lowest first. False at the table's end. */
static bool read_varint(const struct go_table *table, size_t *at, uint32_t *ret)
{
	uint8_t byte;

	*ret = 0;
	for (int shift = 0; shift < 35; shift += 7) {
		if (*at >= table->bytes_nr)
			return false;
		byte = table->bytes[(*at)++];
		*ret |= (uint32_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/*
 * The number of a list at an instruction, which lies so many bytes behind the function's beginning; -1: it has none. A list
 * is pairs of numbers: how much its number changes, and for how many units of code it holds then.
 */
static int32_t number_in_list(const struct go_table *table, uint32_t list, uint64_t instruction)
{
	size_t at = table->lists + list;
	uint32_t change, units, number = UINT32_MAX;
	uint64_t end = 0;

	for (unsigned int step = 0; list && step < STEPS_MAX; step++) {
		if (!read_varint(table, &at, &change) || (!change && step) || !read_varint(table, &at, &units))
			break;
		number += change & 1 ? ~(change >> 1) : change >> 1;
		end += (uint64_t)units * (uint8_t)table->bytes[6];
		if (instruction < end)
			return number;
	}
	return -1;
}

/* ---- functions ---- */

static uint32_t function_number(const struct go_table *table, const struct go_function *function, size_t at)
{
	return number_at(table, (uint64_t)function->at + at, 4);
}

static size_t list_nr(const struct go_table *table, const struct go_function *function)
{
	return function_number(table, function, FUNCTION_LISTS);
}

static int32_t call_at(const struct go_table *table, const struct go_function *function, uint64_t instruction)
{
	size_t lists = table->layout->tree_nr + 1;

	if (list_nr(table, function) <= CALLS_LIST)
		return -1;
	return number_in_list(table, function_number(table, function, lists + 4 * CALLS_LIST), instruction);
}

/* The address of the function's tree of inlined calls; 0: it has none. */
static uint64_t tree_of(const struct go_table *table, const struct go_function *function)
{
	const struct layout *layout = table->layout;
	uint64_t at = (uint64_t)function->at + layout->tree_nr + 1 + 4ull * list_nr(table, function);
	uint32_t offset;

	if (table->tree_index >= (uint8_t)number_at(table, (uint64_t)function->at + layout->tree_nr, 1))
		return 0;
	if (layout->address_bytes == 8)
		return pointer_in_table(table, ((at + 7) & ~7ull) + 8 * table->tree_index);
	at += 4 * table->tree_index;
	offset = number_at(table, at, 4);
	return !has_bytes(table, at, 4) || offset == UINT32_MAX ? 0 : table->trees + offset;
}

struct inlined_call {
	int32_t name;	/* offset */
	uint32_t parent; /* an instruction of the caller, in bytes behind the function's beginning */
	int32_t first_line;
};

static bool read_call(const struct go_table *table, uint64_t tree, uint32_t index, struct inlined_call *ret)
{
	const struct layout *layout = table->layout;
	uint64_t at = tree + (uint64_t)index * layout->call_bytes;
	char bytes[20];

	if (elf_object__read_at(table->elf, at, bytes, layout->call_bytes) != layout->call_bytes)
		return false;
	memcpy(&ret->name, bytes + layout->call_name, 4);
	memcpy(&ret->parent, bytes + layout->call_parent, 4);
	ret->first_line = 0;
	if (layout->call_line)
		memcpy(&ret->first_line, bytes + layout->call_line, 4);
	return true;
}

/* ---- a look-up ---- */

static const char *file_at(const struct go_table *table, const struct go_function *function, uint64_t instruction)
{
	const struct layout *layout = table->layout;
	int32_t index = number_in_list(table, function_number(table, function, FUNCTION_FILES), instruction);
	uint64_t row = (uint32_t)index;
	uint32_t offset;

	if (index < 0)
		return NULL;
	if (layout->unit)
		row += function_number(table, function, layout->unit);
	offset = number_at(table, table->units + 4 * row, 4);
	return offset == UINT32_MAX || (!offset && !layout->first_offset) ? NULL : go_text_at(table, table->files + offset);
}

static void set_line(const struct go_table *table, const struct go_function *function, uint64_t instruction,
		     int32_t first_line, struct place *place)
{
	int32_t line = number_in_list(table, function_number(table, function, FUNCTION_LINES), instruction);

	place->filename = file_at(table, function, instruction);
	if (line > 0 && place->filename)
		place->lineno = line;
	else
		place->filename = NULL;
	if (place->filename && first_line > 0) {
		place->decl_filename = place->filename;
		place->decl_line = first_line;
	}
}

/* The function itself. Its line is not known if an inlined call is there of which the name is not known. */
static void set_function(const struct go_table *table, const struct go_function *function, uint64_t instruction,
			 struct place *place)
{
	const struct layout *layout = table->layout;
	int32_t first_line = layout->first_line ? function_number(table, function, layout->first_line) : 0;

	place->is_outermost = true;
	place->name = name_at(table, function_number(table, function, FUNCTION_NAME));
	if (call_at(table, function, instruction) < 0)
		set_line(table, function, instruction, first_line, place);
}

int go_table__lookup(const struct go_table *table, uint64_t address, struct place *ret_place, int max)
{
	size_t i = array_first(table->function_nr + 1, i, table->function[i].address > address);
	const struct go_function *function;
	uint64_t instruction, tree;

	if (!i || i > table->function_nr)
		return 0;
	function = &table->function[i - 1];
	instruction = address - function->address;
	tree = table->has_trees ? tree_of(table, function) : 0;
	for (int nr = 0; nr < max; nr++) {
		int32_t index = tree ? call_at(table, function, instruction) : -1;
		struct inlined_call call;

		ret_place[nr] = (struct place){ .is_as_written = true };
		if (index < 0 || !read_call(table, tree, index, &call)) {
			set_function(table, function, instruction, &ret_place[nr]);
			return nr + 1;
		}
		ret_place[nr].name = name_at(table, call.name);
		set_line(table, function, instruction, call.first_line, &ret_place[nr]);
		instruction = call.parent;
	}
	return max;
}

/* ---- what it says of the program ---- */

uint64_t go_table__word(const struct go_table *table, unsigned int word)
{
	return table->layout->address_bytes == 4 && word < MODULE_WORDS ? table->module_word[word] : 0;
}

void go_table__places(const struct go_table *table, uint64_t *ret_table, uint64_t *ret_module)
{
	*ret_table = table->vaddr;
	*ret_module = table->module;
}

bool go_table__function(const struct go_table *table, size_t at, const char **ret_name, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct go_function *function = &table->function[at];

	if (at >= table->function_nr)
		return false;
	*ret_name = name_at(table, function_number(table, function, FUNCTION_NAME));
	*ret_start = function->address;
	*ret_end = function[1].address;
	return true;
}

/* ---- is it a table? ---- */

/* The offsets of the header, which must lie one after another in the table. */
static bool read_header(struct go_table *table)
{
	size_t first = 8 + 8 * table->layout->first_offset, *part[] = {
		&table->names, &table->units, &table->files, &table->lists, &table->functions,
	};
	uint64_t before = 8, files;

	table->function_nr = number_at(table, 8, 8);
	if (!table->function_nr || table->function_nr > FUNCTIONS_MAX)
		return false;
	if (!table->layout->first_offset) { /* all offsets count from the table's beginning; a number before files' */
		files = 16 + 16ull * table->function_nr + 8;
		table->functions = 16;
		table->units = number_at(table, files, 4);
		return files < table->bytes_nr;
	}
	for (size_t i = 0; i < ARRAY_SIZE(part); i++) {
		*part[i] = number_at(table, first + 8 * i, 8);
		if (*part[i] <= before || *part[i] >= table->bytes_nr)
			return false;
		before = *part[i];
	}
	return true;
}

/* Reads all rows. False: they are not sorted, or a function does not agree with its row, or has no name. */
static bool read_go_functions(struct go_table *table, uint64_t code)
{
	size_t bytes = table->layout->address_bytes, base = table->layout->first_offset ? table->functions : 0;

	for (size_t i = 0; i <= table->function_nr; i++) {
		size_t row = table->functions + 2 * bytes * i;
		struct go_function *function = &table->function[i];
		uint64_t at = base + number_at(table, row + bytes, bytes);

		function->address = bytes == 8 ? pointer_in_table(table, row) : code + number_at(table, row, 4);
		if (i && function->address < function[-1].address)
			return false;
		if (i == table->function_nr)
			break;
		if (at > table->bytes_nr - bytes || at + bytes > UINT32_MAX)
			return false;
		function->at = at + bytes;
		if ((bytes == 8 ? pointer_in_table(table, at) : code + number_at(table, at, 4)) != function->address ||
		    !begins_name(table, function_number(table, function, FUNCTION_NAME)))
			return false;
	}
	return table->function[table->function_nr].address > table->function[0].address;
}

/* ---- the runtime's description of the program ---- */

static bool read_module(struct go_table *table, uint64_t vaddr)
{
	table->module = vaddr;
	memset(table->module_word, 0, sizeof(table->module_word));
	elf_object__read_at(table->elf, vaddr, table->module_word, sizeof(table->module_word));
	for (size_t i = 0; i < MODULE_WORDS; i++)
		table->module_word[i] = word_as_loaded(table, vaddr + 8 * i, table->module_word[i]);
	if (table->module_word[0] != table->vaddr || table->layout->address_bytes == 8)
		return table->module_word[0] == table->vaddr;
	return read_go_functions(table, table->module_word[MODULE_CODE]) &&
	       table->module_word[MODULE_FIRST] == table->function[0].address &&
	       table->module_word[MODULE_LAST] == table->function[table->function_nr].address;
}

/*
 * It begins with a pointer to the table. A table that lies in the program as data, such as a whole other program, has none
 * that leads to it. 0, -ENOENT or -ENOMEM.
 */
static int find_module(struct go_table *table)
{
	uint64_t vaddr = 0;
	int err = 0;

	for (size_t i = 0; i < table->pointer_nr; i++)
		if (table->pointer[i].to == table->vaddr && read_module(table, table->pointer[i].at))
			return 0;
	for (unsigned int tries = 0; !err && tries < MAGICS_MAX; tries++, vaddr += 8) {
		err = elf_object__find_word(table->elf, vaddr, UINT64_MAX, table->vaddr, &vaddr);
		if (!err && read_module(table, vaddr))
			return 0;
	}
	return err ?: -ENOENT;
}

/* ---- inlined calls ---- */

/* Whether the first call of each tree makes sense, and there is a tree. */
static bool are_trees(const struct go_table *table)
{
	size_t checked = 0;

	for (size_t i = 0; i < table->function_nr && checked < CHECKED_TREES; i++) {
		const struct go_function *function = &table->function[i];
		uint64_t tree = list_nr(table, function) > CALLS_LIST ? tree_of(table, function) : 0;
		struct inlined_call call;

		if (!tree)
			continue;
		checked++;
		if (!read_call(table, tree, 0, &call) || !begins_name(table, call.name) ||
		    call.parent >= function[1].address - function->address)
			return false;
	}
	return checked;
}

static void find_trees(struct go_table *table)
{
	bool are_offsets = table->layout->address_bytes == 4;
	size_t nr = are_offsets ? ARRAY_SIZE(module_trees) : ARRAY_SIZE(tree_indices);

	for (size_t i = 0; i < nr && !table->has_trees; i++) {
		table->tree_index = tree_indices[are_offsets ? 0 : i];
		table->trees = are_offsets ? table->module_word[module_trees[i]] : 0;
		table->has_trees = are_trees(table);
	}
}

/* ---- the search ---- */

static void forget_candidate(struct go_table *table)
{
	free(table->bytes);
	free(table->function);
	table->bytes = NULL;
	table->function = NULL;
}

static int load_bytes(struct go_table *table)
{
	uint64_t offset, left;

	if (elf_object__locate(table->elf, table->vaddr, 0, &offset, &left))
		return -ENOENT;
	if (left > TABLE_BYTES_MAX)
		left = TABLE_BYTES_MAX;
	table->bytes = malloc(left + 1);
	if (!table->bytes)
		return -ENOMEM;
	table->bytes_nr = elf_object__read_some(table->elf, offset, table->bytes, left);
	table->bytes[table->bytes_nr] = '\0';
	return table->bytes_nr < 64 ? -ENOENT : 0;
}

static const struct layout *layout_of(uint8_t magic)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].magic == magic)
			return &layouts[i];
	return NULL;
}

/* 0, -ENOENT or -ENOMEM. */
static int read_candidate(struct go_table *table)
{
	int err = load_bytes(table);

	if (err)
		return err;
	table->layout = layout_of(table->bytes[0]);
	if (!table->layout || !table->bytes[6] || !read_header(table) ||
	    2ull * table->layout->address_bytes * table->function_nr > table->bytes_nr)
		return -ENOENT;
	table->function = calloc(table->function_nr + 1, sizeof(*table->function));
	if (!table->function)
		return -ENOMEM;
	if (!table->pointer)
		err = elf_object__pointers(table->elf, &table->pointer, &table->pointer_nr);
	if (err)
		return err;
	if (table->layout->address_bytes == 8 && !read_go_functions(table, 0))
		return -ENOENT;
	return find_module(table);
}

static int find_go_table(struct go_table *table)
{
	int err = -ENOENT;

	for (unsigned int i = 0; i < MAGICS_MAX && err == -ENOENT; i++, table->vaddr += 8) {
		err = elf_object__find_word(table->elf, table->vaddr, MAGIC_MASK, MAGIC, &table->vaddr);
		if (err)
			break;
		err = read_candidate(table);
		if (!err)
			return 0;
		forget_candidate(table);
	}
	return err;
}

int go_table__open(struct elf_object *elf, struct go_table **ret)
{
	struct go_table *table = calloc(1, sizeof(*table));
	int err = -ENOMEM;

	*ret = NULL;
	if (table) {
		table->elf = elf;
		err = find_go_table(table);
	} else {
		elf_object__close(elf);
	}
	if (err) {
		go_table__free(table);
		return err == -ENOENT ? 0 : err;
	}
	find_trees(table);
	*ret = table;
	return 0;
}

void go_table__free(struct go_table *table)
{
	if (!table)
		return;
	forget_candidate(table);
	free(table->pointer);
	elf_object__close(table->elf);
	free(table);
}
