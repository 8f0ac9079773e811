// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/python/python_states.h"

#define STATES_MOST 1024 /* the list may change meanwhile */
#define THREAD_ALIGN 64	 /* of glibc's struct pthread */
#define STATE_NEXT 8	 /* the same from CPython 3.9 to 3.14 */

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

const char *python_states_check(const struct python_info *info, uint64_t bias, const struct python_memory *memory)
{
	struct {
		int is_made;
		uint32_t number;
	} key = {};
	uint64_t interpreter = read_state_word(memory, info->main_interpreter + bias), state, thread, found;
	bool are_elsewhere = false;

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
		if (found && read_state_word(memory, found + info->states.thread) == thread)
			return NULL;
		are_elsewhere |= !is_ended_thread(memory, thread);
		state = read_state_word(memory, state + STATE_NEXT);
	}
	return !are_elsewhere ? NULL : "the states of its threads are not where glibc keeps them";
}
