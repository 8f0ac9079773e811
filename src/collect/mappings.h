/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_MAPPINGS_H
#define ALLOCSNAP_COLLECT_MAPPINGS_H

/*
 * The code that a process maps: address → object and file offset. What is unmapped stays known,
 * until something else is mapped there.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/objects.h"

struct reason;

struct mapping {
	uint64_t start, end;
	uint64_t offset; /* of start, in the file */
	uint32_t object; /* index, or OBJECT_NONE for anonymous code */
};

/* Zeroed but for objects: nothing known. */
struct mappings {
	struct objects *objects; /* shared, not owned */
	struct mapping *mapping; /* sorted by address; also what is unmapped by now */
	size_t mapping_nr, mapping_alloc;
	uint64_t replaced_nr; /* mappings that have come in the place of others */
	uint32_t *used; /* objects that it has or had, each once; grows only */
	size_t used_nr, used_alloc;
};

/*
 * Reads /proc/PID/maps anew. A process that has ended, or is about to, keeps what was known.
 * 0, -ENOMEM, or the errno of reading the file, with a line in *why.
 */
int mappings_refresh(struct mappings *mappings, pid_t pid, struct reason *why);

/* Adds one that is known from elsewhere, in the place of what was there. 0 or -ENOMEM. */
int mappings_add(struct mappings *mappings, const struct mapped_file *file, uint64_t offset);

/* What a forked process begins with; to has nothing yet. 0 or -ENOMEM. */
int mappings_copy(struct mappings *to, const struct mappings *from);

/* After an exec: all is gone. */
void mappings_forget(struct mappings *mappings);

bool mapping_is_there(const struct mappings *mappings, const struct mapping *mapping);

/* Those with goes[index] set are used no longer: no mapping may be of one. */
void mappings_forget_objects(struct mappings *mappings, const bool *goes);

/* used[i]. */
const struct object *mappings_used(const struct mappings *mappings, size_t i);

/* The mapping that holds an address, or NULL. */
const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address);

void mappings_release(struct mappings *mappings);

#endif
