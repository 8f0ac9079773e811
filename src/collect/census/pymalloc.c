// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/census/pymalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/python/python_info.h"

#define ARENAS_MOST (1u << 20)
#define POOL_MOST 16384
#define POOL_HEADER 48
#define BLOCK_STEP 16
#define BLOCKS_MOST (POOL_MOST / BLOCK_STEP)
#define TRIES 4

struct arena_object {
	uint64_t address, pool_address;
	uint32_t free_pool_nr, pool_nr;
	uint64_t free_pools, next, previous;
};

struct pool_header {
	uint32_t live_nr, pad;
	uint64_t free_block, next, previous;
	uint32_t arena, class, next_offset, last_offset;
};

struct pool_reader {
	struct target_memory *memory;
	const struct python_info *info;
	struct census *census;
	struct python_type_table *types;
	uint64_t word[POOL_MOST / 8];
	bool is_free[BLOCKS_MOST];
};

/* ---- a pool ---- */

/* Marks the blocks of the free list. False: it is no such list, or it has changed. */
static bool mark_free(struct pool_reader *reader, uint64_t pool, const struct pool_header *header, uint64_t block_bytes)
{
	uint64_t block = header->free_block;
	size_t free_nr = 0, ever_nr = (header->next_offset - POOL_HEADER) / block_bytes;

	memset(reader->is_free, 0, sizeof(reader->is_free));
	for (; block; free_nr++) {
		uint64_t offset = block - pool;

		if (offset < POOL_HEADER || offset >= header->next_offset || (offset - POOL_HEADER) % block_bytes ||
		    reader->is_free[(offset - POOL_HEADER) / block_bytes])
			return false;
		reader->is_free[(offset - POOL_HEADER) / block_bytes] = true;
		block = reader->word[offset / 8];
	}
	return ever_nr - free_nr == header->live_nr;
}

/* Reads a pool until it makes sense. *ret_bytes: of a block; 0: the pool is free. False: it does not make sense. */
static bool read_pool(struct pool_reader *reader, uint64_t pool, struct pool_header *header, uint64_t *ret_bytes)
{
	const struct python_pools *pools = &reader->info->pools;

	for (unsigned int try = 0; try < TRIES; try++) {
		if (reader->memory->read(reader->memory->process, pool, reader->word, pools->pool_bytes))
			return false;
		memcpy(header, reader->word, sizeof(*header));
		*ret_bytes = 0;
		if (!header->live_nr)
			return true;
		*ret_bytes = (header->class + UINT64_C(1)) * BLOCK_STEP;
		if (header->class < CENSUS_PYTHON_CLASSES && header->next_offset >= POOL_HEADER &&
		    header->next_offset <= pools->pool_bytes && mark_free(reader, pool, header, *ret_bytes))
			return true;
		reader->census->loss[CENSUS_LOSS_POOLS_MOVED] += !try;
	}
	return false;
}

static int count_pool(struct pool_reader *reader, const struct pool_header *header, uint64_t block_bytes)
{
	struct census_python *python = &reader->census->python;
	uint32_t pool_bytes = reader->info->pools.pool_bytes;
	uint64_t room = (pool_bytes - POOL_HEADER) / block_bytes, live = header->live_nr;
	int err = 0;

	python->in_use.count += live;
	python->in_use.bytes += live * block_bytes;
	python->class[header->class].in_use.count += live;
	python->class[header->class].in_use.bytes += live * block_bytes;
	python->class[header->class].free.count += room - live;
	python->class[header->class].free.bytes += (room - live) * block_bytes;
	python->free.count += room - live;
	python->free.bytes += (room - live) * block_bytes;
	python->overhead_bytes += pool_bytes - room * block_bytes;
	python->used_pools++;
	for (uint64_t i = 0, at = POOL_HEADER; !err && at + block_bytes <= pool_bytes && at < header->next_offset; i++, at += block_bytes)
		if (!reader->is_free[i])
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
		struct pool_header header = {};
		uint64_t block_bytes = 0;

		if (pool >= arena->pool_address) { /* never used */
			python->free_pool_bytes += pools->pool_bytes;
		} else if (target_is_late(reader->memory) || !read_pool(reader, pool, &header, &block_bytes)) {
			python->unwalked_bytes += pools->pool_bytes;
		} else if (!block_bytes) {
			python->free_pool_bytes += pools->pool_bytes;
		} else {
			err = count_pool(reader, &header, block_bytes);
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

static int count_arenas(struct pool_reader *reader, uint64_t arenas, uint32_t nr)
{
	struct arena_object arena;
	int err = 0;

	for (uint32_t i = 0; i < nr && !err; i++) {
		const struct target_mapping *mapping;

		if (reader->memory->read(reader->memory->process, arenas + i * sizeof(arena), &arena, sizeof(arena)))
			break;
		mapping = arena.address ? target_mapping_at(reader->memory, arena.address) : NULL;
		if (mapping && mapping->is_writable && reader->info->pools.arena_bytes <= mapping->end - arena.address)
			err = count_arena(reader, &arena);
		else
			reader->census->loss[CENSUS_LOSS_ARENAS_REFUSED] += !!arena.address;
	}
	return err;
}

int pymalloc_census(struct target_memory *memory, const struct python_info *info, uint64_t bias, struct census *census)
{
	struct census_python *python = &census->python;
	struct pool_reader *reader = calloc(1, sizeof(*reader));
	uint64_t state = 0, arenas = 0, nr = 0;
	int err = reader ? 0 : -ENOMEM;

	snprintf(python->version, sizeof(python->version), "%u.%u.%u", info->version.major, info->version.minor,
		 info->version.micro);
	if (*info->fault || !info->pools.is_known || info->pools.pool_bytes > POOL_MOST) {
		snprintf(python->why, sizeof(python->why), "%s", *info->fault ? info->fault : "its allocator was not understood");
		free(reader);
		return err;
	}
	state = find_state(memory, info, bias);
	if ((!state && info->pools.in_interpreter) || target_read_word(memory, state + info->pools.arenas, &arenas) ||
	    memory->read(memory->process, state + info->pools.max_arenas, &nr, 4) || nr > ARENAS_MOST)
		snprintf(python->why, sizeof(python->why), "its arenas cannot be read");
	if (!err && !*python->why) {
		*reader = (struct pool_reader){ .memory = memory, .info = info, .census = census };
		reader->types = python_type_table__new(memory, info, bias);
		err = reader->types ? count_arenas(reader, arenas, nr) : -ENOMEM;
		err = err ?: python_type_table__report(reader->types, python);
		python_type_table__free(reader->types);
		census->loss[CENSUS_LOSS_BYTES_UNWALKED] += python->unwalked_bytes;
	}
	free(reader);
	return err;
}
