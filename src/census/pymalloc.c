// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "census/pymalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "base/units.h"
#include "elf/python/python_info.h"
#include "elf/python/python_layers.h"

/* ---- pymalloc types ---- */

/* struct _typeobject, the same from 3.9 to 3.14 */
#define TYPE_BASIC_SIZE 32
#define TYPE_ITEM_SIZE 40
#define TYPE_FLAGS 168
#define TYPE_BYTES 176

#define ABSENT_NR 65536
#define PYTHON_TYPES_MOST 65536

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

static struct python_type_table *python_type_table__new(struct target_memory *memory, const struct python_info *info, uint64_t bias)
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

static void python_type_table__free(struct python_type_table *table)
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

/*
 * Counts a live block by the type of the object that begins in it; first: its first words. Blocks without one have the
 * name "". An object begins `before` bytes into its block, as its type says. 0 or -ENOMEM.
 */
static int python_type_table__add(struct python_type_table *table, const uint64_t *first, uint64_t block_bytes)
{
	uint32_t of = table->info->offsets.object_type;
	struct python_type *type = NULL;
	int err = 0;

	for (uint32_t before = 0; !type && !err && before <= 32 && before + of + 8 <= block_bytes; before += 16) {
		uint64_t references = first[before / 8], address = first[(before + of) / 8];

		if (!is_reference_count(table, references) || address % 8 || address < TARGET_PAGE || address >= UINT64_C(1) << 48)
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

/* Appends the types to the census, those with the same name as one. 0 or -ENOMEM. */
static int python_type_table__report(const struct python_type_table *table, struct census_python *python)
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

/* ---- pymalloc ---- */

#define ARENAS_MOST (1u << 20)
#define TRIES 4

struct pool_reader {
	struct target_memory *memory;
	const struct python_info *info;
	struct census *census;
	struct python_type_table *types;
	uint64_t word[PYTHON_POOL_MOST / 8];
	struct python_pool pool;
};

/* ---- a pool ---- */

/* Reads a pool until it makes sense. False: it does not. */
static bool read_pool(struct pool_reader *reader, uint64_t address)
{
	const struct python_pools *pools = &reader->info->pools;

	for (unsigned int try = 0; try < TRIES; try++) {
		if (target_read_touched(reader->memory, address, reader->word, pools->pool_bytes))
			return false;
		if (python_pool_read(reader->word, address, pools->pool_bytes, &reader->pool))
			return true;
		reader->census->loss[CENSUS_LOSS_POOLS_MOVED] += !try;
	}
	return false;
}

static int count_pool(struct pool_reader *reader)
{
	struct census_python *python = &reader->census->python;
	const struct python_pool *pool = &reader->pool;
	uint32_t pool_bytes = reader->info->pools.pool_bytes, class = pool->block_bytes / PYTHON_BLOCK_STEP - 1;
	uint64_t block_bytes = pool->block_bytes, live = pool->live_nr;
	uint64_t room = (pool_bytes - PYTHON_POOL_HEADER) / block_bytes;
	int err = 0;

	python->in_use.count += live;
	python->in_use.bytes += live * block_bytes;
	python->class[class].in_use.count += live;
	python->class[class].in_use.bytes += live * block_bytes;
	python->class[class].free.count += room - live;
	python->class[class].free.bytes += (room - live) * block_bytes;
	python->free.count += room - live;
	python->free.bytes += (room - live) * block_bytes;
	python->overhead_bytes += pool_bytes - room * block_bytes;
	python->used_pools++;
	for (uint64_t i = 0, at = PYTHON_POOL_HEADER; !err && at + block_bytes <= pool_bytes && at < pool->used_end; i++, at += block_bytes)
		if (!pool->is_free[i])
			err = python_type_table__add(reader->types, &reader->word[at / 8], block_bytes);
	return err;
}

/* ---- an arena ---- */

static int count_arena(struct pool_reader *reader, const struct python_arena *arena)
{
	const struct python_pools *pools = &reader->info->pools;
	struct census_python *python = &reader->census->python;
	uint64_t pool = (arena->address + pools->pool_bytes - 1) & -(uint64_t)pools->pool_bytes;
	uint64_t end = arena->address + pools->arena_bytes;
	int err = 0;

	python->arena_nr++;
	python->system_bytes += pools->arena_bytes;
	python->overhead_bytes += pool - arena->address;
	python->resident_bytes += target_resident(reader->memory, arena->address, end,
						  &reader->census->loss[CENSUS_LOSS_PAGES_UNKNOWN]);
	for (; !err && pool + pools->pool_bytes <= end; pool += pools->pool_bytes) {
		if (pool >= arena->pool_address) { /* never used */
			python->free_pool_bytes += pools->pool_bytes;
		} else if (target_is_late(reader->memory) || !read_pool(reader, pool)) {
			python->unwalked_bytes += pools->pool_bytes;
		} else if (!reader->pool.block_bytes) {
			python->free_pool_bytes += pools->pool_bytes;
		} else {
			err = count_pool(reader);
		}
	}
	python->overhead_bytes += end - pool;
	return err;
}

/* ---- all arenas ---- */

/* Where pymalloc's variables are: 0 if that cannot be read. */
static uint64_t find_state(const struct target_memory *memory, const struct python_info *info, uint64_t bias)
{
	uint64_t interpreter, state;

	if (!info->pools.in_interpreter)
		return bias;
	if (target_read_word(memory, bias + info->main_interpreter, &interpreter))
		return 0;
	state = interpreter + info->pools.state;
	if (info->pools.in_interpreter == 2 && target_read_word(memory, state, &state))
		return 0;
	return state;
}

/* The table of arenas, which may move and grow. False: it cannot be read. */
static bool read_arena_table(const struct pool_reader *reader, uint64_t state, uint64_t *ret_arenas, uint32_t *ret_nr)
{
	const struct target_memory *memory = reader->memory;
	const struct python_pools *pools = &reader->info->pools;

	return !target_read_word(memory, state + pools->arenas, ret_arenas) &&
	       !memory->read(memory->process, state + pools->max_arenas, ret_nr, sizeof(*ret_nr)) && *ret_nr <= ARENAS_MOST;
}

/* Reads an arena's row until the table has not moved meanwhile. False: it cannot be read. */
static bool read_arena(const struct pool_reader *reader, uint64_t state, uint32_t index, struct python_arena *ret)
{
	const struct target_memory *memory = reader->memory;
	uint64_t arenas, again;
	uint32_t nr;

	for (unsigned int try = 0; try < TRIES && read_arena_table(reader, state, &arenas, &nr); try++)
		if (!memory->read(memory->process, arenas + index * sizeof(*ret), ret, sizeof(*ret)) &&
		    read_arena_table(reader, state, &again, &nr) && again == arenas)
			return true;
	return false;
}

static int count_arenas(struct pool_reader *reader, uint64_t state)
{
	struct python_arena arena;
	uint64_t arenas;
	uint32_t nr;
	int err = 0;

	for (uint32_t i = 0; !err && read_arena_table(reader, state, &arenas, &nr) && i < nr; i++) {
		bool is_read = read_arena(reader, state, i, &arena);

		if (is_read && !arena.address)
			continue;
		if (is_read && target_is_writable(reader->memory, arena.address, reader->info->pools.arena_bytes))
			err = count_arena(reader, &arena);
		else
			reader->census->loss[CENSUS_LOSS_ARENAS_REFUSED]++;
	}
	return err;
}

int pymalloc_census(struct target_memory *memory, const struct python_info *info, uint64_t bias, struct census *census)
{
	struct census_python *python = &census->python;
	struct pool_reader *reader = calloc(1, sizeof(*reader));
	uint64_t state = 0, arenas;
	uint32_t nr;
	int err = reader ? 0 : -ENOMEM;

	snprintf(python->version, sizeof(python->version), "%u.%u.%u", info->version.major, info->version.minor,
		 info->version.micro);
	if (*info->fault || !info->pools.is_known || info->pools.pool_bytes > PYTHON_POOL_MOST) {
		snprintf(python->why, sizeof(python->why), "%s", *info->fault ? info->fault : "its allocator was not understood");
		free(reader);
		return err;
	}
	if (err)
		return err;
	*reader = (struct pool_reader){ .memory = memory, .info = info, .census = census };
	state = find_state(memory, info, bias);
	if ((!state && info->pools.in_interpreter) || !read_arena_table(reader, state, &arenas, &nr)) {
		snprintf(python->why, sizeof(python->why), "its arenas cannot be read");
	} else {
		target_map_again(memory);
		reader->types = python_type_table__new(memory, info, bias);
		err = reader->types ? count_arenas(reader, state) : -ENOMEM;
		err = err ?: python_type_table__report(reader->types, python);
		python_type_table__free(reader->types);
		census->loss[CENSUS_LOSS_BYTES_UNWALKED] += python->unwalked_bytes;
	}
	free(reader);
	return err;
}
