/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_PYTHON_HOOKS_H
#define ALLOCSNAP_EXACT_PYTHON_HOOKS_H

/*
 * The file that is put into a CPython that runs (python_hooks.c): functions that stand in the tables of its allocators, in
 * front of the ones that were there, and enter each block into the books (books.h). Only data is changed: 12 pointers, and
 * from 3.13 on the one to the function that CPython calls when an object begins or ends.
 *
 * The injector maps the file and the books, fills in the struct `python_hooks`, sets `python_hooks_on` to 1, and writes the
 * pointers: free first, then realloc, calloc, malloc, so that each block that is entered has a free that sees it; objects last.
 *
 * The file has no relocations, calls no library, makes no system calls, uses no floating point, takes no locks that a
 * thread could wait for, and allocates nothing.
 */

#include <stdint.h>

#include "shared/python_types.h"

struct python_hooks {
	uint64_t books;	      /* where they are mapped */
	uint64_t key_at;      /* 8 bytes there: whether the key of the thread state is in force, and its number */
	uint64_t key_is;      /* what they have to be */
	uint64_t state_at;    /* the thread state of a thread: bytes behind its thread pointer; glibc's sequence number of the key is in front */
	uint64_t key_sequence; /* the highest of these that was seen: a key that was deleted and made again has a higher one; 0: none */
	uint64_t finalizing_at; /* 8 bytes there: the state that ends the interpreter. All others are freed by then; 0: none */
	struct python_offsets offsets;
	uint64_t old[PYTHON_DOMAIN_NR][PYTHON_OPERATION_NR]; /* the functions that were there */
	uint64_t old_tracer; /* the one that was called when objects began; 0: none */
};

/* glibc's number of a thread: 4 bytes so far behind its thread pointer (nptl/descr.h, struct pthread). The injector checks it. */
#define PYTHON_HOOKS_TID_AT 0x2d0

/*
 * A page of its own, private and anonymous, with MADV_WIPEONFORK: a child has 0 there, so its hooks only pass on, and the
 * books belong to one process.
 */
#define PYTHON_HOOKS_ON_BYTES 4096

#endif
