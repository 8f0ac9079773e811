// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/mappings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "process/mapping_history.h"
#include "process/proc.h"

/* ---- forget mappings ---- */

/* Forgets mappings that are no longer there. */

/* Ranges of forgotten code become one if at most a gap of that size is between them, and nothing else. */
static void push_kept(struct mappings *mappings, const struct mapping *mapping, uint64_t gap)
{
	struct mapping *last = mappings->mapping_nr ? &mappings->mapping[mappings->mapping_nr - 1] : NULL;

	if (last && last->object == OBJECT_GONE && mapping->object == OBJECT_GONE && mapping->start - last->end <= gap) {
		last->end = mapping->end;
		if (last->since_ns > mapping->since_ns)
			last->since_ns = mapping->since_ns;
	} else {
		mappings->mapping[mappings->mapping_nr++] = *mapping;
	}
}

void mappings_forget_unmapped(struct mappings *mappings, uint64_t reading)
{
	uint64_t seen = reading < mappings->reading ? reading : mappings->reading;
	size_t nr = mappings->mapping_nr;

	mappings->mapping_nr = 0;
	for (size_t i = 0; i < nr; i++) {
		struct mapping mapping = mappings->mapping[i];

		if (mapping.seen < seen)
			mapping.object = OBJECT_GONE;
		push_kept(mappings, &mapping, 0);
	}
}

/*
 * Forgets the mappings last seen before `seen`, and of those last seen at `seen` the first so_many. Other code may come
 * there: one range stands for all that lay between two others.
 */
static void forget_mappings_before(struct mappings *mappings, uint64_t seen, size_t so_many)
{
	size_t nr = mappings->mapping_nr;

	mappings->mapping_nr = 0;
	for (size_t i = 0; i < nr; i++) {
		struct mapping mapping = mappings->mapping[i];
		bool is_last = mapping.seen == seen && so_many;

		so_many -= is_last;
		if (mapping.seen < seen || is_last) {
			mappings->forgotten_nr += mapping.object < OBJECT_GONE;
			mapping.object = OBJECT_GONE;
		}
		push_kept(mappings, &mapping, UINT64_MAX);
	}
}

void mappings_end_pass(struct mappings *mappings)
{
	mappings_forget_unmapped(mappings, mappings->pass_reading);
	mappings->pass_reading = mappings->reading;
	history_end_pass(mappings);
}

/* Forgets the files of the oldest ones of more than MAPPINGS_UNMAPPED_MAX unmapped mappings. 0 or -ENOMEM. */
static int mappings_forget_excess(struct mappings *mappings)
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
	qsort(seen, nr, sizeof(*seen), array_by_number);
	excess = nr - MAPPINGS_UNMAPPED_MAX;
	last = seen[excess - 1];
	while (older < excess && seen[older] < last)
		older++;
	forget_mappings_before(mappings, last, excess - older);
	free(seen);
	return 0;
}

/* ---- mappings ---- */

/* Sorted by address, without overlaps. */
struct list {
	struct mapping *mapping;
	size_t mapping_nr, mapping_alloc;
};

bool mappings_use(const struct mappings *mappings, uint32_t object)
{
	return array_any(mappings->used_nr, i, mappings->used[i] == object);
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
	return objects_get(mappings->objects, file, ret_object) ?: use_object(mappings, *ret_object);
}

/* ---- finding ---- */

/* Finds the first mapping that ends above an address. */
static size_t first_above(const struct mapping *mapping, size_t nr, uint64_t address)
{
	return array_first(nr, i, mapping[i].end > address);
}

