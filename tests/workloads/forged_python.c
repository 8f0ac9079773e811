// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * forged_python [tables]: says that it is CPython 3.12, and lies. Its structures have the offsets of that version.
 *
 *	forge WHAT	from now on a lie: honest, frames, names, lines, pools, key, codes
 *	call N		N objects of 24 bytes are allocated; each second one is freed again
 *
 * With "tables" its tables of allocators go in a circle from the beginning on.
 */

#include <pthread.h>
#include <stdint.h>

#include "workload.h"

#define POOL_BYTES 16384
#define BLOCK_BYTES 32 /* objects of 24 bytes */
#define CLASS (BLOCK_BYTES / 16 - 1)
#define CODES_MAX 4000
#define LIE (1ULL << 30)

const unsigned long Py_Version = 0x030c01f0;
char _PyRuntime[8192];

struct allocator {
	void *context;
	void *(*malloc)(void *context, size_t size);
	void *(*calloc)(void *context, size_t nr, size_t size);
	void *(*realloc)(void *context, void *block, size_t size);
	void (*free)(void *context, void *block);
};

struct pool {
	uint64_t ref;
	char *freeblock;
	struct pool *nextpool, *prevpool;
	uint32_t arena, class, next, max;
};

struct string {
	uint64_t refs, type, length, hash, state;
	char characters[216];
};

struct bytes {
	uint64_t refs, type, length, hash;
	char bytes[224];
};

static char interpreter[16384], thread_state[256], frames[2][128];
static char codes[CODES_MAX][256];
static void *cframe;
static _Alignas(POOL_BYTES) char arena[64 * POOL_BYTES];
static struct pool other_pool;
static struct string file_name = { .length = 8, .state = 1 << 2 | 1 << 6, .characters = "lies.py" };
static struct bytes lines = { .length = 4 };
static uint32_t code_nr = 1;

/* ---- the allocators ---- */

static void *forged_malloc(void *context, size_t size);
static void *forged_calloc(void *context, size_t nr, size_t size);
static void *forged_realloc(void *context, void *block, size_t size);
static void forged_free(void *context, void *block);

static struct allocator raw = { NULL, forged_malloc, forged_calloc, forged_realloc, forged_free };
static struct allocator objects = { NULL, forged_malloc, forged_calloc, forged_realloc, forged_free };

/* The next block of the only pool that was never in use. */
SITE static void *forged_malloc(void *context, size_t size)
{
	struct pool *pool = (struct pool *)arena;
	char *block = pool->freeblock;

	if (context == arena || size > BLOCK_BYTES)
		return NULL;
	pool->freeblock = block + BLOCK_BYTES < arena + POOL_BYTES ? block + BLOCK_BYTES : arena + sizeof(*pool);
	return block;
}

SITE static void *forged_calloc(void *context, size_t nr, size_t size)
{
	return context == arena ? NULL : arena + nr + size;
}

SITE static void *forged_realloc(void *context, void *block, size_t size)
{
	return context == arena ? NULL : (char *)block + size;
}

SITE static void forged_free(void *context, void *block)
{
	if (context == arena)
		_exit(block != NULL);
}

SITE void *PyMem_RawMalloc(size_t size) { return raw.malloc(raw.context, size); }
SITE void *PyMem_Malloc(size_t size) { return objects.malloc(objects.context, size); }
SITE void *PyObject_Malloc(size_t size) { return objects.malloc(objects.context, size); }
SITE void PyObject_Free(void *block) { objects.free(objects.context, block); }

/* ---- its structures ---- */

static void put(char *where, size_t offset, const void *what)
{
	memcpy(where + offset, &what, sizeof(what));
}

static void put_number(char *where, size_t offset, uint64_t what, size_t bytes)
{
	memcpy(where + offset, &what, bytes);
}

static void begin_frame(char *frame, const char *code, const char *back)
{
	put(frame, 0, code);
	put(frame, 8, back);
	put(frame, 56, code + 192);
}

static void begin_code(char *code, uint32_t line)
{
	put_number(code, 68, line, 4);
	put(code, 112, &file_name);
	put(code, 128, &file_name);
	put(code, 136, &lines);
}

static void begin_pools(void)
{
	struct pool *pool = (struct pool *)arena;

	for (size_t i = 0; i < 64; i++)
		put(interpreter, 3960 + 8 * i, (char *)&other_pool - 16); /* as CPython does it: it is its own next one */
	*pool = (struct pool){ .freeblock = arena + sizeof(*pool), .nextpool = &other_pool, .class = CLASS };
	put(interpreter, 3960 + 16 * CLASS, pool);
}

static void begin_honest(pthread_key_t key)
{
	for (uint32_t i = 0; i < CODES_MAX; i++)
		begin_code(codes[i], i + 1);
	begin_frame(frames[0], codes[0], frames[1]);
	begin_frame(frames[1], codes[0], NULL);
	cframe = frames[0];
	put(thread_state, 56, &cframe);
	put(thread_state, 16, interpreter);
	put(_PyRuntime, 48, interpreter);
	put_number(_PyRuntime, 1548, key, 4);
	file_name.length = 7;
	lines.length = 4;
	code_nr = 1;
	begin_pools();
}

static void forge(const char *what)
{
	if (!strcmp(what, "frames"))
		begin_frame(frames[1], codes[0], frames[0]);
	else if (!strcmp(what, "names"))
		file_name.length = LIE;
	else if (!strcmp(what, "lines"))
		lines.length = LIE;
	else if (!strcmp(what, "pools"))
		put_number(interpreter, 3960 + 16 * CLASS, ~0xfffULL, 8);
	else if (!strcmp(what, "key"))
		put_number(_PyRuntime, 1548, UINT32_MAX, 4);
	else if (!strcmp(what, "codes"))
		code_nr = CODES_MAX;
}

/* Retires the number of each code object, so that the next frame reports it anew. */
static void forget_codes(void)
{
	for (uint32_t i = 0; i < CODES_MAX; i++)
		PyObject_Free(codes[i]);
}

static void call(unsigned long nr)
{
	for (unsigned long i = 0; i < nr; i++) {
		void *block;

		begin_frame(frames[0], codes[i % code_nr], frames[1]);
		block = PyObject_Malloc(24);
		if (i % 2)
			PyObject_Free(block);
	}
}

int main(int argc, char **argv)
{
	const char *command;
	pthread_key_t key;

	if (pthread_key_create(&key, NULL) || pthread_setspecific(key, thread_state))
		return 1;
	begin_honest(key);
	if (argc > 1 && !strcmp(argv[1], "tables"))
		raw.context = objects.context = &raw;
	ready();
	while (strcmp(command = next_command(), "quit")) {
		if (!strncmp(command, "forge ", 6)) {
			begin_honest(key);
			forget_codes();
			forge(command + 6);
		}
		if (!strncmp(command, "call ", 5))
			call(strtoul(command + 5, NULL, 10));
		answer("{\"done\": {}}");
	}
	return 0;
}
