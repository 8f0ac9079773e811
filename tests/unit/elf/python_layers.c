// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/reason.h"
#include "elf/python/python_layers.h"
#include "skip.h"

/* Layers of allocators: in memory that is made here, and in real processes. */

/* ---- made ---- */

#define BIAS 0x10000000u
#define TEXT 0x1000u
#define DATA 0x4000u
#define DATA_WORDS 64

static const struct python_info made_info = {
	.text_start = TEXT, .text_end = TEXT + 0x1000, .data_start = DATA, .data_end = DATA + 8 * DATA_WORDS,
	.table = { DATA, DATA, DATA },
};

static int read_made(void *process, uint64_t address, void *to, size_t bytes)
{
	uint64_t at = address - BIAS - DATA;

	if (at > 8 * DATA_WORDS || bytes > 8 * DATA_WORDS - at)
		return -EFAULT;
	memcpy(to, (char *)process + at, bytes);
	return 0;
}

/* Writes a table to a word; its functions lie from `code` on. */
static void put_table(uint64_t *data, size_t word, uint64_t context, uint64_t code)
{
	data[word] = context;
	for (int i = 0; i < PYTHON_OPERATION_NR; i++)
		data[word + 1 + i] = BIAS + code + 16 * i;
}

#define AT_WORD(nr) (BIAS + DATA + 8 * (nr))

static int read_layers_of(uint64_t *data, struct python_layers *ret, struct reason *why)
{
	const struct python_memory memory = { data, read_made };

	return python_layers_read(&made_info, BIAS, PYTHON_OBJECT, &memory, ret, why);
}

Test(python_layers, one)
{
	uint64_t data[DATA_WORDS] = {}, asked[PYTHON_OPERATION_NR];
	struct python_layers layers;

	put_table(data, 0, 0, TEXT);
	cr_assert_eq(read_layers_of(data, &layers, NULL), 0);
	cr_expect_eq(layers.nr, 1);
	cr_expect_eq(layers.layer[0].kind, PYTHON_LAYER_PLAIN);
	python_layers_asked(&layers, BIAS, asked);
	cr_expect_eq(asked[PYTHON_FREE], TEXT + 48);
}

Test(python_layers, tracemalloc_before_debug_hooks)
{
	uint64_t data[DATA_WORDS] = {}, asked[PYTHON_OPERATION_NR];
	struct python_layers layers;

	put_table(data, 0, AT_WORD(8), TEXT + 0x100);
	put_table(data, 8, AT_WORD(16), TEXT + 0x200);
	data[16] = 'o';
	put_table(data, 17, 0, TEXT + 0x300);
	cr_assert_eq(read_layers_of(data, &layers, NULL), 0);
	cr_assert_eq(layers.nr, 3);
	cr_expect_eq(layers.layer[0].kind, PYTHON_LAYER_TRACEMALLOC);
	cr_expect_eq(layers.layer[1].kind, PYTHON_LAYER_DEBUG);
	cr_expect_eq(layers.layer[2].kind, PYTHON_LAYER_PLAIN);
	cr_expect_eq(layers.recorded, 1);
	python_layers_asked(&layers, BIAS, asked);
	cr_expect_eq(asked[PYTHON_MALLOC], TEXT + 0x200);
}

Test(python_layers, unreadable_context)
{
	uint64_t data[DATA_WORDS] = {};
	struct python_layers layers;

	put_table(data, 0, 0x123456789a8, TEXT);
	cr_assert_eq(read_layers_of(data, &layers, NULL), 0);
	cr_expect_eq(layers.layer[0].kind, PYTHON_LAYER_PLAIN);
}

static void expect_layers_refused(uint64_t *data, const char *text)
{
	struct python_layers layers;
	struct reason why = {};

	cr_expect_eq(read_layers_of(data, &layers, &why), -ENOTSUP);
	cr_expect_str_eq(why.text, text);
}

Test(python_layers, foreign_functions)
{
	uint64_t data[DATA_WORDS] = {};

	put_table(data, 0, 0, TEXT);
	data[2] = BIAS + TEXT + 0x1000;
	expect_layers_refused(data, "Python's obj allocator was replaced by functions of another file");
	put_table(data, 0, 0, 0x100000);
	expect_layers_refused(data, "Python's obj allocator was replaced by functions of another file");
}

Test(python_layers, circle)
{
	uint64_t data[DATA_WORDS] = {};

	put_table(data, 0, AT_WORD(8), TEXT);
	put_table(data, 8, AT_WORD(0), TEXT);
	expect_layers_refused(data, "Python's obj allocator has more than 8 layers");
}