const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address)
{
	size_t i = first_above(mappings->mapping, mappings->mapping_nr, address);

	if (i == mappings->mapping_nr || mappings->mapping[i].start > address ||
	    mappings->mapping[i].object == OBJECT_GONE)
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

bool is_the_same_code(const struct mapping *a, const struct mapping *b)
{
	return a->object == b->object &&
	       (a->object >= OBJECT_GONE || a->start - a->offset == b->start - b->offset);
}

static struct mapping part_of(const struct mapping *mapping, uint64_t start, uint64_t end)
{
	struct mapping part = *mapping;

	part.start = start;
	part.end = end;
	part.offset += start - mapping->start;
	return part;
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
	       known->dev == line->dev && known->object < OBJECT_GONE && mapping_is_there(mappings, known) &&
	       !mappings->objects->object[known->object]->has_changed;
}

static int add_line(struct mappings *mappings, pid_t pid, const struct maps_line *line,
		    struct list *list)
{
	struct mapping mapping = {
		.start = line->start,
		.end = line->end,
		.offset = line->offset,
		.since_ns = mappings->told_ns,
		.surely_ns = mappings->told_ns,
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

/* Joins two pieces of a line, unless something else is known to have been there, or in one of them, at another time. */
static int push_piece(struct mappings *mappings, struct list *list, const struct mapping *piece, bool is_line_start)
{
	struct mapping *last = is_line_start ? NULL : &list->mapping[list->mapping_nr - 1];

	if (!last || ((last->since_ns != piece->since_ns || last->surely_ns != piece->surely_ns) &&
		      history_has(mappings, last->start, piece->end)))
		return array_push(list, mapping, *piece);
	last->end = piece->end;
	if (piece->since_ns < last->since_ns)
		last->since_ns = last->surely_ns = piece->since_ns;
	return 0;
}

/* Replaces a piece of an old mapping by one that was read. The same code keeps its time. */
static int replace_piece(struct mappings *mappings, const struct mapping *old, struct mapping *new)
{
	if (is_the_same_code(old, new)) {
		new->since_ns = old->since_ns;
		new->surely_ns = old->surely_ns;
		return 0;
	}
	new->surely_ns = mappings->read_ns;
	return history_add(mappings, old, new);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* An unmapped mapping stays known until another one is mapped there. */
static int merge_mappings(struct mappings *mappings, const struct list *new, struct list *list)
{
	const struct mapping none = { .start = UINT64_MAX, .end = UINT64_MAX };
	uint64_t at = 0;
	size_t i = 0, j = 0;
	int err = 0;

	while (!err && (i < mappings->mapping_nr || j < new->mapping_nr)) {
		const struct mapping *old = i < mappings->mapping_nr ? &mappings->mapping[i] : &none;
		const struct mapping *over = j < new->mapping_nr ? &new->mapping[j] : &none;
		uint64_t old_at = later(old->start, at), over_at = later(over->start, at);
		uint64_t start = earlier(old_at, over_at), end;
		struct mapping piece;

		end = earlier(old_at == start ? old->end : old_at, over_at == start ? over->end : over_at);
		piece = part_of(over_at == start ? over : old, start, end);
		if (old_at == over_at) {
			struct mapping replaced = part_of(old, start, end);

			err = replace_piece(mappings, &replaced, &piece);
		}
		err = err ?: push_piece(mappings, list, &piece, over_at != start || start == over->start);
		at = end;
		i += old->end == at;
		j += over->end == at;
	}
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

	if (!err && is_cut)
		see_above(mappings, &new);
	err = err ?: merge_mappings(mappings, &new, &list);
	free(new.mapping);
	if (!err)
		take_over(mappings, &list);
	else
		free(list.mapping);
	return err ?: mappings_forget_excess(mappings);
}

int mappings_refresh(struct mappings *mappings, pid_t pid, struct reason *why)
{
	uint64_t read_ns = monotonic_now_ns();
	bool is_cut;
	char *text = maps_read_code(pid, &is_cut);
	int err = 0;

	mappings->read_ns = read_ns;
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

/*
 * Puts the parts that the new mapping covers into the history, unless all are the same code and no other code was there.
 * 0 or -ENOMEM.
 */
static int replace_known(struct mappings *mappings, size_t from, size_t to, struct mapping *new)
{
	bool is_same = from < to && !history_has(mappings, new->start, new->end);
	int err = 0;

	for (size_t i = from; i < to; i++)
		is_same &= is_the_same_code(new, &mappings->mapping[i]);
	for (size_t i = from; i < to && !err; i++) {
		const struct mapping *old = &mappings->mapping[i];
		struct mapping part = part_of(old, later(old->start, new->start), earlier(old->end, new->end));

		if (is_same)
			new->since_ns = new->surely_ns = earlier(new->since_ns, old->since_ns);
		else
			err = history_add(mappings, &part, new);
	}
	return err;
}

static bool is_later(const struct mappings *mappings, size_t from, size_t to, uint64_t time_ns)
{
	for (; from < to; from++)
		if (mappings->mapping[from].since_ns > time_ns)
			return true;
	return false;
}

int mappings_add(struct mappings *mappings, const struct mapped_file *file, uint64_t offset, uint64_t time_ns)
{
	struct mapping new = { .start = file->start, .end = file->end, .offset = offset,
			       .since_ns = time_ns, .surely_ns = time_ns, .seen = mappings->reading };
	size_t from = first_above(mappings->mapping, mappings->mapping_nr, new.start), to = from;
	struct mapping *known = from < mappings->mapping_nr ? &mappings->mapping[from] : NULL;
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
	while (to < mappings->mapping_nr && mappings->mapping[to].start < new.end)
		to++;
	if (is_later(mappings, from, to, time_ns))
		return history_add(mappings, &new, &mappings->mapping[from]);
	if (from < to && known->start <= new.start && known->end >= new.end && known->seen == mappings->reading &&
	    is_the_same_code(known, &new)) {
		if (known->surely_ns >= time_ns) /* read before this event */
			known->since_ns = known->surely_ns = time_ns;
		return 0;
	}
	mappings->added_nr++;
	return replace_known(mappings, from, to, &new) ?: replace_mappings(mappings, from, to, &new);
}

int mappings_copy(struct mappings *to, const struct mappings *from)
{
	int err = array_reserve(&to->mapping, &to->mapping_alloc, from->mapping_nr + 1) ?:
		  array_reserve(&to->used, &to->used_alloc, from->used_nr + 1);

	to->objects = from->objects;
	to->told_ns = from->told_ns;
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
	mappings->mapping_nr = mappings->used_nr = mappings->added_nr = mappings->past_nr = mappings->past_old_nr = 0;
	mappings->past_lost_ns = mappings->past_lost_old_ns = 0;
	mappings->replaced_nr = mappings->forgotten_nr = mappings->skipped_nr = 0;
}

void mappings_forget_objects(struct mappings *mappings, const bool *goes)
{
	array_keep(mappings, used, i, !goes[mappings->used[i]]);
}

void mappings_release(struct mappings *mappings)
{
	free(mappings->mapping);
	free(mappings->past);
	free(mappings->used);
	memset(mappings, 0, sizeof(*mappings));
}
