/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_UNWIND_TABLES_H
#define ALLOCSNAP_COLLECT_UNWIND_TABLES_H

/*
 * The unwind tables of the files that processes map, in the kernel's maps: each file's is made once, when
 * it is first seen, and stays until no process maps the file. They take as many MiB as the map
 * unwind_slabs has entries at most, in steps of one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/process/mappings.h"
#include "collect/unwind/unwind_cache.h"
#include "collect/unwind/word_pool.h"
#include "shared/unwind_types.h"

struct allocsnap_bpf;

/* What is known of objects->object[i]. */
enum unwind_table_state {
	UNWIND_TABLE_UNSEEN = 0,
	UNWIND_TABLE_THERE,
	UNWIND_TABLE_NONE,    /* the file has no call frame information, or is no program at all */
	UNWIND_TABLE_MISSING, /* could not be made, or did not fit */
};

/* Zeroed: none, and nothing is done. */
struct unwind_tables {
	const struct allocsnap_bpf *bpf; /* NULL: tables are not used */
	struct unwind_cache *cache;
	uint64_t *slab[UNWIND_SLABS_MAX];
	uint32_t slab_nr;
	struct word_pool words; /* of all slabs, one after another */
	struct unwind_table_entry {
		enum unwind_table_state state;
		bool is_published;
		uint32_t words_at, word_nr; /* that the table takes; word_nr 0: none */
		struct unwind_file file;
		struct unwind_object object; /* as the kernel has it */
	} *entry; /* of each object */
	size_t entry_nr, entry_alloc;
	uint64_t answered; /* of what the kernel's side has asked for */
	bool is_full;	   /* a table did not fit; set here, and cleared by whoever makes room */
};

/* The tables of all that a process maps, where they are not there yet. 0 or -ENOMEM. */
int unwind_tables_add(struct unwind_tables *tables, const struct mappings *mappings);

/*
 * What a process image maps, told to the kernel's side, as far as its tables are there. Needs no
 * answer: what it does not know it finds out. is_true: or it is taken back.
 */
void unwind_tables_tell(struct unwind_tables *tables, const struct mappings *mappings,
			uint64_t image, bool is_true);

/* How many entries the kernel's side has, at most, of what lies there. */
uint64_t unwind_tables_regions(uint64_t start, uint64_t end);

/* It is not known where code has been mapped: nothing that was told of the image holds any more. */
void unwind_tables_forget_image(struct unwind_tables *tables, uint64_t image);

/* Code has been mapped: what was told of these addresses holds no more. */
void unwind_tables_forget(struct unwind_tables *tables, uint64_t start, uint64_t end,
			  uint64_t image);

/*
 * The kernel's side asks for the tables of files that it does not find: new ones, and those that have
 * other numbers there than in /proc/PID/maps (some file systems). mappings_of() gives what a process
 * maps, or NULL.
 */
void unwind_tables_answer(struct unwind_tables *tables,
			  const struct mappings *(*mappings_of)(void *what, pid_t pid), void *what);

/* The table of objects->object[i] goes; the next process that maps the file has it made anew. */
void unwind_tables_drop(struct unwind_tables *tables, uint32_t object);

/* All programs that ran when tables were dropped have ended: their room can be other tables'. */
void unwind_tables_settle(struct unwind_tables *tables);

/* How many of the files that it maps have a table that is missing. */
uint64_t unwind_tables_missing(const struct unwind_tables *tables, const struct mappings *mappings);

void unwind_tables_release(struct unwind_tables *tables);

#endif
