// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/python/python_layers.h"

#include <errno.h>
#include <string.h>

#include "base/reason.h"

/* PyMemAllocatorEx */
struct allocator_table {
	uint64_t context, function[PYTHON_OPERATION_NR];
};

/* debug_alloc_api_t: a letter for the domain, and the table of what is checked. */
struct debug_table {
	char letter;
	char pad[7];
	struct allocator_table table;
};

static bool leads_to_code(const struct python_info *info, uint64_t bias, const struct allocator_table *table)
{
	for (unsigned int i = 0; i < PYTHON_OPERATION_NR; i++)
		if (table->function[i] - bias - info->text_start >= info->text_end - info->text_start)
			return false;
	return true;
}

static bool is_debug_table(const struct python_info *info, uint64_t bias, const struct debug_table *debug)
{
	return (debug->letter == 'r' || debug->letter == 'm' || debug->letter == 'o') && leads_to_code(info, bias, &debug->table);
}

/*
 * The kind of a layer, and in *ret_next the table that it leads to. A context that cannot be read belongs to an
 * allocator: pymalloc has none, and others may use it for anything.
 */
static enum python_layer_kind kind_of_layer(const struct python_info *info, uint64_t bias,
					    const struct python_memory *memory, const struct allocator_table *layer,
					    struct allocator_table *ret_next)
{
	struct debug_table debug;

	if (!leads_to_code(info, bias, layer))
		return PYTHON_LAYER_FOREIGN;
	if (!layer->context || layer->context % sizeof(uint64_t))
		return PYTHON_LAYER_PLAIN;
	if (!memory->read(memory->process, layer->context, ret_next, sizeof(*ret_next)) && leads_to_code(info, bias, ret_next))
		return PYTHON_LAYER_TRACEMALLOC;
	if (!memory->read(memory->process, layer->context, &debug, sizeof(debug)) && is_debug_table(info, bias, &debug)) {
		*ret_next = debug.table;
		return PYTHON_LAYER_DEBUG;
	}
	return PYTHON_LAYER_PLAIN;
}

static void choose_layer(struct python_layers *layers)
{
	layers->recorded = 0;
	while (layers->recorded + 1 < layers->nr && layers->layer[layers->recorded].kind == PYTHON_LAYER_TRACEMALLOC)
		layers->recorded++;
}

int python_layers_read(const struct python_info *info, uint64_t bias, enum python_domain domain,
		       const struct python_memory *memory, struct python_layers *ret, struct reason *why)
{
	static const char *const names[] = { "raw", "mem", "obj" };
	struct allocator_table table, next;
	int err = memory->read(memory->process, info->table[domain] + bias, &table, sizeof(table));

	*ret = (struct python_layers){};
	if (err)
		return reason_set(why, err, "the table of Python's allocators cannot be read");
	for (;;) {
		struct python_layer *layer = &ret->layer[ret->nr++];

		layer->context = table.context;
		for (unsigned int i = 0; i < PYTHON_OPERATION_NR; i++)
			layer->function[i] = table.function[i];
		layer->kind = kind_of_layer(info, bias, memory, &table, &next);
		if (layer->kind == PYTHON_LAYER_FOREIGN)
			return reason_set(why, -ENOTSUP, "Python's %s allocator was replaced by functions of another file",
					  names[domain]);
		if (layer->kind == PYTHON_LAYER_PLAIN)
			break;
		if (ret->nr == PYTHON_LAYERS_MAX)
			return reason_set(why, -ENOTSUP, "Python's %s allocator has more than %u layers", names[domain],
					  PYTHON_LAYERS_MAX);
		table = next;
	}
	choose_layer(ret);
	return 0;
}

bool python_layers_debug_own(const struct python_layers *layers, const struct python_info *info, uint64_t bias,
			     enum python_domain domain)
{
	const struct python_layer *debug = &layers->layer[layers->recorded], *next = debug + 1;

	if (debug->kind != PYTHON_LAYER_DEBUG || layers->recorded + 2 != layers->nr || next->kind != PYTHON_LAYER_PLAIN)
		return false;
	for (unsigned int i = 0; i < PYTHON_OPERATION_NR; i++)
		if (next->function[i] != info->function[domain][i] + bias)
			return false;
	return true;
}

void python_layers_asked(const struct python_layers *layers, uint64_t bias, uint64_t ret[PYTHON_OPERATION_NR])
{
	for (unsigned int i = 0; i < PYTHON_OPERATION_NR; i++)
		ret[i] = layers->layer[layers->recorded].function[i] - bias;
}

#define STATES_MOST 1024 /* the list may change meanwhile */
#define THREAD_ALIGN 64	 /* of glibc's struct pthread */

