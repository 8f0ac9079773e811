// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/code_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "collect/target/target.h"
#include "collect/unwind/unwind_tables.h"
#include "exact/known_code.h"
#include "process/mapping_history.h"
#include "process/proc.h"
#include "shared/unwind_types.h"

#define OWNER_NONE UINT64_MAX /* of code that no file has */
#define PAGE_OF(address) ((address) & ~(BOOKS_PAGE - 1))

/* ---- what the process wants ---- */

static bool is_strange(const struct code_lists *lists, uint64_t page)
{
	for (int i = 0; i < STRANGE_PAGES; i++)
		if (lists->strange[i] == page)
			return true;
	return false;
}

int code_lists_want(struct code_lists *lists, const struct code_news *news)
{
	uint64_t page = PAGE_OF(news->wanted_code);

	lists->closed_nr = news->closed_nr;
	if (!news->has_unread)
		lists->copied_ns = lists->news_ns;
	lists->news_ns = news->time_ns;
	if (news->has_closed) /* what was strange may have been code that is gone, and may be other code soon */
		memset(lists->strange, 0, sizeof(lists->strange));
	else if (page && !is_strange(lists, page))
		lists->strange[lists->strange_nr++ % STRANGE_PAGES] = page;
	return news->wanted_stack && lists->stack_nr < BOOKS_RANGES_MAX ? array_push(lists, stack, news->wanted_stack) : 0;
}

/* ---- tables ---- */

/* Slabs lie anywhere. */
static int copy_words(struct known_code *known, const struct unwind_tables *tables, struct told_table *told)
{
	uint32_t at = told->words_at, left = told->word_nr, begun;
	int err = 0;

	while (left && !err) {
		uint32_t in_slab = at % UNWIND_SLAB_WORDS, nr = UNWIND_SLAB_WORDS - in_slab;

		nr = nr < left ? nr : left;
		err = known_code__add_words(known, tables->slab[at / UNWIND_SLAB_WORDS] + in_slab, nr, &begun);
		if (!err && left == told->word_nr)
			told->at = begun;
		at += nr;
		left -= nr;
	}
	return err;
}

/* Where the words of an entry lie in the books. */
static int tell_table(struct code_lists *lists, struct known_code *known, const struct unwind_tables *tables,
		      const struct unwind_table_entry *entry, uint64_t owner, uint32_t *ret_at)
{
	struct told_table new = { owner, entry->words_at, entry->word_nr, 0 };
	const struct told_table *told = array_find(lists, told, i, lists->told[i].owner == owner &&
						   lists->told[i].words_at == new.words_at && lists->told[i].word_nr == new.word_nr);
	int err = told ? 0 : copy_words(known, tables, &new) ?: array_push(lists, told, new);

	if (!err)
		*ret_at = told ? told->at : new.at;
	return err;
}

/* ---- regions ---- */

struct list_making {
	struct code_lists *lists;
	struct known_code *known;
	const struct mappings *mappings;
	const struct unwind_tables *tables;
	struct code_list list;
	bool is_gone, is_unsure; /* the mapping */
};

/* A part of a file as it is mapped. */
struct file_part {
	uint64_t start, end, offset;
	uint32_t object;
};

static uint64_t owner_of_object(const struct mappings *mappings, uint32_t object)
{
	const struct file_identity *identity = &mappings->objects->object[object]->identity;
	const uint64_t key[] = { object, identity->device, identity->inode, identity->bytes, identity->modified.seconds,
				 identity->modified.nanoseconds };

	return hash_bytes(key, sizeof(key), 0) >> 1;
}

/* Code without a table, next to the same, is one region. */
static int push_region(struct list_making *making, const struct code_region *new)
{
	struct code_list *list = &making->list;
	struct code_region *last = list->region_nr ? &list->region[list->region_nr - 1] : NULL;

	if (last && last->region.end == new->region.start && last->owner == new->owner && last->is_gone == new->is_gone &&
	    !last->region.page_nr && !new->region.page_nr && last->region.delta == new->region.delta) {
		last->region.end = new->region.end;
		return 0;
	}
	return array_push(list, region, *new);
}

static int push_without_table(struct list_making *making, const struct file_part *part)
{
	bool has_file = part->object != OBJECT_NONE;
	const struct code_region region = {
		.region = { .start = part->start, .end = part->end, .delta = has_file ? part->offset - part->start : 0,
			    .first_page = UNWIND_NO_TABLE },
		.owner = has_file ? owner_of_object(making->mappings, part->object) : OWNER_NONE,
		.is_gone = making->is_gone,
		.is_unsure = making->is_unsure,
	};

	return push_region(making, &region);
}

