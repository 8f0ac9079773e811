/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CENSUS_CENSUS_H
#define ALLOCSNAP_CENSUS_CENSUS_H

/*
 * The blocks in the heaps of a process now, from the allocators' own structures: nothing was recorded, and the process is
 * not stopped. A census is plain numbers. Its JSON (census_json.h) is also how the process without privileges, which
 * reads the memory (census.c), sends it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/reason.h"

struct census_count {
	uint64_t count, bytes; /* bytes of whole chunks, with their headers */
};

void census_add_count(struct census_count *to, const struct census_count *more);

/* X(NAME, name): the state of a chunk; free chunks by the list that they are in. */
#define CENSUS_STATES(X) \
	X(IN_USE, in_use) \
	X(TCACHE, tcache) /* of a thread */ \
	X(FASTBINS, fastbins) \
	X(UNSORTED, unsorted) \
	X(SMALL, small) \
	X(LARGE, large) \
	X(TOP, top) /* the end of the arena */

enum census_state {
#define X(NAME, name) CENSUS_##NAME,
	CENSUS_STATES(X)
#undef X
	CENSUS_STATE_NR,
};

/* X(NAME, name, text): what the census does not know, or had to read again. */
#define CENSUS_LOSSES(X) \
	X(CHUNKS_MOVED, chunks_moved, "chunks that changed while they were read") \
	X(LISTS_BROKEN, lists_broken, "free lists that could not be followed to their end: their chunks count as in use or as binned") \
	X(BYTES_UNWALKED, bytes_unwalked, "bytes of heaps whose chunks could not be told apart") \
	X(ARENAS_REFUSED, arenas_refused, "arenas that do not look like glibc's") \
	X(MMAPPED_UNSEEN, mmapped_unseen, "chunks with a mapping of their own that were not found: only their sum is known") \
	X(POOLS_MOVED, pools_moved, "pools of Python that changed while they were read") \
	X(PAGES_UNKNOWN, pages_unknown, "pages of which it is not known whether they are resident") \
	X(RESIDENT_MOVED, resident_moved, "bytes by which its resident memory changed while it was read: elsewhere is wrong by up to so many")

enum census_loss {
#define X(NAME, name, text) CENSUS_LOSS_##NAME,
	CENSUS_LOSSES(X)
#undef X
	CENSUS_LOSS_NR,
};

/* Size classes of chunks: each size up to 1,040 bytes, those with a tcache; then by powers of two. */
#define CENSUS_EXACT_CLASSES 64
#define CENSUS_CLASS_NR (CENSUS_EXACT_CLASSES + 37)
size_t census_class_of(uint64_t chunk_bytes);
uint64_t census_class_most(size_t class); /* the largest chunk in it */

struct census_class {
	struct census_count in_use, cached, free; /* cached: tcache and fastbins */
};

struct census_arena {
	uint64_t address;
	uint64_t is_main;
	uint64_t heap_nr;	 /* ranges of memory; 1 in the main arena */
	uint64_t system_bytes;	 /* what glibc says the arena has from the system: the sum of all states and the next two */
	uint64_t overhead_bytes; /* headers of heaps, the arena itself */
	uint64_t unwalked_bytes;
	uint64_t resident_bytes;
	uint64_t absent_bytes;	  /* whole pages in free chunks that are not resident */
	uint64_t trimmable_bytes; /* whole resident pages in free chunks: malloc_trim(0) gives them back */
	struct census_count state[CENSUS_STATE_NR];
	struct census_class class[CENSUS_CLASS_NR];
};

/* Chunks with a mapping of their own. */
struct census_mmapped {
	struct census_count told;  /* by glibc's counters */
	struct census_count found; /* of these, in the maps */
	struct census_count class[CENSUS_CLASS_NR];
};

#define CENSUS_NAME_MAX 64
#define CENSUS_ARENAS_MAX 4096

/* Objects of a type of Python in its small blocks; "": blocks in which no object begins. */
struct census_type {
	char name[CENSUS_NAME_MAX];
	struct census_count blocks;
};

/* Small objects of a CPython, in arenas of its own (pymalloc.h); larger ones are in glibc's heap. */
#define CENSUS_PYTHON_CLASSES 32 /* of 16 bytes each */

struct census_python {
	char version[16]; /* "": the process is no CPython */
	char why[128];	  /* why nothing is known, or "" */
	uint64_t arena_nr, used_pools;
	uint64_t system_bytes; /* of all arenas: the sum of the next five */
	uint64_t overhead_bytes, free_pool_bytes, unwalked_bytes;
	struct census_count in_use, free; /* blocks; free: in pools that have live ones */
	uint64_t resident_bytes;	  /* of all arenas */
	struct census_python_class {
		struct census_count in_use, free;
	} class[CENSUS_PYTHON_CLASSES];
	struct census_type *type; /* by name */
	size_t type_nr, type_alloc;
};

struct census {
	uint64_t pid;
	char name[CENSUS_NAME_MAX];
	uint64_t time_ns;	/* of the wall clock */
	uint64_t read_ns;	/* how long reading took */
	uint64_t resident_bytes; /* of the process, pages of files included */
	uint64_t has_mmapped;	 /* glibc's counters were found */
	struct census_arena *arena; /* main arenas first */
	size_t arena_nr, arena_alloc;
	struct census_mmapped mmapped;
	struct census_python python;
	uint64_t loss[CENSUS_LOSS_NR];
	char no_heap[CENSUS_NAME_MAX * 4]; /* why there is no arena, or "" */
};

/* A sum over all arenas. */
struct census_sum {
	struct census_count state[CENSUS_STATE_NR];
	struct census_class class[CENSUS_CLASS_NR];
	struct census_count in_use, free; /* in_use: with chunks that have a mapping of their own */
	uint64_t system_bytes, overhead_bytes, unwalked_bytes, resident_bytes, absent_bytes, trimmable_bytes;
};

/* Bytes that a census does not know the place of: not walked, or gone or new while it was read. */
uint64_t census_unknown_bytes(const struct census *census);

void census_add_up(const struct census *census, struct census_sum *ret);
void census_release(struct census *census);

/* Reads a process now. 0; -ESRCH, -EACCES, -EIO (the reader was given up), -ENOMEM, with a line in *why. */
struct census_options {
	uint64_t cpu_ns; /* the reader stops after this much CPU time, and counts what it has not read */
};
int census_take(pid_t pid, const struct census_options *options, struct census *ret, struct reason *why);

extern const char *const census_state_names[CENSUS_STATE_NR];
extern const char *const census_loss_names[CENSUS_LOSS_NR];
extern const char *const census_loss_texts[CENSUS_LOSS_NR];

/*
 * A census, or the change from one to another, as text or as JSON: what is in use, free and elsewhere, what that means,
 * then tables, of which text has at most `top` rows (0: all).
 */

#define CENSUS_DIFF_SCHEMA "allocsnap.census.diff/1"

/* Return 0 or a negative errno. */
int census_put(FILE *file, const struct census *census, uint64_t top, bool is_json);
int census_put_diff(FILE *file, const struct census *old, const struct census *new, uint64_t top, bool is_json);

#endif
