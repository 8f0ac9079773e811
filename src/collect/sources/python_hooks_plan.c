// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/python_hooks_plan.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/reason.h"
#include "collect/python/live_pools.h"
#include "collect/target/target.h"
#include "elf/python/python_info.h"
#include "elf/python/python_layers.h"
#include "inject/inject.h"

/* ---- its memory ---- */

static bool has_hooks_of_others(const struct target *target)
{
	struct inject_found found;
	struct reason ignored;

	return !inject_find(target->identity.pid, &found, &ignored) && found.is_active && found.kind != INJECT_SAMPLER;
}

/*
 * Whether the allocators in force are the file's own, or those with tracemalloc or debug hooks in front. NULL, or what is
 * in the way. Fills in the functions of debug hooks.
 */
static const char *find_hooks(struct target *target, const struct python_info *info, uint64_t bias, struct python_asked *ret)
{
	const struct python_memory memory = { target, target__read_memory };
	unsigned int debug_nr = 0;

	for (int domain = 0; domain < PYTHON_DOMAIN_NR; domain++) {
		struct python_layers layers;

		if (python_layers_read(info, bias, domain, &memory, &layers, NULL) && has_hooks_of_others(target))
			return "another recording has put its hooks in front of its allocators, and only that one has its blocks "
				"('allocsnap eject' takes them out if it has ended)";
		if (python_layers_read(info, bias, domain, &memory, &layers, NULL) || !layers.nr)
			return "functions of another file are in front of its allocators, or these cannot be read";
		if (layers.layer[layers.recorded].kind == PYTHON_LAYER_PLAIN)
			continue;
		if (!python_layers_debug_own(&layers, info, bias, domain))
			return "debug hooks are in front of other allocators than its own";
		python_layers_asked(&layers, bias, ret->function[domain]);
		debug_nr++;
	}
	return debug_nr % PYTHON_DOMAIN_NR ? "debug hooks are in front of some of its allocators only" : NULL;
}

const char *python_memory_fault(struct target *target, const struct python_info *info, uint64_t bias,
				     struct python_asked *ret, bool *ret_has_begun)
{
	const struct python_memory memory = { target, target__read_memory };
	const char *fault = python_states_check(info, bias, &memory, ret_has_begun);

	return find_hooks(target, info, bias, ret) ?: fault;
}

/* ---- hooks in its tables ---- */

/* The struct whose functions are to be replaced: the table itself, or what the context of tracemalloc in front leads to. */
static uint64_t table_of_layer(const struct python_layers *layers, uint64_t table)
{
	return layers->recorded ? layers->layer[layers->recorded - 1].context : table;
}

static int plan_words(struct target *target, const struct python_info *info, uint64_t bias, struct inject_python *ret,
		      struct reason *why)
{
	const struct python_memory memory = { target, target__read_memory };

	for (int domain = 0; domain < PYTHON_DOMAIN_NR; domain++) {
		struct python_layers layers;
		uint64_t table;
		int err = python_layers_read(info, bias, domain, &memory, &layers, why);

		if (err || !layers.nr)
			return err ?: reason_set(why, -EAGAIN, "the tables of Python's allocators cannot be read");
		table = table_of_layer(&layers, info->table[domain] + bias);
		for (int i = 0; i < PYTHON_OPERATION_NR; i++) {
			ret->word[domain][i].address = table + sizeof(uint64_t) * (1 + i);
			ret->word[domain][i].was = layers.layer[layers.recorded].function[i];
		}
	}
	return 0;
}

/* Objects in memory that a free list has kept have the line of the first one there, unless it is known when they begin. */
static int plan_tracer(struct target *target, uint64_t tracer, struct inject_python *ret, struct reason *why)
{
	ret->tracer.address = tracer;
	if (!tracer || !target__read_memory(target, tracer, &ret->tracer.was, sizeof(ret->tracer.was)))
		return 0;
	return reason_set(why, -EAGAIN, "the function that sees when Python's objects begin cannot be read");
}

#define STATES_ASKED 1024

/* From the values of any thread that has a state. 0: no thread has one. */
static uint64_t find_key_sequence(struct target *target, const struct python_info *info, uint64_t bias, uint64_t state_at)
{
	uint64_t interpreter, state, thread, value[2]; /* sequence number, state */

	if (target__read_memory(target, info->main_interpreter + bias, &interpreter, sizeof(interpreter)) ||
	    target__read_memory(target, interpreter + info->states.first, &state, sizeof(state)))
		return 0;
	for (int i = 0; i < STATES_ASKED && state; i++) {
		if (!target__read_memory(target, state + info->states.thread, &thread, sizeof(thread)) &&
		    !target__read_memory(target, thread + state_at - sizeof(*value), value, sizeof(value)) && value[1] == state)
			return value[0];
		if (target__read_memory(target, state + PYTHON_STATE_NEXT, &state, sizeof(state)))
			return 0;
	}
	return 0;
}

/*
 * In _PyRuntime, in front of struct pyinterpreters, which begins with a lock and the first interpreter: _finalizing, from 3.13 on with
 * the number of its thread behind.
 */
