// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "base/units.h"
#include "collect/census/pymalloc.h"
#include "elf/python/python_info.h"

/* struct _typeobject, the same from 3.9 to 3.14 */
#define TYPE_BASIC_SIZE 32
#define TYPE_ITEM_SIZE 40
#define TYPE_FLAGS 168
#define TYPE_BYTES 176

#define ABSENT_NR 65536

#define FLAG_MANAGED_WEAKREF (1ul << 3)
#define FLAG_MANAGED_DICT (1ul << 4)
#define FLAG_READY (1ul << 12)
#define FLAG_HAS_GC (1ul << 14)
#define FLAG_IS_TYPE (1ul << 31) /* Py_TPFLAGS_TYPE_SUBCLASS */

/* A type, at an address of the process. */
struct python_type {
	uint64_t address;
	uint32_t before; /* bytes before an object of it, in its block */
	uint64_t least;	 /* bytes of an object */
	char name[CENSUS_NAME_MAX];
	struct census_count blocks;
};

struct python_type_table {
	struct target_memory *memory;
	const struct python_info *info;
	uint64_t bias;
	struct python_type *type; /* the first one stands for blocks without an object */
	size_t type_nr, type_alloc;
	struct idmap by_address;
	uint64_t no_type[ABSENT_NR]; /* addresses that are no types, each at the place of its hash */
};

/* ---- what is a type ---- */

static bool is_metatype(const struct python_type_table *table, uint64_t metatype)
{
	uint64_t type_type = table->info->type_type ? table->bias + table->info->type_type : 0, flags, of;

	if (type_type && metatype == type_type)
		return true;
	return metatype % 8 == 0 && !target_read_word(table->memory, metatype + TYPE_FLAGS, &flags) && flags & FLAG_IS_TYPE &&
	       !target_read_word(table->memory, metatype + table->info->offsets.object_type, &of) &&
	       (!type_type || of == type_type);
}

/* The name is a C string of any bytes. */
static bool read_type_name(const struct python_type_table *table, uint64_t address, char name[CENSUS_NAME_MAX])
{
	char raw[CENSUS_NAME_MAX + 1] = "";
	size_t room = TARGET_PAGE - address % TARGET_PAGE; /* the next page may not be there */

	if (room > CENSUS_NAME_MAX)
		room = CENSUS_NAME_MAX;
	if (!address || table->memory->read(table->memory->process, address, raw, room))
		return false;
	if (room < CENSUS_NAME_MAX && !memchr(raw, 0, room))
		table->memory->read(table->memory->process, address + room, raw + room, CENSUS_NAME_MAX - room);
	raw[CENSUS_NAME_MAX - 1] = '\0';
	clean_text(name, CENSUS_NAME_MAX, raw);
	return *name;
}

static bool read_python_type(const struct python_type_table *table, struct python_type *type)
{
	const struct python_offsets *offsets = &table->info->offsets;
	uint64_t word[TYPE_BYTES / 8], flags, of;

	if (table->memory->read(table->memory->process, type->address, word, sizeof(word)))
		return false;
	flags = word[TYPE_FLAGS / 8];
	of = word[offsets->object_type / 8];
	type->least = word[TYPE_BASIC_SIZE / 8];
	if (!(flags & FLAG_READY) || type->least < 16 || type->least > 1u << 20 || word[TYPE_ITEM_SIZE / 8] > 1u << 20 ||
	    !is_metatype(table, of))
		return false;
	if (flags & FLAG_HAS_GC)
		type->before += 16;
	if (flags & (FLAG_MANAGED_DICT | FLAG_MANAGED_WEAKREF) && table->info->version.minor >= 11)
		type->before += 16;
	return read_type_name(table, word[offsets->type_name / 8], type->name);
}

/* ---- the table ---- */

static bool has_type_address(uint32_t id, const void *key, const void *self)
{
	const struct python_type_table *table = self;

	return table->type[id].address == *(const uint64_t *)key;
}

