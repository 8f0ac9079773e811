// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* States of threads in memory that is made here. */
#include "elf/python/python_layers.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define BIAS 0x10000000u
#define DATA 0x4000u

static const struct python_info states_info = {
	.tss_key = DATA + 4, .main_interpreter = DATA + 8, .states = { 16, 40 },
};

/* Two threads, one behind the other in the list; only the second one has its state where the key says. */
struct python_world {
	struct {
		int is_made;
		uint32_t number;
	} key;
	uint64_t interpreter;
	struct {
		uint64_t before[2], first;
	} main;
	struct {
		uint64_t previous, next, interpreter, pad[2], thread;
	} state[2];
	char control[2][0x800];
	uint64_t table[2 * GLIBC_KEYS_OF_TABLE];
};

static uint64_t address_in(const struct python_world *world, const void *what)
{
	return BIAS + DATA + ((const char *)what - (const char *)world);
}

static void put_pointer(struct python_world *world, uint64_t at, uint64_t value)
{
	memcpy((char *)world + (at - BIAS - DATA), &value, sizeof(value));
}

static int read_world(void *world, uint64_t address, void *to, size_t bytes)
{
	uint64_t at = address - BIAS - DATA;

	if (at > sizeof(struct python_world) || bytes > sizeof(struct python_world) - at)
		return -EFAULT;
	memcpy(to, (char *)world + at, bytes);
	return 0;
}

static void make_world(struct python_world *world, uint32_t key)
{
	*world = (struct python_world){ .key = { 1, key } };
	world->interpreter = address_in(world, &world->main);
	world->main.first = address_in(world, &world->state[0]);
	world->state[0].next = address_in(world, &world->state[1]);
	for (int i = 0; i < 2; i++)
		world->state[i].thread = address_in(world, world->control[i]);
	if (key >= GLIBC_KEYS_MAX)
		return;
	put_pointer(world, GLIBC_SPECIFIC_TABLE(world->state[1].thread, key), address_in(world, world->table));
	put_pointer(world, GLIBC_SPECIFIC_VALUE(address_in(world, world->table), key), address_in(world, &world->state[1]));
}

static const char *check_world(struct python_world *world)
{
	const struct python_memory memory = { world, read_world };

	return python_states_check(&states_info, BIAS, &memory) ?: "found";
}

Test(python_states, any_key_of_any_thread)
{
	static const uint32_t keys[] = { 0, 31, 32, 200, 1023 };
	struct python_world world;

	for (int i = 0; i < 5; i++) {
		make_world(&world, keys[i]);
		cr_expect_str_eq(check_world(&world), "found", "key %u", keys[i]);
		world.table[2 * (keys[i] % GLIBC_KEYS_OF_TABLE) + 1] = 0;
		cr_expect_str_eq(check_world(&world), "the states of its threads are not where glibc keeps them");
	}
	make_world(&world, GLIBC_KEYS_MAX);
	cr_expect_str_eq(check_world(&world), "the key of its threads' states is none of glibc's");
}

/* As glibc leaves a thread that has ended: no value, and no table but the one in the thread itself. */
static void end_thread(struct python_world *world, int nr)
{
	uint64_t thread = world->state[nr].thread;

	memset(world->control[nr], 0, sizeof(world->control[nr]));
	put_pointer(world, GLIBC_SPECIFIC_TABLE(thread, 0), thread + GLIBC_SPECIFIC_FIRST);
	put_pointer(world, thread + GLIBC_SPECIFIC_FIRST, 3); /* it had a value of that key */
}

Test(python_states, threads_that_have_ended_prove_nothing)
{
	static const uint32_t keys[] = { 3, 40 };
	struct python_world world;

	for (int i = 0; i < 2; i++) {
		make_world(&world, keys[i]);
		end_thread(&world, 0);
		end_thread(&world, 1);
		cr_expect_str_eq(check_world(&world), "found", "key %u", keys[i]);
		world.state[1].thread = 0x1000;
		cr_expect_str_eq(check_world(&world), "found", "its memory is gone, too");
		world.state[1].thread = 3;
		cr_expect_str_eq(check_world(&world), "the states of its threads are not where glibc keeps them", "no thread");
		make_world(&world, keys[i]);
		end_thread(&world, 0);
		end_thread(&world, 1);
		put_pointer(&world, GLIBC_SPECIFIC_VALUE(world.state[1].thread + GLIBC_SPECIFIC_FIRST, 7), 0x5000);
		cr_expect_str_eq(check_world(&world), "the states of its threads are not where glibc keeps them",
				 "it has other values");
	}
}

Test(python_states, state_of_another_thread)
{
	struct python_world world;

	make_world(&world, 40);
	world.state[1].thread = world.state[0].thread;
	cr_expect_str_eq(check_world(&world), "the states of its threads are not where glibc keeps them");
}

Test(python_states, python_that_has_not_begun)
{
	struct python_world world;

	make_world(&world, 40);
	world.main.first = 0;
	cr_expect_str_eq(check_world(&world), "found");
	make_world(&world, 0);
	world.key.is_made = 0;
	world.table[1] = 0;
	cr_expect_str_eq(check_world(&world), "found");
}

Test(python_states, circle)
{
	struct python_world world;

	make_world(&world, 40);
	world.state[1].next = address_in(&world, &world.state[0]);
	world.table[2 * 8 + 1] = 0;
	cr_expect_str_eq(check_world(&world), "the states of its threads are not where glibc keeps them");
}
