/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PROCESS_MAPPINGS_H
#define ALLOCSNAP_PROCESS_MAPPINGS_H

/*
 * The code that a process maps: address → object and file offset. An unmapped mapping stays known for a while,
 * because earlier tracebacks are resolved only at the next drain. What others have replaced is in mapping_history.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "process/objects.h"

struct mapping {
	uint64_t start, end;
	uint64_t offset; /* of start, in the file */
	uint64_t since_ns;  /* CLOCK_MONOTONIC: it was not mapped there before; 0: maybe always */
	uint64_t surely_ns; /* since_ns; without an event: it came at some time up to then, in place of other code */
	uint64_t until_ns;  /* of a replaced one: when that was */
	uint64_t seen;	 /* value of mappings->reading when it was last known to be mapped */
	uint64_t dev, inode; /* as in its line of /proc/PID/maps, to recognise the line; 0: an event reported it */
	uint32_t object; /* index, OBJECT_NONE for anonymous code, or OBJECT_GONE: it is not known any more which */
};

#define MAPPINGS_UNMAPPED_MAX 4096 /* unmapped mappings that are remembered */
#define MAPPINGS_ADDED_MAX 16384   /* mappings added between two readings of /proc/PID/maps */
#define MAPPINGS_PAST_MAX 1024	   /* replaced ones that are remembered */

/* Zeroed except for objects: nothing known. */
struct mappings {
	struct objects *objects; /* shared, not owned */
	uint32_t user;		 /* objects_user() of the process */
	struct mapping *mapping; /* sorted by address, without overlaps; includes unmapped ones */
	size_t mapping_nr, mapping_alloc;
	uint64_t told_ns; /* all events up to then have been added */
	uint64_t read_ns; /* when the latest reading of /proc/PID/maps began */
	uint64_t reading;      /* number of times that /proc/PID/maps has been read */
	uint64_t pass_reading; /* value of reading at the last mappings_end_pass() */
	size_t added_nr;       /* mappings added since the last reading */
	struct mapping *past; /* replaced ones, since the drain before the last one (mapping_history.h) */
	size_t past_nr, past_alloc, past_old_nr;
	uint64_t past_start, past_end; /* all of them lie there */
	uint64_t past_lost_ns; /* of the time before that, some are missing; 0: none */
	uint64_t past_lost_old_ns; /* at the last mappings_end_pass() */
	uint64_t changed_ns;   /* the time of the latest replacement */
	uint64_t replaced_nr;  /* mappings that replaced others */
	uint64_t forgotten_nr; /* unmapped or replaced ones forgotten before all tracebacks were resolved */
	uint64_t skipped_nr;   /* new ones that were not added one by one */
	uint32_t *used; /* objects that the program maps or has mapped, each once; removed by mappings_forget_objects() */
	size_t used_nr, used_alloc;
};

/*
 * Reads /proc/PID/maps again. If the process has ended, or is about to, the known mappings stay. 0, -ENOMEM, or
 * the errno of reading the file, with a line in *why.
 */
int mappings_refresh(struct mappings *mappings, pid_t pid, struct reason *why);

/*
 * Does the same with the text of that file, which it modifies; is_cut: the end of the text is missing. 0,
 * -ENOMEM, or -ESRCH: the process has ended.
 */
int mappings_read(struct mappings *mappings, pid_t pid, char *text, bool is_cut);

/*
 * Adds one mapping known from an event at that time, and replaces the mappings that were there. Events come in the
 * order of their times; the latest may be older than the latest reading. If too many have been added since that, the
 * mapping is only counted. 0 or -ENOMEM.
 */
int mappings_add(struct mappings *mappings, const struct mapped_file *file, uint64_t offset, uint64_t time_ns);

/* Number of elements that mappings_add() would move. */
size_t mappings_cost(const struct mappings *mappings, uint64_t start);

/* Whether the mapping is still mapped, as far as is known. */
bool mapping_is_there(const struct mappings *mappings, const struct mapping *mapping);

/* Whether the object is still mapped. */
bool mappings_have(const struct mappings *mappings, uint32_t object);

/*
 * Forgets which files the mappings were of that were already unmapped before that reading. That there was code is not
 * forgotten: other code may come there.
 */
void mappings_forget_unmapped(struct mappings *mappings, uint64_t reading);

/*
 * Call after each drain: forgets what the previous drain found unmapped or replaced. All tracebacks that can contain
 * it have been resolved.
 */
void mappings_end_pass(struct mappings *mappings);

/* Gives a forked process the mappings of its parent; `to` is empty. 0 or -ENOMEM. */
int mappings_copy(struct mappings *to, const struct mappings *from);

/* Call after an exec: all mappings are gone, and nothing has been mapped before. */
void mappings_forget(struct mappings *mappings);

/* Removes the objects with goes[index] set from the used ones; no mapping may refer to them. */
void mappings_forget_objects(struct mappings *mappings, const bool *goes);

/* Whether the program maps or has mapped an object. */
bool mappings_use(const struct mappings *mappings, uint32_t object);

/* The object used[i]. */
const struct object *mappings_used(const struct mappings *mappings, size_t i);

/* Whether they map the same part of the same file, or anonymous code, which has no names that could be wrong. */
bool is_the_same_code(const struct mapping *a, const struct mapping *b);

/* The mapping that holds an address now, or held it last, or NULL. */
const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address);

void mappings_release(struct mappings *mappings);

#endif