Test(python_layers, unreadable_table)
{
	const struct python_memory memory = { NULL, read_made };
	struct python_info info = made_info;
	struct python_layers layers;

	info.table[PYTHON_RAW] = DATA + 8 * DATA_WORDS - 8;
	cr_expect_eq(python_layers_read(&info, BIAS, PYTHON_RAW, &memory, &layers, NULL), -EFAULT);
}

/* ---- real ---- */

static int read_process(void *process, uint64_t address, void *to, size_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)address, bytes };

	return process_vm_readv(*(pid_t *)process, &local, 1, &remote, 1, 0) == (ssize_t)bytes ? 0 : -EFAULT;
}

#define WAITING "-c 'import os, sys, time; print(os.getpid(), id(type)); sys.stdout.flush(); time.sleep(1000)'"

/* The layers of a domain in /usr/bin/python3 with these settings. */
static struct python_layers layers_of_run(const char *settings, enum python_domain domain)
{
	struct python_layers layers;
	struct python_info info;
	struct reason why = {};
	unsigned long type;
	char command[256];
	FILE *pipe;
	int fd, pid, err;

	fd = open("/usr/bin/python3", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || python_info_read(fd, NULL, &info, NULL) || *info.fault)
		skip_because("/usr/bin/python3 is no CPython in one file");
	snprintf(command, sizeof(command), "exec env %s /usr/bin/python3 " WAITING, settings);
	pipe = popen(command, "r");
	cr_assert(pipe && fscanf(pipe, "%d %lu", &pid, &type) == 2);
	err = python_layers_read(&info, type - info.type_type, domain,
				 &(struct python_memory){ &pid, read_process }, &layers, &why);
	kill(pid, SIGKILL);
	pclose(pipe);
	close(fd);
	python_info_release(&info);
	cr_assert_eq(err, 0, "%s: %s", settings, why.text);
	return layers;
}

Test(python_layers, pymalloc)
{
	struct python_layers layers = layers_of_run("A=1", PYTHON_OBJECT);

	cr_expect_eq(layers.nr, 1);
	cr_expect_eq(layers.recorded, 0);
}

Test(python_layers, tracemalloc)
{
	struct python_layers plain = layers_of_run("PYTHONMALLOC=malloc", PYTHON_RAW);
	struct python_layers layers = layers_of_run("PYTHONMALLOC=malloc PYTHONTRACEMALLOC=1", PYTHON_OBJECT);

	cr_expect_eq(layers.nr, 2);
	cr_expect_eq(layers.layer[0].kind, PYTHON_LAYER_TRACEMALLOC);
	cr_expect_eq(layers.recorded, 1);
	cr_expect_eq(layers.layer[1].function[PYTHON_FREE], plain.layer[0].function[PYTHON_FREE]);
}

Test(python_layers, debug_hooks)
{
	struct python_layers layers = layers_of_run("PYTHONMALLOC=debug PYTHONTRACEMALLOC=1", PYTHON_MEM);

	cr_expect_eq(layers.nr, 3);
	cr_expect_eq(layers.layer[0].kind, PYTHON_LAYER_TRACEMALLOC);
	cr_expect_eq(layers.layer[1].kind, PYTHON_LAYER_DEBUG);
	cr_expect_eq(layers.layer[2].kind, PYTHON_LAYER_PLAIN);
	cr_expect_eq(layers.recorded, 1);
}

/* States of threads in memory that is made here. */

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

	bool is_found;
	const char *fault = python_states_check(&states_info, BIAS, &memory, &is_found);

	cr_expect(!fault || !is_found);
	return fault ?: is_found ? "found" : "none";
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
		cr_expect_str_eq(check_world(&world), "none", "key %u", keys[i]);
		world.state[1].thread = 0x1000;
		cr_expect_str_eq(check_world(&world), "none", "its memory is gone, too");
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
	cr_expect_str_eq(check_world(&world), "none");
	make_world(&world, 0);
	world.key.is_made = 0;
	world.table[1] = 0;
	cr_expect_str_eq(check_world(&world), "none");
}

Test(python_states, circle)
{
	struct python_world world;

	make_world(&world, 40);
	world.state[1].next = address_in(&world, &world.state[0]);
	world.table[2 * 8 + 1] = 0;
	cr_expect_str_eq(check_world(&world), "the states of its threads are not where glibc keeps them");
}
