/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_MALLOC_HOOKS_H
#define ALLOCSNAP_EXACT_MALLOC_HOOKS_H

/*
 * The file that is put into a process that runs (malloc_hooks.c): hooks at the entries of its allocators' functions, as the
 * sampler's (sampler/injected.h), but each call is recorded. The injector fills in the struct `malloc_hooks`.
 */

#include <stdint.h>

struct malloc_hooks {
	uint64_t books;		 /* where they are mapped */
	uint64_t main_stack_end; /* an address at the end of the main thread's stack (AT_RANDOM) */
	uint64_t tid_at;	 /* 4 bytes so far behind the thread pointer: the number of the thread. The injector checks it */
	uint64_t main_pointer;	 /* the main thread's thread pointer; 0: it has ended */
	uint64_t may_call;	 /* no thread was under seccomp: hooks may make system calls (native_walk.h) */
};

#endif