/* The end of the segment that holds the offset, or of what is before the next one. *ret: NULL: none holds it. */
static uint64_t find_segment(const struct unwind_object *object, uint64_t offset, const struct unwind_segment **ret)
{
	uint64_t end = UINT64_MAX;

	*ret = NULL;
	for (uint32_t i = 0; i < object->segment_nr && i < UNWIND_SEGMENTS_MAX; i++) {
		const struct unwind_segment *segment = &object->segment[i];

		if (offset >= segment->offset && offset < segment->end) {
			*ret = segment;
			return segment->end;
		}
		if (segment->offset > offset && segment->offset < end)
			end = segment->offset;
	}
	return end;
}

static int push_segments(struct list_making *making, const struct file_part *part, const struct unwind_table_entry *entry, uint32_t at)
{
	const struct unwind_object *object = &entry->object;
	uint32_t moved = at - entry->words_at;
	struct file_part rest = *part;
	int err = 0;

	while (!err && rest.start < part->end) {
		const struct unwind_segment *segment;
		uint64_t end = find_segment(object, rest.offset, &segment), bytes = end - rest.offset;

		rest.end = bytes < part->end - rest.start ? rest.start + bytes : part->end;
		if (segment)
			err = push_region(making, &(struct code_region){
				.region = { rest.start, rest.end, rest.offset - rest.start + segment->delta, object->first_page,
					    object->page_nr, object->page_at + moved, object->rule_at + moved,
					    object->row_at + moved, object->entry, object->entry_end },
				.owner = owner_of_object(making->mappings, part->object),
				.is_gone = making->is_gone,
				.is_unsure = making->is_unsure,
			});
		else
			err = push_without_table(making, &rest);
		rest.offset += rest.end - rest.start;
		rest.start = rest.end;
	}
	return err;
}

static int push_file_part(struct list_making *making, const struct file_part *part)
{
	const struct unwind_tables *tables = making->tables;
	const struct unwind_table_entry *entry = part->object < tables->entry_nr ? &tables->entry[part->object] : NULL;
	uint32_t at = 0;
	int err;

	if (!entry || entry->state != UNWIND_TABLE_THERE || !entry->object.page_nr)
		return push_without_table(making, part);
	err = tell_table(making->lists, making->known, tables, entry, owner_of_object(making->mappings, part->object), &at);
	return err == -ENOSPC ? push_without_table(making, part) : err ?: push_segments(making, part, entry, at);
}

/* Pages of a sampler that are copies of the allocator's: they have the rules of the originals. */
static int push_copies(struct list_making *making, const struct file_part *part, uint64_t original)
{
	struct file_part rest = *part;
	int err = 0;

	while (!err && rest.start < part->end) {
		const struct mapping *mapping = mappings_find(making->mappings, original);
		struct file_part of = { rest.start, part->end, 0, OBJECT_NONE };

		if (mapping && mapping->object != OBJECT_NONE) {
			of.object = mapping->object;
			of.offset = original - mapping->start + mapping->offset;
			if (mapping->end - original < of.end - of.start)
				of.end = of.start + (mapping->end - original);
		}
		err = push_file_part(making, &of);
		original += of.end - of.start;
		rest.start = of.end;
	}
	return err;
}

static int push_mapping(struct list_making *making, const struct mapping *mapping)
{
	struct file_part part = { mapping->start, mapping->end, mapping->offset, mapping->object }, copies = part;
	const struct unwind_copies *of;

	making->is_gone = !mapping_is_there(making->mappings, mapping);
	making->is_unsure = mapping->surely_ns > making->lists->copied_ns && history_has(making->mappings, mapping->start, mapping->end);
	if (mapping->object == OBJECT_NONE)
		return push_without_table(making, &part);
	of = &making->mappings->objects->object[mapping->object]->copies;
	if (!of->offset || mapping->offset + (mapping->end - mapping->start) <= of->offset)
		return push_file_part(making, &part);
	if (mapping->offset < of->offset) {
		part.end = copies.start = mapping->start + (of->offset - mapping->offset);
		copies.offset = of->offset;
	} else {
		part.end = part.start;
	}
	return (part.start < part.end ? push_file_part(making, &part) : 0) ?:
	       push_copies(making, &copies, of->original + copies.offset - of->offset);
}

