/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_MAPPINGS_H
#define ALLOCSNAP_COLLECT_MAPPINGS_H

/*
 * The code that a process maps: address → object and file offset.
 *
 * Files are opened through /proc/PID/map_files, which leads to the mapped file itself: a
 * deleted, replaced or containerised one too, and never to one that the process only names.
 * The objects stay open and known after the process has unmapped them or has ended.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct elf_object;
struct reason;

/* A file (or the vdso) that is or was mapped executable. */
struct object {
	char *path; /* as the process sees it, without " (deleted)" */
	uint64_t dev, inode; /* as /proc/PID/maps has them; 0 for the vdso */
	int fd;		     /* -1: could not be opened */
	struct elf_object *elf; /* NULL: is none, or could not be read */
	char *unreadable;	/* why fd is -1 or elf NULL, else NULL */
};

struct mapping {
	uint64_t start, end;
	uint64_t offset; /* of start, in the file */
	uint32_t object; /* index, or OBJECT_NONE for anonymous code */
};

#define OBJECT_NONE UINT32_MAX

/* Zeroed: nothing known. */
struct mappings {
	struct mapping *mapping; /* sorted by address; also what is unmapped by now */
	size_t mapping_nr, mapping_alloc;
	uint64_t replaced_nr; /* mappings that have come in the place of others */
	struct object *object; /* grows only; indices stay */
	size_t object_nr, object_alloc;
};

/*
 * Reads /proc/PID/maps anew. A process that has ended, or is about to, keeps what was known.
 * 0, -ENOMEM, or the errno of reading the file, with a line in *why.
 */
int mappings_refresh(struct mappings *mappings, pid_t pid, struct reason *why);

/* The mapping that holds an address, or NULL. */
const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address);

void mappings_release(struct mappings *mappings);

#endif
