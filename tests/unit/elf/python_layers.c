// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Layers of allocators: in memory that is made here, and in real processes. */
#include "elf/python/python_layers.h"

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
#include "skip.h"

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
