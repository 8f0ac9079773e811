/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef FAKE_PYTHON_H
#define FAKE_PYTHON_H

/* A CPython in our own memory: pools, frames, code objects, and the places where its allocators are called. */

#include "target.h"
#include <bpf/bpf_helpers.h>
#include <stddef.h>
#include <string.h>

#include "shared/python_calls.h"

#define POOL 4096
#define ARENA (8 * POOL)
#define CLASSES 32

struct pool {
	__u64 ref, freeblock, nextpool, prevpool;
	__u32 arenaindex, szidx, nextoffset, maxnextoffset;
};

struct arena_object {
	__u64 address, pool_address;
	__u32 nfreepools, ntotalpools;
	__u64 freepools, nextarena, prevarena;
};

struct code {
	__u64 type, filename, name, lines;
	int first_line, first_traceable;
	__u16 instruction[64];
};

struct frame {
	__u64 code, back, instruction;
	__u8 owner;
};

struct string {
	__u64 length;
	__u32 state, pad;
	char characters[64];
};

struct bytes {
	__u64 length;
	char bytes[2000];
};

struct object {
	__u64 references, type;
};

struct type {
	char before[168];
	__u64 flags;
};

enum { ROW_MALLOC = 0, ROW_CALLOC, ROW_REALLOC, ROW_FREE, ROW_CREATION, ROW_RAW, ROW_TRACK, ROW_UNTRACK,
       ROW_POOL_OPEN, ROW_POOL_CLOSE, ROW_CODE_END, ROW_HOOK, ROW_HOOK_FREE, ROW_NR };

extern char arena[ARENA];
extern struct arena_object arenas[3]; /* the second one is in use */
extern __u64 usable_arenas;
extern __u64 used_pools[2 * CLASSES];
extern struct thread_state {
	__u64 frame, interpreter;
} thread_state;
extern __u64 main_interpreter;
extern struct frame frames[600];
extern struct code codes[2];
extern struct string file_name, code_name;
extern struct bytes line_table;
extern struct python_call python_calls[PYTHON_CALLS_MAX];
extern struct python_offsets python_layout; /* what python_tell() writes: with frames that C code owns */
extern volatile struct settings settings; /* see bpf_alloc.c */

void pool_make(struct pool *pool, __u32 class);
struct pool *pool_at(unsigned int nr);
void pool_use(struct pool *pool, __u32 class); /* as the one that its class gets blocks from */
__u64 *free_list(__u32 class); /* the head of the list that a class gets its blocks from */
void frames_make(unsigned int nr); /* of the two code objects in turn */

/* The thread state of the thread, or 0. */
void thread_state_use(__u64 state);

/* The state that holds the GIL: of another interpreter, if it is not the thread's. */
void thread_state_runs(__u64 state);

/* The key of the thread states. No thread has one then. */
void thread_state_key(int is_made, __u32 number);

/* Writes the layout of Python for the kernel side. */
void python_tell(void);

/* One arena, no pool in use, and a thread with one frame. */
void python_begin_world(bool tells);

/* A thread comes by a place. */
void pass_place(__u32 row, struct pt_regs regs);
void object_malloc(__u64 size);
void object_realloc(__u64 pointer, __u64 size);
void object_free(__u64 pointer);
void raw_malloc(__u64 size);
void object_begins(__u64 object);
void pool_opens(__u64 pool, __u64 class);
void pool_closes(__u64 pool);

/* A function of the C library. Returns whether its return was awaited. */
bool heap_call(enum call_shape shape, __u64 first, __u64 second, __u64 returned);

struct traceback *traceback_of(__u64 address);

#define ZF 64

#define LIVE(address, bytes) \
	do { \
		const struct block *block_ = block_in(process, LAYER_POOL, address); \
		cr_expect(block_ && block_->size == (bytes), #address " is not live with " #bytes); \
		cr_expect(!block_ || block_->domain == DOMAIN_PYTHON, #address " is in another domain"); \
	} while (0)
#define GONE(address) cr_expect(!block_in(process, LAYER_POOL, address), #address " is still live")

#endif
