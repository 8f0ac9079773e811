/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_MAPPINGS_H
#define ALLOCSNAP_COLLECT_MAPPINGS_H

/*
 * The code that a process maps: address → object and file offset. What is unmapped stays known for a
 * while, since tracebacks of before are resolved at the next drain.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/process/objects.h"

struct reason;

struct mapping {
	uint64_t start, end;
	uint64_t offset; /* of start, in the file */
	uint64_t seen;	 /* mappings->reading when it was last known to be mapped */
	uint64_t dev, inode; /* as its line in /proc/PID/maps has them, to know that line again; 0: by an event */
	uint32_t object; /* index, or OBJECT_NONE for anonymous code */
};

/* Addresses where some code was that is forgotten. */
struct mapping_span {
	uint64_t start, end;
};

#define MAPPINGS_UNMAPPED_MAX 4096 /* that are remembered */
#define MAPPINGS_ADDED_MAX 16384   /* between two readings of /proc/PID/maps */
#define MAPPINGS_SPAN_MAX 64

/* Zeroed but for objects: nothing known. */
struct mappings {
	struct objects *objects; /* shared, not owned */
	uint32_t user;		 /* of the process: objects_user() */
	struct mapping *mapping; /* sorted by address, without overlaps; also what is unmapped by now */
	size_t mapping_nr, mapping_alloc;
	uint64_t reading;      /* counts up each time that /proc/PID/maps has been read */
	uint64_t pass_reading; /* as of the last mappings_end_pass() */
	size_t added_nr;       /* since it was last read */
	struct mapping_span span[MAPPINGS_SPAN_MAX]; /* forgotten since changed_nr was counted up last */
	size_t span_nr;
	uint64_t replaced_nr;  /* mappings that have come in the place of others */
	uint64_t changed_nr;   /* counts up when addresses recorded from then on may mean other code than before */
	uint64_t forgotten_nr; /* unmapped ones that had to go before all tracebacks were resolved */
	uint64_t skipped_nr;   /* new ones that were not taken in one by one */
	uint32_t *used; /* objects that it has or had, each once; grows only */
	size_t used_nr, used_alloc;
};

/*
 * Reads /proc/PID/maps anew. A process that has ended, or is about to, keeps what was known.
 * 0, -ENOMEM, or the errno of reading the file, with a line in *why.
 */
int mappings_refresh(struct mappings *mappings, pid_t pid, struct reason *why);

/*
 * The same from the file's text, which is taken apart; is_cut: it ends too soon. 0, -ENOMEM, or -ESRCH: the
 * process has ended.
 */
int mappings_read(struct mappings *mappings, pid_t pid, char *text, bool is_cut);

/*
 * Adds one that is known from elsewhere, in the place of what was there. Where too many have come since
 * the maps were read, it is only counted. 0 or -ENOMEM.
 */
int mappings_add(struct mappings *mappings, const struct mapped_file *file, uint64_t offset);

/* How many elements mappings_add() would move. */
size_t mappings_cost(const struct mappings *mappings, uint64_t start);

/* Whether it was mapped as far as is known. */
bool mapping_is_there(const struct mappings *mappings, const struct mapping *mapping);

/* Forgets what has not been mapped any more since before that reading. How many. */
size_t mappings_forget_unmapped(struct mappings *mappings, uint64_t reading);

/*
 * After each drain: what the drain before found unmapped is forgotten. All tracebacks that it may be in
 * have been resolved.
 */
void mappings_end_pass(struct mappings *mappings);

/* What a forked process begins with; to has nothing yet. 0 or -ENOMEM. */
int mappings_copy(struct mappings *to, const struct mappings *from);

/* After an exec: all is gone. */
void mappings_forget(struct mappings *mappings);

/* Those with goes[index] set are used no longer: no mapping may be of one. */
void mappings_forget_objects(struct mappings *mappings, const bool *goes);

/* Whether it has or had an object. */
bool mappings_use(const struct mappings *mappings, uint32_t object);

/* used[i]. */
const struct object *mappings_used(const struct mappings *mappings, size_t i);

/* The mapping that holds an address, or NULL. */
const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address);

void mappings_release(struct mappings *mappings);

#endif
