/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_PYTHON_INFO_H
#define ALLOCSNAP_ELF_PYTHON_INFO_H

/*
 * CPython in an ELF file: the program, or libpython. A process without privileges finds it out from the file's bytes.
 * It is plain numbers, so that they can be sent to a process with privileges.
 *
 * Addresses are the file's (vaddr): in a process the load bias is to be added.
 *
 * CPython calls its allocators through tables of pointers:
 *
 *	struct { void *ctx; malloc(ctx, size); calloc(ctx, count, size); realloc(ctx, pointer, size); free(ctx, pointer) }
 *
 * one for each domain. Profile-guided builds copy a function's body to where it is called often:
 *
 *	mov  _PyObject.malloc, %rdx
 *	cmp  $_PyObject_Malloc, %rdx
 *	jne  slow			◄── the place of the probe: with ZF set the copied body runs
 *	…
 * slow:	mov  %r14, %rsi			◄── so the size is what r14 holds at the jump
 *	call *%rdx
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "shared/argument_types.h"
#include "shared/python_types.h"

#define PYTHON_FAULT_MAX 128
#define PYTHON_SITES_MAX 4096
#define PYTHON_ALLOCATOR_BYTES 40 /* of one table: the context and four functions */

/* A place where an allocator's function is called, or begins, and how to read its arguments there. */
struct python_site {
	uint64_t vaddr;
	uint64_t offset;	 /* in the file */
	uint8_t operation;	 /* enum python_operation */
	uint8_t domain;		 /* enum python_domain; PYTHON_OBJECT for functions that mem has, too */
	uint8_t asks_zf;	 /* the call takes place if ZF is set at the probe; otherwise another function is in force, and its entry sees the call */
	uint8_t is_entry;	 /* of a function, not a copied body; the stack pointer may have moved since */
	uint8_t asks_letter;	 /* a debug hook of the raw domain, which the other domains' hooks call, too: the context says which */
	uint8_t pad[3];
	/* Where an operation has no such argument: constant 0. PYTHON_CREATION: the object is the pointer. PYTHON_TRACK and PYTHON_UNTRACK: the domain is in count. PYTHON_POOL_OPEN: the size class is the size. */
	struct argument_source size, count, pointer;
};

/* Places where pools are opened and closed, and code objects end, in place of calls. */
enum python_pools_asked {
	PYTHON_POOLS_NOT = 0,
	PYTHON_POOLS_AND_LARGE, /* calls of the domains mem and object are left out: large blocks pass the raw domain */
	PYTHON_POOLS_ONLY,	/* all calls */
	PYTHON_TRACKED_ONLY,	/* no pools either: what libraries report, and the ends of code objects */
};

/* The debug hooks that are in front of the file's own functions (python_layers.h): vaddrs in the same file; 0: no debug hook. */
struct python_asked {
	uint64_t function[PYTHON_DOMAIN_NR][PYTHON_OPERATION_NR];
	uint32_t creations; /* 1: the places where objects begin are wanted, too */
	uint32_t pools; /* enum python_pools_asked */
};

/* pymalloc's variables. P is the address of the state: 0 for static variables, which are addresses themselves. */
struct python_pools {
	uint64_t used_pools;	/* P + this: two pointers for each size class: usedpools[2 * class] is the pool's address */
	uint64_t usable_arenas; /* P + this: a pointer to a struct arena_object */
	uint64_t arenas;	/* P + this: a pointer to an array of them */
	uint64_t max_arenas;	/* P + this: its length, 4 bytes */
	uint32_t is_known;	/* 0: they were not found, all others are 0 */
	uint32_t in_interpreter; /* 0: static, P = load bias; 1: P = interpreter + state (3.12); 2: P = *(interpreter + state) (3.13 on) */
	uint32_t state;		/* offset in the interpreter */
	uint32_t pool_bytes;	/* 4096 until 3.9, then 16384 */
	uint32_t arena_bytes;	/* 256 KiB until 3.9, then 1 MiB */
	uint32_t pad;
};

/* Offsets in bytes: the first state of a thread in an interpreter; in a state, its thread (pthread_self). */
#define PYTHON_STATE_NEXT 8 /* in the state of a thread: the next one. The same from CPython 3.9 to 3.14 */

struct python_states {
	uint32_t first, thread;
};

struct python_info {
	struct python_version version;
	uint32_t is_hooked; /* the places belong to debug hooks: each block is larger than what they give out */
	char fault[PYTHON_FAULT_MAX]; /* why it cannot be recorded, in words, or ""; only version and runtime are valid then */
	uint64_t runtime;	      /* _PyRuntime */
	uint64_t table[PYTHON_DOMAIN_NR]; /* addresses of the three tables; each PYTHON_ALLOCATOR_BYTES */
	uint64_t function[PYTHON_DOMAIN_NR][PYTHON_OPERATION_NR]; /* what they hold in the file: in force if nothing was changed */
	uint64_t tss_key;	/* 4 bytes: the key of the thread state (pthread_getspecific); before it, 4 bytes: whether there is one */
	uint64_t main_interpreter; /* 8 bytes: the address of the main interpreter */
	struct python_states states;
	uint64_t tracer;	/* 8 bytes: the function that is called when objects begin or end (PyRefTracer_SetTracer); 0: not found, or before 3.13 */
	uint64_t type_type;	/* PyType_Type; 0: not exported */
	uint64_t text_start, text_end; /* the executable segment */
	uint64_t data_start, data_end; /* the writable one, with .bss */
	struct python_offsets offsets;
	struct python_pools pools;
	uint32_t site_nr;	/* sorted by vaddr, each once */
	uint32_t inlined_nr;	/* of these: copied bodies (not is_entry) */
	uint32_t unknown_nr;	/* places that look like copied bodies and were not understood: they are not seen */
	uint32_t creation_nr;	 /* places with PYTHON_CREATION */
	uint32_t creation_unknown_nr; /* other calls of what such places call: objects that begin there are not seen */
	struct python_site *site;
};

/*
 * 0, also with ret->fault: a CPython that cannot be recorded; -ENOENT no CPython; errors of elf_object__open(); -ENOMEM.
 * asked may be NULL.
 */
int python_info_read(int fd, const struct python_asked *asked, struct python_info *ret, struct reason *why);
void python_info_release(struct python_info *info);

/* Checks what another process sent, for a file of this size. */
bool python_info_is_sound(const struct python_info *info, uint64_t file_bytes);

/* The offsets of a version. False: it was never tested. */
bool python_offsets_of(struct python_version version, struct python_offsets *ret);

#endif