static bool is_mapped_code(const struct mappings *mappings, uint64_t page)
{
	const struct mapping *mapping = mappings_find(mappings, page);

	return mapping && mapping_is_there(mappings, mapping);
}

/* Pages without code. A page that has some by now is forgotten. */
static int push_strange(struct list_making *making)
{
	int err = 0;

	for (int i = 0; i < STRANGE_PAGES && !err; i++) {
		uint64_t *page = &making->lists->strange[i];

		if (*page && is_mapped_code(making->mappings, *page))
			*page = 0;
		if (*page)
			err = array_push(&making->list, region, ((struct code_region){
				.region = { .start = *page, .end = *page + BOOKS_PAGE, .first_page = UNWIND_NO_CODE },
				.owner = OWNER_NONE,
			}));
	}
	return err;
}

/* ---- stacks ---- */

/* Readable memory of the process, by address. */
struct readable {
	struct code_range *range;
	size_t range_nr, range_alloc;
};

static int read_readable(pid_t pid, struct readable *ret)
{
	char *text = proc_text(pid, "maps"), *rest = text, *line;
	struct maps_line parsed;
	int err = 0;

	while (rest && !err && (line = strsep(&rest, "\n")))
		if (maps_parse_line(line, &parsed) && parsed.perms[0] == 'r')
			err = array_push(ret, range, ((struct code_range){ parsed.start, parsed.end }));
	free(text);
	return err;
}

static bool has_range(const struct code_list *list, const struct code_range *range)
{
	return array_any(list->range_nr, i, list->range[i].start == range->start);
}

/* Each of the stacks that is still mapped, once. */
static int push_stacks(struct list_making *making, pid_t pid)
{
	struct code_lists *lists = making->lists;
	struct readable readable = {};
	size_t nr = lists->stack_nr;
	int err = nr ? read_readable(pid, &readable) : 0;

	lists->stack_nr = 0;
	for (size_t k = 0; k < nr && !err; k++) {
		uint64_t address = lists->stack[k];
		size_t i = array_first(readable.range_nr, at, readable.range[at].end > address);

		if (i == readable.range_nr || readable.range[i].start > address || has_range(&making->list, &readable.range[i]))
			continue;
		err = array_push(&making->list, range, readable.range[i]);
		lists->stack[lists->stack_nr++] = address;
	}
	free(readable.range);
	return err;
}

/* ---- the list ---- */

static int by_start(const void *a, const void *b)
{
	uint64_t x = ((const struct code_region *)a)->region.start, y = ((const struct code_region *)b)->region.start;

	return (x > y) - (x < y);
}

/* When a reading has found it, it came at some time since the one before. */
static int note_replaced(struct known_code *known, const struct mappings *mappings)
{
	uint64_t confirmed_ns = known_code__confirmed_ns(known);
	int err = mappings->past_lost_ns > confirmed_ns ? known_code__replaced(known, 0, UINT64_MAX, confirmed_ns + 1) : 0;

	for (size_t i = 0; i < mappings->past_nr && confirmed_ns && !err; i++) {
		const struct mapping *past = &mappings->past[i];
		bool has_no_event = past->until_ns == mappings->read_ns;

		if (past->until_ns > confirmed_ns)
			err = known_code__replaced(known, past->start, past->end, has_no_event ? confirmed_ns + 1 : past->until_ns);
	}
	return err;
}

int code_lists_publish(struct code_lists *lists, struct known_code *known, const struct target *target,
		       const struct unwind_tables *tables)
{
	const struct mappings *mappings = &target->mappings;
	struct list_making making = { .lists = lists, .known = known, .mappings = mappings, .tables = tables };
	int err = 0;

	err = note_replaced(known, mappings);
	making.list.closed_nr = lists->closed_nr;
	making.list.time_ns = mappings->read_ns > mappings->told_ns ? mappings->read_ns : mappings->told_ns;
	for (size_t i = 0; i < mappings->mapping_nr && !err; i++)
		if (mappings->mapping[i].object != OBJECT_GONE)
			err = push_mapping(&making, &mappings->mapping[i]);
	err = err ?: push_strange(&making) ?: push_stacks(&making, target->identity.pid);
	if (!err && making.list.region_nr)
		qsort(making.list.region, making.list.region_nr, sizeof(*making.list.region), by_start);
	err = err ?: known_code__publish(known, &making.list);
	free(making.list.region);
	free(making.list.range);
	return err;
}

void code_lists_release(struct code_lists *lists)
{
	free(lists->told);
	free(lists->stack);
	*lists = (struct code_lists){};
}
