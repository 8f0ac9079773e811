// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * unwind_code LIBRARY OTHER: code that comes and goes, or that is in no file (unwind/library.c).
 *
 *	load		loads LIBRARY and keeps it
 *	through		one block of 401 bytes, allocated through LIBRARY
 *	lazy, bind	loads LIBRARY; calls a function, whose binding allocates 404 bytes
 *	turns		20 times, loads each in turn at the same address: blocks of 402, by OTHER of 405
 *	look		loads each once for a while, so that the loader learns of it
 *	jit		one block of 406 from code made here, with a frame pointer; its callee has none
 *	vast		maps 64 TiB, as if for code, at any address
 *	huge, moved	our own code is copied to anonymous memory in its place; a block of 407 through it
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/mman.h>

#include "unwind.h"

#define PAGE_BYTES 4096
#define TURNS 20
#define LOOK_MICROSECONDS 300000

typedef void through_fn(void (*call)(void));

static char *const *path;
static through_fn *stays;
static void *address_of_turns;

static through_fn *open_library(const char *name, void **ret_library)
{
	through_fn *through;

	*ret_library = dlopen(name, RTLD_NOW);
	through = *ret_library ? (through_fn *)dlsym(*ret_library, "through") : NULL;
	if (!through)
		_exit(1);
	return through;
}

static void load(void)
{
	void *library;

	stays = open_library(path[1], &library);
}

static void allocate_401(void)
{
	KEEP_BLOCK(401);
}

static void through(void)
{
	stays(allocate_401);
}

static void (*call_chosen)(void);

static void lazy(void)
{
	void *library = dlopen(path[1], RTLD_LAZY);

	call_chosen = library ? (void (*)(void))dlsym(library, "call_chosen") : NULL;
	if (!call_chosen)
		_exit(1);
}

/* The library resolves a function at its first call. */
SITE static void bind(void)
{
	call_chosen();
	STAYS_BEHIND(NULL);
}

static void allocate_402(void)
{
	KEEP_BLOCK(402);
}

static void allocate_405(void)
{
	KEEP_BLOCK(405);
}

/* The same address each time, or the test would prove nothing. */
SITE static void turn(const char *name, void (*call)(void))
{
	void *library;
	through_fn *found = open_library(name, &library);

	if (address_of_turns && address_of_turns != (void *)found)
		_exit(2);
	address_of_turns = (void *)found;
	found(call);
	dlclose(library);
}

static void turns(void)
{
	for (int i = 0; i < TURNS; i++) {
		turn(path[1], allocate_402);
		turn(path[2], allocate_405);
	}
}

static void wait_a_little(void)
{
	usleep(LOOK_MICROSECONDS);
}

static void look(void)
{
	turn(path[1], wait_a_little);
	turn(path[2], wait_a_little);
}

/* ---- code of no file ---- */

static void allocate_406(void)
{
	char buf[500];

	STAYS_BEHIND(buf);
	KEEP_BLOCK(406);
}

SITE static void jit(void)
{
	/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
	static const char code[] = "\x55\x48\x89\xe5\xff\xd7\x5d\xc3";
	void *memory = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		_exit(1);
	memcpy(memory, code, sizeof(code));
	mprotect(memory, PAGE_BYTES, PROT_READ | PROT_EXEC);
	((through_fn *)memory)(allocate_406);
}

static void vast(void)
{
	if (mmap(NULL, 1UL << 46, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0) == MAP_FAILED)
		_exit(1);
}

/* Code in a page of its own, like functions that compilers make with frame pointers. */
__asm__("\t.text\n"
	"\t.p2align 12\n"
	"in_page:\n"
	"\t.cfi_startproc\n"
	"\tpush %rbp\n"
	"\t.cfi_def_cfa_offset 16\n"
	"\t.cfi_offset %rbp, -16\n"
	"\tmov %rsp, %rbp\n"
	"\t.cfi_def_cfa_register %rbp\n"
	"\tcall *%rdi\n"
	"\tpop %rbp\n"
	"\t.cfi_def_cfa %rsp, 8\n"
	"\tret\n"
	"\t.cfi_endproc\n"
	"\t.p2align 12\n");
through_fn in_page;

static void allocate_407(void)
{
	KEEP_BLOCK(407);
}

/* As programs do that want their code in huge pages. */
static void huge(void)
{
	char *copy = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		_exit(1);
	memcpy(copy, (void *)in_page, PAGE_BYTES);
	mprotect(copy, PAGE_BYTES, PROT_READ | PROT_EXEC);
	if (mremap(copy, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)in_page) ==
	    MAP_FAILED)
		_exit(1);
}

SITE static void moved(void)
{
	in_page(allocate_407);
}

int main(int argc, char **argv)
{
	static const struct order orders[] = {
		{ "load", load },
		{ "through", through },
		{ "lazy", lazy },
		{ "bind", bind },
		{ "turns", turns },
		{ "look", look },
		{ "jit", jit },
		{ "vast", vast },
		{ "huge", huge },
		{ "moved", moved },
		{},
	};

	path = argc == 3 ? argv : NULL;
	ready();
	obey_orders(orders);
	return 0;
}