/* The type at an address, or NULL. Writes 0 or -ENOMEM. */
static struct python_type *look_up_type(struct python_type_table *table, uint64_t address, int *ret_err)
{
	uint64_t hash = hash_bytes(&address, sizeof(address), 0), *absent = &table->no_type[hash % ABSENT_NR];
	uint32_t id = idmap_find(&table->by_address, hash, has_type_address, &address, table);
	struct python_type type = { .address = address };

	*ret_err = 0;
	if (id != IDMAP_NONE)
		return &table->type[id];
	if (*absent == address)
		return NULL;
	if (table->type_nr == PYTHON_TYPES_MOST || !target_mapping_at(table->memory, address) || !read_python_type(table, &type)) {
		*absent = address;
		return NULL;
	}
	id = table->type_nr;
	*ret_err = array_push(table, type, type) ?: idmap_add(&table->by_address, hash, id);
	return *ret_err ? NULL : &table->type[id];
}

struct python_type_table *python_type_table__new(struct target_memory *memory, const struct python_info *info, uint64_t bias)
{
	struct python_type_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	*table = (struct python_type_table){ .memory = memory, .info = info, .bias = bias };
	if (!array_push(table, type, ((struct python_type){ .address = 0 })))
		return table;
	free(table);
	return NULL;
}

void python_type_table__free(struct python_type_table *table)
{
	if (!table)
		return;
	idmap_release(&table->by_address);
	free(table->type);
	free(table);
}

/*
 * Whether a word can be a number of references: no pointer, and not 0. Since 3.14 it has 32 bits, and flags in its upper
 * end.
 */
static bool is_reference_count(const struct python_type_table *table, uint64_t word)
{
	return table->info->version.minor >= 14 ? (uint32_t)word && !(word >> 32 & 0xffff) : word && word < UINT64_C(1) << 40;
}

/* An object begins `before` bytes into its block, and that is what its type says. */
int python_type_table__add(struct python_type_table *table, const uint64_t *first, uint64_t block_bytes)
{
	uint32_t of = table->info->offsets.object_type;
	struct python_type *type = NULL;
	int err = 0;

	for (uint32_t before = 0; !type && !err && before <= 32 && before + of + 8 <= block_bytes; before += 16) {
		uint64_t references = first[before / 8], address = first[(before + of) / 8];

		if (!is_reference_count(table, references) || address % 8 || address < TARGET_PAGE || address >= UINT64_C(1) << 47)
			continue;
		type = look_up_type(table, address, &err);
		if (type && (type->before != before || before + type->least > block_bytes))
			type = NULL;
	}
	type = type ?: &table->type[0];
	type->blocks.count++;
	type->blocks.bytes += block_bytes;
	return err;
}

static int compare_type_names(const void *one, const void *two)
{
	const struct census_type *a = one, *b = two;

	return strcmp(a->name, b->name);
}

int python_type_table__report(const struct python_type_table *table, struct census_python *python)
{
	size_t nr = 0;
	int err = 0;

	for (size_t i = 0; i < table->type_nr && !err; i++) {
		struct census_type type = { .blocks = table->type[i].blocks };

		memcpy(type.name, table->type[i].name, sizeof(type.name));
		if (type.blocks.count)
			err = array_push(python, type, type);
	}
	if (err || !python->type_nr)
		return err;
	qsort(python->type, python->type_nr, sizeof(*python->type), compare_type_names);
	for (size_t i = 1; i < python->type_nr; i++) {
		if (compare_type_names(&python->type[nr], &python->type[i])) {
			python->type[++nr] = python->type[i];
			continue;
		}
		python->type[nr].blocks.count += python->type[i].blocks.count;
		python->type[nr].blocks.bytes += python->type[i].blocks.bytes;
	}
	python->type_nr = nr + 1;
	return 0;
}
