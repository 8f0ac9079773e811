// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/mappings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/proc.h"

/* One line of /proc/PID/maps (fs/proc/task_mmu.c, show_map_vma). */
struct maps_line {
	uint64_t start, end, offset, dev, inode;
	char perms[5];
	const char *path; /* "" for anonymous memory */
};

static bool parse_line(char *text, struct maps_line *line)
{
	unsigned int major, minor;
	int path_at = 0;

	if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &line->start, &line->end, line->perms, &line->offset, &major, &minor,
		   &line->inode, &path_at) < 7)
		return false;
	line->dev = (uint64_t)major << 32 | minor;
	line->path = text + path_at;
	return true;
}

static bool uses(const struct mappings *mappings, uint32_t object)
{
	for (size_t i = 0; i < mappings->used_nr; i++)
		if (mappings->used[i] == object)
			return true;
	return false;
}

static int use(struct mappings *mappings, uint32_t object)
{
	if (object == OBJECT_NONE || uses(mappings, object))
		return 0;
	return array_push(mappings, used, object);
}

const struct object *mappings_used(const struct mappings *mappings, size_t i)
{
	return mappings->objects->object[mappings->used[i]];
}

static int object_of(struct mappings *mappings, const struct mapped_file *file,
		     uint32_t *ret_object)
{
	int err = objects_get(mappings->objects, file, ret_object);

	return err ?: use(mappings, *ret_object);
}

static int add_line(struct mappings *mappings, pid_t pid, const struct maps_line *line)
{
	struct mapping mapping = {
		.start = line->start,
		.end = line->end,
		.offset = line->offset,
	};
	const struct mapped_file file = {
		.pid = pid,
		.start = line->start,
		.end = line->end,
		.dev = line->inode ? line->dev : 0,
		.inode = line->inode,
		.path = line->path,
	};
	int err = object_of(mappings, &file, &mapping.object);

	if (err == -ENOENT)
		return 0; /* unmapped since the line was read */
	return err ?: array_push(mappings, mapping, mapping);
}

static int compare_address(const void *key, const void *element)
{
	uint64_t address = *(const uint64_t *)key;
	const struct mapping *mapping = element;

	return address < mapping->start ? -1 : address >= mapping->end;
}

const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address)
{
	if (!mappings->mapping_nr)
		return NULL;
	return bsearch(&address, mappings->mapping, mappings->mapping_nr,
		       sizeof(*mappings->mapping), compare_address);
}

static bool overlaps(const struct mapping *a, const struct mapping *b)
{
	return a->start < b->end && b->start < a->end;
}

/* Code made at run time moves all the time, and has no names to be wrong. */
static bool is_the_same_code(const struct mapping *a, const struct mapping *b)
{
	return a->object == b->object &&
	       (a->object == OBJECT_NONE || a->start - a->offset == b->start - b->offset);
}

/* What has been unmapped stays known, until something else is mapped there. */
static int keep_unmapped(struct mappings *mappings, const struct mapping *old)
{
	bool is_free = true;

	for (size_t i = 0; i < mappings->mapping_nr; i++) {
		if (!overlaps(&mappings->mapping[i], old))
			continue;
		is_free = false;
		mappings->replaced_nr += !is_the_same_code(&mappings->mapping[i], old);
	}
	return is_free && old->object != OBJECT_NONE ? array_push(mappings, mapping, *old) : 0;
}