/* 0: none, or it cannot be read. */
static uint64_t read_state_word(const struct python_memory *memory, uint64_t address)
{
	uint64_t word = 0;

	return memory->read(memory->process, address, &word, sizeof(word)) ? 0 : word;
}

static uint64_t find_state_of(const struct python_memory *memory, uint64_t thread, uint32_t key)
{
	uint64_t table = read_state_word(memory, GLIBC_SPECIFIC_TABLE(thread, key));

	return table ? read_state_word(memory, GLIBC_SPECIFIC_VALUE(table, key)) : 0;
}

/*
 * glibc clears the values of a thread that ends, and keeps its memory for the next one, or unmaps it. Python's list still
 * has the state.
 */
static bool is_ended_thread(const struct python_memory *memory, uint64_t thread)
{
	uint64_t first = thread + GLIBC_SPECIFIC_FIRST, value[2 * GLIBC_KEYS_OF_TABLE];

	if (memory->read(memory->process, first, value, sizeof(value)))
		return thread && thread % THREAD_ALIGN == 0;
	for (int key = 0; key < GLIBC_KEYS_OF_TABLE; key++)
		if (value[2 * key + 1])
			return false;
	return read_state_word(memory, GLIBC_SPECIFIC_TABLE(thread, 0)) == first;
}

const char *python_states_check(const struct python_info *info, uint64_t bias, const struct python_memory *memory,
				bool *ret_found)
{
	struct {
		int is_made;
		uint32_t number;
	} key = {};
	uint64_t interpreter = read_state_word(memory, info->main_interpreter + bias), state, thread, found;
	bool are_elsewhere = false;

	*ret_found = false;
	if (memory->read(memory->process, info->tss_key - sizeof(key.is_made) + bias, &key, sizeof(key)))
		return "the key of its threads' states cannot be read";
	if (!key.is_made || !interpreter)
		return NULL;
	if (key.number >= GLIBC_KEYS_MAX)
		return "the key of its threads' states is none of glibc's";
	state = read_state_word(memory, interpreter + info->states.first);
	if (!state)
		return NULL;
	for (int i = 0; i < STATES_MOST && state; i++) {
		thread = read_state_word(memory, state + info->states.thread);
		found = find_state_of(memory, thread, key.number);
		*ret_found = found && read_state_word(memory, found + info->states.thread) == thread;
		if (*ret_found)
			return NULL;
		are_elsewhere |= !is_ended_thread(memory, thread);
		state = read_state_word(memory, state + PYTHON_STATE_NEXT);
	}
	return !are_elsewhere ? NULL : "the states of its threads are not where glibc keeps them";
}

#define PYTHON_POOL_CLASSES 32

struct pool_header {
	uint32_t live_nr, pad;
	uint64_t free_block, next, previous;
	uint32_t arena, class, next_offset, last_offset;
};
_Static_assert(sizeof(struct pool_header) == PYTHON_POOL_HEADER, "as CPython's");

/* Marks the blocks of the free list. False: it is no such list. */
static bool mark_free_blocks(const uint64_t *word, uint64_t address, const struct pool_header *header, struct python_pool *ret)
{
	size_t free_nr = 0, ever_nr = (header->next_offset - PYTHON_POOL_HEADER) / ret->block_bytes;

	for (uint64_t block = header->free_block; block; free_nr++) {
		uint64_t offset = block - address, number = (offset - PYTHON_POOL_HEADER) / ret->block_bytes;

		if (offset < PYTHON_POOL_HEADER || offset >= header->next_offset ||
		    (offset - PYTHON_POOL_HEADER) % ret->block_bytes || ret->is_free[number])
			return false;
		ret->is_free[number] = true;
		block = word[offset / 8];
	}
	return ever_nr - free_nr == header->live_nr;
}

uint32_t python_pool_used(const uint64_t *word, uint32_t pool_bytes)
{
	struct pool_header header;

	memcpy(&header, word, sizeof(header));
	if (!header.live_nr)
		return PYTHON_POOL_HEADER;
	return header.next_offset < pool_bytes ? header.next_offset : pool_bytes;
}

bool python_pool_read(const uint64_t *word, uint64_t address, uint32_t pool_bytes, struct python_pool *ret)
{
	struct pool_header header;

	memcpy(&header, word, sizeof(header));
	memset(ret, 0, sizeof(*ret));
	if (!header.live_nr)
		return true;
	if (pool_bytes > PYTHON_POOL_MOST || header.class >= PYTHON_POOL_CLASSES || header.next_offset < PYTHON_POOL_HEADER ||
	    header.next_offset > pool_bytes)
		return false;
	ret->block_bytes = (header.class + 1) * PYTHON_BLOCK_STEP;
	ret->live_nr = header.live_nr;
	ret->used_end = header.next_offset;
	return mark_free_blocks(word, address, &header, ret);
}