static int plan_finalizing(struct target *target, const struct python_info *info, uint64_t bias, struct python_hooks *ret, struct reason *why)
{
	uint64_t word;

	ret->finalizing_at = info->main_interpreter + bias - (info->version.minor < 13 ? 3 : 4) * sizeof(word);
	if (target__read_memory(target, ret->finalizing_at, &word, sizeof(word)))
		return reason_set(why, -EAGAIN, "the state of Python's runtime cannot be read");
	return word ? reason_set(why, -EINPROGRESS, "its Python is ending") : 0;
}

/* Where pthread_getspecific() would find the thread state, behind the thread pointer. */
static int plan_key(struct target *target, const struct python_info *info, uint64_t bias, struct python_hooks *ret, struct reason *why)
{
	uint64_t key_at = info->tss_key - 4 + bias;
	uint32_t key[2]; /* whether it is in force; its number */

	if (target__read_memory(target, key_at, key, sizeof(key)))
		return reason_set(why, -EAGAIN, "the key of Python's thread states cannot be read");
	if (key[0] != 1)
		return reason_set(why, -EINPROGRESS, "its Python has not begun yet, or is ending");
	if (key[1] >= GLIBC_KEYS_OF_TABLE)
		return reason_set(why, -ENOTSUP, "the key of Python's thread states is %u, and only %u are looked for", key[1],
				  GLIBC_KEYS_OF_TABLE);
	memcpy(&ret->key_is, key, sizeof(ret->key_is));
	ret->key_at = key_at;
	ret->state_at = GLIBC_SPECIFIC_FIRST + 16 * key[1] + 8;
	ret->key_sequence = find_key_sequence(target, info, bias, ret->state_at);
	return plan_finalizing(target, info, bias, ret, why);
}

/* Until 3.11 the key has a thread's first state, so the blocks of another interpreter would have frames of the main one. */
static bool has_other_interpreters(struct target *target, const struct python_info *info, uint64_t bias)
{
	uint64_t head_main[2]; /* of struct pyinterpreters (Include/internal/pycore_runtime.h) */

	return info->version.minor <= 11 &&
	       (target__read_memory(target, info->main_interpreter + bias - sizeof(*head_main), head_main, sizeof(head_main)) ||
		head_main[0] != head_main[1]);
}

int python_arenas(struct target *target, const struct python_info *info, uint64_t bias, uint64_t *ret_bytes)
{
	struct python_process where;

	python_process_make(info, bias, &where);
	return live_pools_arenas(&where, target__read_memory, target, ret_bytes);
}

static int plan_hooks(struct target *target, const struct found_python *place, bool is_first, struct inject_python *ret,
		      struct reason *why)
{
	const struct python_info *info = place->info;
	struct python_asked ignored = {};
	bool has_begun;
	const char *fault = python_memory_fault(target, info, place->bias, &ignored, &has_begun);

	if (!fault && has_other_interpreters(target, info, place->bias))
		fault = "it has more than one interpreter, and until CPython 3.11 their frames cannot be told apart";
	if (is_first && !has_begun)
		return -EINPROGRESS;
	if (fault)
		return reason_set(why, -ENOTSUP, "%s: %s", place->path, fault);
	*ret = (struct inject_python){
		.dev = place->dev, .inode = place->inode, .hooks.offsets = info->offsets, .tid_at = PYTHON_HOOKS_TID_AT,
	};
	return plan_key(target, info, place->bias, &ret->hooks, why) ?:
	       plan_words(target, info, place->bias, ret, why) ?:
	       plan_tracer(target, info->tracer ? info->tracer + place->bias : 0, ret, why);
}

int python_hooks_plan(struct target *target, const struct found_python *place, struct inject_python *ret, struct reason *why)
{
	return plan_hooks(target, place, false, ret, why);
}

/* Not with PYTHONMALLOC=malloc. */
static bool has_pools(struct target *target, const struct found_python *place)
{
	const struct python_memory memory = { target, target__read_memory };
	struct python_layers layers;

	return !python_layers_read(place->info, place->bias, PYTHON_OBJECT, &memory, &layers, NULL) && layers.nr &&
	       layers.layer[layers.nr - 1].function[PYTHON_MALLOC] ==
		       place->info->function[PYTHON_OBJECT][PYTHON_MALLOC] + place->bias;
}

/* The small blocks that are live by now, as its allocator's lists have them: no hook sees these. */
static void count_older(struct target *target, const struct found_python *place, struct inject_python *ret)
{
	struct python_process where;
	struct live_pools pools = {};
	bool is_known = has_pools(target, place);

	python_process_make(place->info, place->bias, &where);
	ret->planned_ns = monotonic_now_ns();
	is_known = is_known && !live_pools_read(&where, target__read_memory, target, &pools);
	ret->older_nr = is_known ? live_pools_sum(&pools, &ret->older_bytes) : UINT64_MAX;
	live_pools_release(&pools);
}

int python_hooks_plan_first(struct target *target, const struct found_python *place, struct inject_python *ret,
			    struct reason *why)
{
	int err = plan_hooks(target, place, true, ret, why);

	if (!err)
		count_older(target, place, ret);
	return err;
}

int python_hooks_arenas(struct target *target, const struct found_python *place, uint64_t *ret_bytes)
{
	return python_arenas(target, place->info, place->bias, ret_bytes);
}
