/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SAMPLER_INJECTED_H
#define ALLOCSNAP_SAMPLER_INJECTED_H

/*
 * The file that is put into a process that runs (injected.c, injected_hooks.S), and what the injector fills in. It has
 * room for INJECTED_SITES functions of the allocator; the site of each is chosen by its kind:
 *
 *	hook		the function's entry jumps here; the kind says how the common case is counted
 *	trampoline	the instructions that the jump replaces, and a jump behind them; written by the injector
 *	struct injected_site	read by the slow path
 *
 * The C preprocessor of the assembler reads the first part.
 */

#define INJECTED_MALLOC_SITES 32  /* p = f(size, …) */
#define INJECTED_CALLOC_SITES 8	  /* p = f(n, size) */
#define INJECTED_FREE_SITES 48	  /* f(p, …) */
#define INJECTED_OUTER_SITES 16	  /* p = f(size, …) that may call other functions with hooks */
#define INJECTED_OTHER_SITES 64	  /* always by the slow path */
#define INJECTED_SITES (INJECTED_MALLOC_SITES + INJECTED_CALLOC_SITES + INJECTED_FREE_SITES + INJECTED_OUTER_SITES + INJECTED_OTHER_SITES)

#define INJECTED_HOOK_BYTES 96
#define INJECTED_PLACE_SHIFT 4 /* COUNTDOWN_PLACE_SHIFT */
#define INJECTED_PLACE 80     /* bytes below the stack pointer at the hook: the place of a call (injected.c) */
#define INJECTED_SAVED_R10 16 /* bytes below the stack pointer, from a hook's first instruction on */
#define INJECTED_TRAMPOLINE_BYTES 64
#define INJECTED_SITE_BYTES 32

/* Countdowns: a place for each thread, by a hash of its thread pointer. Up to 4 threads may hash to the same one. */
#define INJECTED_SLOTS 4096
#define INJECTED_SLOT_SHIFT 5
#define INJECTED_SLOT_BYTES (1 << INJECTED_SLOT_SHIFT)
#define INJECTED_SLOT_HASH 0x9e3779b1

/* Offsets in struct injected_common. */
#define INJECTED_COMMON_SLOTS 0
#define INJECTED_COMMON_FILTER 8
#define INJECTED_COMMON_SLOW 16
#define INJECTED_COMMON_OUTER 24
#define INJECTED_COMMON_BYTES 32

#ifndef __ASSEMBLER__

#include <stddef.h>
#include <stdint.h>

enum injected_kind {
	INJECTED_MALLOC,
	INJECTED_CALLOC,
	INJECTED_FREE,
	INJECTED_OUTER,
	INJECTED_OTHER,
	INJECTED_KIND_NR,
};

enum injected_flag {
	INJECTED_OF_HEAP = 1, /* the first argument is a heap; the arguments of the shape follow it */
	INJECTED_THROWS = 2,  /* exceptions may leave the function, so no frame of ours may be below it */
	INJECTED_ABOVE = 4,   /* it may call another allocator of the process */
};

struct injected_site {
	uint64_t trampoline; /* its address in the process */
	uint64_t plain;	     /* if it throws: the trampoline of the same function with std::nothrow */
	uint32_t shape;	     /* enum call_shape */
	uint32_t flags;
	uint64_t nothrow_argument; /* the position of std::nothrow among the arguments of `plain` */
};

_Static_assert(sizeof(struct injected_site) == INJECTED_SITE_BYTES, "the hooks count on it");

/*
 * The first sampler of a process works for all: the others have only hooks and trampolines in use. So a block that one
 * allocator takes from another counts once, and any of them may free it. Addresses in the first sampler:
 */
struct injected_common {
	uint64_t slots;	 /* struct injected_slot[] */
	uint64_t filter; /* sampler/sampled_set.h */
	uint64_t slow, outer; /* code: injected_hooks.S */
};

_Static_assert(sizeof(struct injected_common) == INJECTED_COMMON_BYTES &&
	       offsetof(struct injected_common, slots) == INJECTED_COMMON_SLOTS &&
	       offsetof(struct injected_common, filter) == INJECTED_COMMON_FILTER &&
	       offsetof(struct injected_common, slow) == INJECTED_COMMON_SLOW &&
	       offsetof(struct injected_common, outer) == INJECTED_COMMON_OUTER, "the hooks count on it");

/*
 * The last pages of the sealed file, which are not mapped: all that an ejector needs. Members are only added at the end,
 * and only with a new version; those up to `page` stay where they are, as do the ones that only hooks have.
 */
#define INJECTED_MAGIC "asinject" /* eight characters, no NUL: a sampler */
#define INJECTED_HOOKS_MAGIC "ashook2" /* eight with the NUL: hooks of an exact recording (exact/python_hooks.h) */
#define INJECTED_VERSION 3
#define INJECTED_TABLE_BYTES 16384
#define INJECTED_PAGES_MAX 32
#define INJECTED_MOVED_MAX 760
#define INJECTED_SLOTS_MAX 65536 /* of any table */
#define INJECTED_WORDS_MAX 13

struct injected_table {
	char magic[8];
	uint32_t version;
	uint32_t page_nr;
	uint64_t start, end; /* all that is mapped for it, with the room for the allocator's own pages */
	uint64_t text_end;   /* code: [start, text_end) */
	int64_t owner;	     /* the process that ejects it, with the time when it began */
	uint64_t owner_start_time;
	uint64_t interval;
	uint64_t function_nr;
	struct {
		uint64_t address; /* of the allocator's page, for which a copy is mapped */
		uint64_t parked;  /* where the page itself is meanwhile */
	} page[INJECTED_PAGES_MAX];
	struct {
		uint64_t hook, entry; /* where the function jumps to, and the function: its first moved instruction */
	} function[INJECTED_SITES];
	/*
	 * struct injected_slot[], of which the last member is the depth of its thread's calls. Samplers that have the same
	 * belong together: none is unmapped while a thread is in one of them.
	 */
	uint64_t slots;
	uint64_t slot_nr;
	uint64_t moved_nr;
	struct {
		uint64_t from, to; /* an instruction of the allocator, and its copy in a trampoline */
	} moved[INJECTED_MOVED_MAX];
	uint64_t dev, inode, offset[INJECTED_PAGES_MAX]; /* of the allocator's file, and of each page in it */
	/* Only hooks have these. */
	uint64_t on; /* 8 bytes: 0, the hooks only pass on, as in a forked child, whose books are its parent's */
	uint64_t books_start, books_end; /* a second memory file, mapped in [start, end), or apart from it */
	uint64_t off_at; /* 8 bytes in it: BOOKS_OFF, the hooks only pass on */
	uint64_t inside_at, inside_step, inside_nr; /* words in it, of which one is not 0 while its thread is in a hook */
	uint64_t word_nr;
	struct {
		uint64_t address, put, was; /* a pointer of the process: to a hook, and what was there */
	} word[INJECTED_WORDS_MAX];	    /* in the order in which they are put; the way back is the reverse. There may be more one day */
};

_Static_assert(sizeof(struct injected_table) <= INJECTED_TABLE_BYTES, "it is some pages");

static inline int has_books_apart(const struct injected_table *table)
{
	return table->books_start && (table->books_start < table->start || table->books_start >= table->end);
}

#endif
#endif
