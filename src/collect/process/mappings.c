// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/process/mappings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/process/maps_text.h"

/* Sorted by address, without overlaps. */
struct list {
	struct mapping *mapping;
	size_t mapping_nr, mapping_alloc;
};

bool mappings_use(const struct mappings *mappings, uint32_t object)
{
	for (size_t i = 0; i < mappings->used_nr; i++)
		if (mappings->used[i] == object)
			return true;
	return false;
}

static int use_object(struct mappings *mappings, uint32_t object)
{
	if (object == OBJECT_NONE || mappings_use(mappings, object))
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

	return err ?: use_object(mappings, *ret_object);
}

/* ---- finding ---- */

/* Finds the first mapping that ends above an address. */
static size_t first_above(const struct mapping *mapping, size_t nr, uint64_t address)
{
	size_t low = 0;

	while (low < nr) {
		size_t middle = low + (nr - low) / 2;

		if (mapping[middle].end > address)
			nr = middle;
		else
			low = middle + 1;
	}
	return low;
}

const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address)
{
	size_t i = first_above(mappings->mapping, mappings->mapping_nr, address);

	if (i == mappings->mapping_nr || mappings->mapping[i].start > address)
		return NULL;
	return &mappings->mapping[i];
}

size_t mappings_cost(const struct mappings *mappings, uint64_t start)
{
	return mappings->mapping_nr - first_above(mappings->mapping, mappings->mapping_nr, start);
}

bool mapping_is_there(const struct mappings *mappings, const struct mapping *mapping)
{
	return mapping->seen >= mappings->reading;
}

bool mappings_have(const struct mappings *mappings, uint32_t object)
{
	for (size_t i = 0; i < mappings->mapping_nr; i++)
		if (mappings->mapping[i].object == object && mapping_is_there(mappings, &mappings->mapping[i]))
			return true;
	return false;
}

/* Anonymous code counts as the same: code made at run time moves often, and has no names that could be wrong. */
static bool is_the_same_code(const struct mapping *a, const struct mapping *b)
{
	return a->object == b->object &&
	       (a->object == OBJECT_NONE || a->start - a->offset == b->start - b->offset);
}

static struct mapping part_of(const struct mapping *mapping, uint64_t start, uint64_t end)
{
	struct mapping part = *mapping;

	part.start = start;
	part.end = end;
	part.offset += start - mapping->start;
	return part;
}

/* ---- forgetting ---- */

/* From now on the same addresses make different tracebacks, so earlier forgotten spans no longer matter. */
static void note_change(struct mappings *mappings)
{
	mappings->changed_nr++;
	mappings->span_nr = 0;
}

static void note_replaced(struct mappings *mappings)
{
	mappings->replaced_nr++;
	note_change(mappings);
}

/*
 * A known traceback may contain the forgotten code. If other code is mapped there later, that traceback must not
 * be taken for one of the new code.
 */
static void note_forgotten(struct mappings *mappings, const struct mapping *mapping)
{
	if (mappings->span_nr == MAPPINGS_SPAN_MAX) {
		note_change(mappings);
		return;
	}
	mappings->span[mappings->span_nr++] = (struct mapping_span){ mapping->start, mapping->end };
}

static void notice_forgotten(struct mappings *mappings, const struct mapping *new)
{
	for (size_t i = 0; i < mappings->span_nr; i++) {
		const struct mapping_span *span = &mappings->span[i];

		if (new->start < span->end && span->start < new->end) {
			note_replaced(mappings);
			return;
		}
	}
}

/* Forgets the mappings last seen before `seen`, and of those last seen at `seen` the first so_many. */
static size_t forget_mappings_before(struct mappings *mappings, uint64_t seen, size_t so_many)
{
	size_t kept = 0, nr = mappings->mapping_nr;

	for (size_t i = 0; i < nr; i++) {
		const struct mapping mapping = mappings->mapping[i];
		bool is_last = mapping.seen == seen && so_many;

		so_many -= is_last;
		if (mapping.seen < seen || is_last)
			note_forgotten(mappings, &mapping);
		else
			mappings->mapping[kept++] = mapping;
	}
	mappings->mapping_nr = kept;
	return nr - kept;
}

size_t mappings_forget_unmapped(struct mappings *mappings, uint64_t reading)
{
	return forget_mappings_before(mappings, reading < mappings->reading ? reading : mappings->reading, 0);
}

