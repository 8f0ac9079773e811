/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_UNWIND_UNWIND_TABLES_H
#define ALLOCSNAP_COLLECT_UNWIND_UNWIND_TABLES_H

/*
 * The unwind tables of the files that processes map, in the kernel's maps. The table of a file is built once,
 * when the file is first seen, and stays until no process maps the file. The tables use at most as many MiB as
 * the map unwind_slabs has entries, allocated one MiB at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "process/mappings.h"
#include "shared/unwind_types.h"

struct allocsnap_bpf;

/* Allocates words of an address space: first fit, and adjacent free ranges are merged. */

struct free_words {
	uint32_t at, nr;
};

/* Zeroed: all words are free. */
struct word_pool {
	uint32_t end; /* all words from here on are free */
	struct free_words *hole; /* free ranges below `end`, by address */
	size_t hole_nr, hole_alloc;
	struct free_words *left; /* still allocated; see word_pool_leave() */
	size_t left_nr, left_alloc;
};

/* Allocates nr words below `most`. Returns the first one, or -E2BIG. */
int64_t word_pool_take(struct word_pool *pool, uint32_t nr, uint64_t most);

/* Frees words. Without memory to note this, they stay allocated. */
void word_pool_give(struct word_pool *pool, uint32_t at, uint32_t nr);

/*
 * Frees words later, in word_pool_settle(), because a BPF program may be reading them. Without memory to note
 * this, they stay allocated.
 */
void word_pool_leave(struct word_pool *pool, uint32_t at, uint32_t nr);

/* Frees the words passed to word_pool_leave(): no program reads them any more. */
void word_pool_settle(struct word_pool *pool);

void word_pool_release(struct word_pool *pool);

/* The state of the table of objects->object[i]. */
enum unwind_table_state {
	UNWIND_TABLE_UNSEEN = 0,
	UNWIND_TABLE_THERE,
	UNWIND_TABLE_NONE,    /* the file has no call frame information, or is not a program */
	UNWIND_TABLE_MISSING, /* could not be built, or did not fit */
};

/* Zeroed: no tables, and all calls do nothing. */
struct unwind_tables {
	const struct allocsnap_bpf *bpf; /* NULL: tables are not used */
	uint64_t *slab[UNWIND_SLABS_MAX];
	uint32_t slab_nr;
	struct word_pool words; /* the words of all slabs, one slab after another */
	struct unwind_table_entry {
		enum unwind_table_state state;
		bool is_published;
		uint32_t words_at, word_nr; /* the words that the table occupies; word_nr 0: none */
		struct unwind_file file;
		struct unwind_object object; /* as in the kernel's map */
	} *entry; /* one for each object */
	size_t entry_nr, entry_alloc;
	uint64_t answered; /* requests of the kernel side answered so far */
	bool is_full;	   /* a table did not fit; set here, and cleared by the code that makes room */
};

/* Builds the missing tables of all files that a process maps. 0 or -ENOMEM. */
int unwind_tables_add(struct unwind_tables *tables, const struct mappings *mappings);

/*
 * Gives the kernel side the places where a process image maps files whose tables are published. Errors do not matter:
 * the kernel side finds missing entries itself. is_true: false deletes these entries again.
 */
void unwind_tables_tell(struct unwind_tables *tables, const struct mappings *mappings,
			uint64_t image, bool is_true);

/* The most entries that the kernel side can have for these addresses. */
uint64_t unwind_tables_regions(uint64_t start, uint64_t end);

/* Deletes all entries of an image, because it is not known where code has been mapped. */
void unwind_tables_forget_image(struct unwind_tables *tables, uint64_t image);

/* Deletes the entries for these addresses, because code has been mapped there. */
void unwind_tables_forget(struct unwind_tables *tables, uint64_t start, uint64_t end,
			  uint64_t image);

/*
 * Answers the kernel side, which asks for the tables of files that it does not find: new files, and files whose
 * numbers there differ from /proc/PID/maps (some file systems). mappings_of() returns the mappings of a process,
 * or NULL.
 */
void unwind_tables_answer(struct unwind_tables *tables,
			  const struct mappings *(*mappings_of)(void *what, pid_t pid), void *what);

/* Drops the table of objects->object[i]; it is built again when the next process maps the file. */
void unwind_tables_drop(struct unwind_tables *tables, uint32_t object);

/* Call when all programs that ran while tables were dropped have ended: then other tables can use the memory. */
void unwind_tables_settle(struct unwind_tables *tables);

/* How many of the files that a process maps have a missing table. */
uint64_t unwind_tables_missing(const struct unwind_tables *tables, const struct mappings *mappings);

void unwind_tables_release(struct unwind_tables *tables);

/*
 * The recorder's vDSO, if it has this many bytes. NULL: its size differs, or the recorder has none. The kernel gives all
 * 64-bit processes the same vDSO, but each process can write to its own copy, so it is never read from another process.
 */
const void *own_vdso(size_t bytes);

#endif