static int by_address(const void *a, const void *b)
{
	const struct mapping *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static int read_lines(struct mappings *mappings, pid_t pid, char *text)
{
	struct maps_line line;
	char *next;
	int err = 0;

	while (!err && (next = strsep(&text, "\n")))
		if (parse_line(next, &line) && line.perms[2] == 'x')
			err = add_line(mappings, pid, &line);
	return err;
}

/* Anew, and what was known besides. */
static int read_anew(struct mappings *mappings, pid_t pid, char *text)
{
	struct mappings before = *mappings;
	int err;

	mappings->mapping = NULL;
	mappings->mapping_nr = mappings->mapping_alloc = 0;
	err = read_lines(mappings, pid, text);
	for (size_t i = 0; i < before.mapping_nr && !err; i++)
		err = keep_unmapped(mappings, &before.mapping[i]);
	if (err) {
		free(mappings->mapping);
		mappings->mapping = before.mapping;
		mappings->mapping_nr = before.mapping_nr;
		mappings->mapping_alloc = before.mapping_alloc;
		return err;
	}
	if (mappings->mapping_nr)
		qsort(mappings->mapping, mappings->mapping_nr, sizeof(*mappings->mapping),
		      by_address);
	free(before.mapping);
	return 0;
}

int mappings_refresh(struct mappings *mappings, pid_t pid, struct reason *why)
{
	char *text = proc_read(pid, "maps", NULL);
	int err = 0;

	if (!text)
		return reason_set(why, -errno, "cannot read /proc/%d/maps: %s", pid,
				  strerror(errno));
	if (*text)
		err = read_anew(mappings, pid, text);
	free(text);
	return err == -ESRCH ? 0 : err;
}

/* ---- one by one ---- */

/* What is left of an old mapping below and above a new one. */
static int keep_around(struct mappings *mappings, const struct mapping *old,
		       const struct mapping *new)
{
	struct mapping below = *old, above = *old;
	int err = 0;

	below.end = new->start;
	above.start = new->end;
	above.offset += new->end - old->start;
	if (old->start < new->start)
		err = array_push(mappings, mapping, below);
	if (!err && old->end > new->end)
		err = array_push(mappings, mapping, above);
	return err;
}

int mappings_add(struct mappings *mappings, const struct mapped_file *file, uint64_t offset)
{
	struct mapping new = { .start = file->start, .end = file->end, .offset = offset };
	size_t old_nr = mappings->mapping_nr, kept = 0;
	int err = object_of(mappings, file, &new.object);

	/* Whole ones first, as they move down; then what is left of those that were cut. */
	if (!err)
		err = array_push(mappings, mapping, new);
	for (size_t i = 0; i < old_nr && !err; i++) {
		struct mapping old = mappings->mapping[i];

		if (!overlaps(&old, &new)) {
			mappings->mapping[kept++] = old;
			continue;
		}
		mappings->replaced_nr += !is_the_same_code(&new, &old);
		err = keep_around(mappings, &old, &new);
	}
	if (err)
		return err;
	memmove(mappings->mapping + kept, mappings->mapping + old_nr,
		(mappings->mapping_nr - old_nr) * sizeof(new));
	mappings->mapping_nr -= old_nr - kept;
	qsort(mappings->mapping, mappings->mapping_nr, sizeof(new), by_address);
	return 0;
}

int mappings_copy(struct mappings *to, const struct mappings *from)
{
	int err = 0;

	to->objects = from->objects;
	for (size_t i = 0; i < from->mapping_nr && !err; i++)
		err = array_push(to, mapping, from->mapping[i]);
	for (size_t i = 0; i < from->used_nr && !err; i++)
		err = array_push(to, used, from->used[i]);
	return err;
}

void mappings_forget(struct mappings *mappings)
{
	mappings->mapping_nr = 0;
	mappings->replaced_nr = 0;
}

void mappings_forget_objects(struct mappings *mappings, const bool *goes)
{
	size_t kept = 0;

	for (size_t i = 0; i < mappings->used_nr; i++)
		if (!goes[mappings->used[i]])
			mappings->used[kept++] = mappings->used[i];
	mappings->used_nr = kept;
}

bool mapping_is_there(const struct mappings *mappings, const struct mapping *mapping)
{
	return mappings_find(mappings, mapping->start) == mapping;
}

void mappings_release(struct mappings *mappings)
{
	free(mappings->mapping);
	free(mappings->used);
	memset(mappings, 0, sizeof(*mappings));
}