void mappings_end_pass(struct mappings *mappings)
{
	mappings_forget_unmapped(mappings, mappings->pass_reading);
	mappings->pass_reading = mappings->reading;
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Forgets the oldest ones. */
static int forget_too_many(struct mappings *mappings)
{
	size_t nr = 0, excess, older = 0;
	uint64_t *seen, last;

	for (size_t i = 0; i < mappings->mapping_nr; i++)
		nr += !mapping_is_there(mappings, &mappings->mapping[i]);
	if (nr <= MAPPINGS_UNMAPPED_MAX)
		return 0;
	seen = malloc(nr * sizeof(*seen));
	if (!seen)
		return -ENOMEM;
	nr = 0;
	for (size_t i = 0; i < mappings->mapping_nr; i++)
		if (!mapping_is_there(mappings, &mappings->mapping[i]))
			seen[nr++] = mappings->mapping[i].seen;
	qsort(seen, nr, sizeof(*seen), by_number);
	excess = nr - MAPPINGS_UNMAPPED_MAX;
	last = seen[excess - 1];
	while (older < excess && seen[older] < last)
		older++;
	mappings->forgotten_nr += forget_mappings_before(mappings, last, excess - older);
	free(seen);
	return 0;
}

/* ---- reading all mappings again ---- */

/* The kernel returns the lines in pieces: a mapping that has grown in between appears twice. */
static int push_line(struct list *list, const struct mapping *mapping)
{
	uint64_t end = list->mapping_nr ? list->mapping[list->mapping_nr - 1].end : 0;

	if (mapping->end <= end)
		return 0;
	return array_push(list, mapping, mapping->start < end ? part_of(mapping, end, mapping->end) : *mapping);
}

/*
 * The line is the same as at the last reading and its file has not been written to: the file need not be opened
 * again. If other code had been mapped there, even with the same numbers, an event would have reported it.
 */
static bool is_line_of(const struct mappings *mappings, const struct mapping *known,
		       const struct mapping *line)
{
	return known && known->start == line->start && known->end == line->end &&
	       known->offset == line->offset && known->inode && known->inode == line->inode &&
	       known->dev == line->dev && known->object != OBJECT_NONE && mapping_is_there(mappings, known) &&
	       !mappings->objects->object[known->object]->has_changed;
}

static int add_line(struct mappings *mappings, pid_t pid, const struct maps_line *line,
		    struct list *list)
{
	struct mapping mapping = {
		.start = line->start,
		.end = line->end,
		.offset = line->offset,
		.seen = mappings->reading + 1,
		.dev = line->dev,
		.inode = line->inode,
	};
	const struct mapping *known = mappings_find(mappings, line->start);
	const struct mapped_file file = {
		.pid = pid,
		.user = mappings->user,
		.start = line->start,
		.end = line->end,
		.dev = line->inode ? line->dev : 0,
		.inode = line->inode,
		.path = line->path,
	};
	int err;

	if (is_line_of(mappings, known, &mapping)) {
		mapping.object = known->object;
		return push_line(list, &mapping);
	}
	err = object_of(mappings, &file, &mapping.object);
	if (err == -ENOENT)
		return 0; /* unmapped since the line was read */
	return err ?: push_line(list, &mapping);
}

static int read_lines(struct mappings *mappings, pid_t pid, char *text, struct list *list)
{
	struct maps_line line;
	char *next;
	int err = 0;

	while (!err && (next = strsep(&text, "\n")))
		if (maps_parse_line(next, &line) && line.perms[2] == 'x')
			err = add_line(mappings, pid, &line, list);
	return err;
}

static int push_part(struct list *list, const struct mapping *old, uint64_t start, uint64_t end)
{
	if (start >= end || old->object == OBJECT_NONE)
		return 0;
	return array_push(list, mapping, part_of(old, start, end));
}

/*
 * Keeps the parts of an old mapping that no new one covers. *at: the first new mapping that is not in the list
 * yet.
 */
static int keep_unmapped(struct mappings *mappings, const struct mapping *old,
			 const struct list *new, size_t *at, struct list *list)
{
	uint64_t from = old->start;
	int err = 0;

	while (!err && *at < new->mapping_nr && new->mapping[*at].start < old->end) {
		const struct mapping *over = &new->mapping[*at];

		if (!is_the_same_code(over, old))
			note_replaced(mappings);
		err = push_part(list, old, from, over->start);
		from = over->end;
		if (over->end > old->end)
			break; /* it may also cover the next old one */
		if (!err)
			err = array_push(list, mapping, *over);
		++*at;
	}
	return err ?: push_part(list, old, from, old->end);
}

/* An unmapped mapping stays known until another one is mapped there. */
static int merge_mappings(struct mappings *mappings, const struct list *new, struct list *list)
{
	size_t at = 0;
	int err = 0;

	for (size_t i = 0; i < mappings->mapping_nr && !err; i++) {
		const struct mapping *old = &mappings->mapping[i];

		for (; at < new->mapping_nr && new->mapping[at].end <= old->start && !err; at++)
			err = array_push(list, mapping, new->mapping[at]);
		if (!err)
			err = keep_unmapped(mappings, old, new, &at, list);
	}
	for (; at < new->mapping_nr && !err; at++)
		err = array_push(list, mapping, new->mapping[at]);
	return err;
}

/* Mappings above the end of a cut text may still be mapped: they count as seen. */
static void see_above(struct mappings *mappings, const struct list *new)
{
	uint64_t end = new->mapping_nr ? new->mapping[new->mapping_nr - 1].end : 0;
	size_t i = first_above(mappings->mapping, mappings->mapping_nr, end);

	for (; i < mappings->mapping_nr; i++)
		mappings->mapping[i].seen += mapping_is_there(mappings, &mappings->mapping[i]);
	mappings->skipped_nr++;
}

static void take_over(struct mappings *mappings, const struct list *list)
{
	free(mappings->mapping);
	mappings->mapping = list->mapping;
	mappings->mapping_nr = list->mapping_nr;
	mappings->mapping_alloc = list->mapping_alloc;
	mappings->reading++;
	mappings->added_nr = 0;
}

int mappings_read(struct mappings *mappings, pid_t pid, char *text, bool is_cut)
{
	struct list new = {}, list = {};
	int err = read_lines(mappings, pid, text, &new);

	for (size_t i = 0; i < new.mapping_nr && !err; i++)
		notice_forgotten(mappings, &new.mapping[i]);
	if (!err && is_cut)
		see_above(mappings, &new);
	if (!err)
		err = merge_mappings(mappings, &new, &list);
	free(new.mapping);
	if (!err)
		take_over(mappings, &list);
	else
		free(list.mapping);
	return err ?: forget_too_many(mappings);
}

int mappings_refresh(struct mappings *mappings, pid_t pid, struct reason *why)
{
	bool is_cut;
	char *text = maps_read_code(pid, &is_cut);
	int err = 0;

	if (!text)
		return reason_set(why, -errno, "cannot read /proc/%d/maps: %s", pid,
				  strerror(errno));
	if (*text)
		err = mappings_read(mappings, pid, text, is_cut);
	free(text);
	return err == -ESRCH ? 0 : err;
}

/* ---- adding one mapping ---- */

/* Replaces the old mappings from..to by: the rest of the first, the new one, the rest of the last. */
static int replace_mappings(struct mappings *mappings, size_t from, size_t to, const struct mapping *new)
{
	struct mapping part[3];
	size_t nr = 0;
	int err = array_reserve(&mappings->mapping, &mappings->mapping_alloc, mappings->mapping_nr + 2);

	if (err)
		return err;
	if (from < to && mappings->mapping[from].start < new->start)
		part[nr++] = part_of(&mappings->mapping[from], mappings->mapping[from].start, new->start);
	part[nr++] = *new;
	if (from < to && mappings->mapping[to - 1].end > new->end)
		part[nr++] = part_of(&mappings->mapping[to - 1], new->end, mappings->mapping[to - 1].end);
	memmove(mappings->mapping + from + nr, mappings->mapping + to,
		(mappings->mapping_nr - to) * sizeof(*new));
	memcpy(mappings->mapping + from, part, nr * sizeof(*new));
	mappings->mapping_nr += nr - (to - from);
	return 0;
}

int mappings_add(struct mappings *mappings, const struct mapped_file *file, uint64_t offset)
{
	struct mapping new = { .start = file->start, .end = file->end, .offset = offset,
			       .seen = mappings->reading };
	size_t from = first_above(mappings->mapping, mappings->mapping_nr, new.start), to = from;
	int err;

	if (new.start >= new.end)
		return 0;
	if (mappings->added_nr >= MAPPINGS_ADDED_MAX) {
		mappings->skipped_nr++;
		return 0;
	}
	err = object_of(mappings, file, &new.object);
	if (err)
		return err;
	notice_forgotten(mappings, &new);
	for (; to < mappings->mapping_nr && mappings->mapping[to].start < new.end; to++)
		if (!is_the_same_code(&new, &mappings->mapping[to]))
			note_replaced(mappings);
	mappings->added_nr++;
	return replace_mappings(mappings, from, to, &new);
}

int mappings_copy(struct mappings *to, const struct mappings *from)
{
	int err = array_reserve(&to->mapping, &to->mapping_alloc, from->mapping_nr + 1) ?:
		  array_reserve(&to->used, &to->used_alloc, from->used_nr + 1);

	to->objects = from->objects;
	to->reading = from->reading;
	to->pass_reading = from->pass_reading;
	to->skipped_nr = from->skipped_nr;
	if (err)
		return err;
	for (size_t i = 0; i < from->mapping_nr; i++)
		to->mapping[to->mapping_nr++] = from->mapping[i];
	for (size_t i = 0; i < from->used_nr; i++)
		to->used[to->used_nr++] = from->used[i];
	return 0;
}

void mappings_forget(struct mappings *mappings)
{
	mappings->mapping_nr = mappings->added_nr = mappings->span_nr = 0;
	mappings->replaced_nr = mappings->forgotten_nr = mappings->skipped_nr = 0;
}

void mappings_forget_objects(struct mappings *mappings, const bool *goes)
{
	size_t kept = 0;

	for (size_t i = 0; i < mappings->used_nr; i++)
		if (!goes[mappings->used[i]])
			mappings->used[kept++] = mappings->used[i];
	mappings->used_nr = kept;
}

void mappings_release(struct mappings *mappings)
{
	free(mappings->mapping);
	free(mappings->used);
	memset(mappings, 0, sizeof(*mappings));
}
