/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_LEDGER_OWN_H
#define ALLOCSNAP_TESTS_LEDGER_OWN_H

/* Declarations that the files of the ledger share; no other program sees them. */

#include <stdbool.h>
#include <stddef.h>

#include "ledger.h"

/* The next definitions of the allocator's functions after our own. */
struct allocator {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t n, size_t size);
	void *(*realloc)(void *p, size_t size);
	void *(*reallocarray)(void *p, size_t n, size_t size);
	void *(*memalign)(size_t alignment, size_t size);
	void *(*aligned_alloc)(size_t alignment, size_t size);
	int (*posix_memalign)(void **p, size_t alignment, size_t size);
	void *(*valloc)(size_t size);
	void *(*pvalloc)(size_t size);
	void (*free)(void *p);
};

extern struct allocator next;
extern struct books *books; /* NULL: none are kept */
extern bool has_vforked; /* the ledger belongs to the memory, not to the process */

#define STOPS_MAX 7
extern uint64_t stop_after[STOPS_MAX + 1]; /* so many allocations, in order; 0: the end */

/* ---- begin.c ---- */

__attribute__((noreturn)) void die(const char *what);

/* Finds the allocator and opens the ledger. Call it before there are threads; a second call does nothing. */
void begin_books(void);

/* Whether the process is a fork of the one that began the ledger; begin_fork() begins its own. */
bool is_forked(void);
void begin_fork(void);

/* Memory for calls that come while the ledger looks for the allocator; it is never freed. */
void *early_malloc(size_t size);
bool is_early(const void *p);

/* ---- keep.c; `call` is the calling thread's ---- */

void record_allocation(struct ledger_call *call, void *p, uint64_t size);
void record_free(struct ledger_call *call, void *p);

/* Whether the block was there; its size. */
bool begin_realloc(void *p, uint64_t *ret_old_size);
void end_realloc(struct ledger_call *call, bool was_there, uint64_t old_size, void *p,
		 uint64_t size);

/* The thread ends. */
void forget_call(struct ledger_call *call);

#endif
