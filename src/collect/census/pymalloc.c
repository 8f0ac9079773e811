// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/census/pymalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/python/python_info.h"
#include "elf/python/python_layers.h"

#define ARENAS_MOST (1u << 20)
#define TRIES 4

struct arena_object {
	uint64_t address, pool_address;
	uint32_t free_pool_nr, pool_nr;
	uint64_t free_pools, next, previous;
};

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

static int count_arena(struct pool_reader *reader, const struct arena_object *arena)
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
static bool read_arena(const struct pool_reader *reader, uint64_t state, uint32_t index, struct arena_object *ret)
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
	struct arena_object arena;
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
