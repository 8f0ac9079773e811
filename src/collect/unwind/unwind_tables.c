// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/unwind/unwind_tables.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "collect/bpf.h"
#include "collect/unwind/own_vdso.h"
#include "elf/object_facts.h"
#include "sandbox/parser.h"
#include "unwind/unwind_table.h"

#define SLAB_BYTES (UNWIND_SLAB_WORDS * sizeof(uint64_t))

/* ---- memory ---- */

static uint32_t slabs_most(const struct unwind_tables *tables)
{
	return bpf_map__max_entries(tables->bpf->maps.unwind_slabs);
}

/* A map of the kernel's that we write to as to memory. */
static int add_slab(struct unwind_tables *tables)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	uint32_t nr = tables->slab_nr;
	void *words = MAP_FAILED;
	int fd, err = 0;

	if (nr == slabs_most(tables))
		return -E2BIG;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_slab", sizeof(uint32_t), sizeof(uint64_t),
			    UNWIND_SLAB_WORDS, &options);
	if (fd < 0)
		return fd;
	words = mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (words == MAP_FAILED)
		err = -errno;
	if (!err)
		err = bpf_map_update_elem(bpf_map__fd(tables->bpf->maps.unwind_slabs), &nr, &fd,
					  BPF_ANY);
	close(fd);
	if (err && words != MAP_FAILED)
		munmap(words, SLAB_BYTES);
	if (!err)
		tables->slab[tables->slab_nr++] = words;
	return err;
}

/* Words for a table, with slabs that have them. 0 or a negative errno: none are taken. */
static int take_words(struct unwind_tables *tables, uint64_t word_nr, struct unwind_table_entry *entry)
{
	uint64_t most = (uint64_t)slabs_most(tables) * UNWIND_SLAB_WORDS;
	int64_t at = word_nr > most ? -E2BIG : word_pool_take(&tables->words, word_nr, most);
	int err = at < 0 ? at : 0;

	while (!err && at + word_nr > (uint64_t)tables->slab_nr * UNWIND_SLAB_WORDS)
		err = add_slab(tables);
	if (err && at >= 0)
		word_pool_give(&tables->words, at, word_nr);
	if (err)
		return err;
	entry->words_at = at;
	entry->word_nr = word_nr;
	return 0;
}

/* Copies into the words from *at on, which moves behind them. */
static void put(struct unwind_tables *tables, uint32_t *at, const void *from, size_t bytes)
{
	while (bytes) {
		uint32_t in_slab = *at % UNWIND_SLAB_WORDS;
		size_t part = (UNWIND_SLAB_WORDS - in_slab) * sizeof(uint64_t);

		if (part > bytes)
			part = bytes;
		memcpy(tables->slab[*at / UNWIND_SLAB_WORDS] + in_slab, from, part);
		from = (const char *)from + part;
		bytes -= part;
		*at += (part + 7) / 8;
	}
}

/* ---- one table ---- */

#define ENTRY_BYTES_MAX 128 /* of what begins a program and has no call frame information */

static bool has_rule(const struct unwind_table *table, uint64_t address)
{
	return unwind_table__rule(table, address).cfa_kind != UNWIND_CFA_NONE;
}

/*
 * What the kernel jumps to is called by nobody. The dynamic linker's has no call frame information
 * that would say so; what lies behind it up to the next function with some is the same code.
 */
static void find_entry(struct unwind_object *object, const struct unwind_table *table,
		       uint64_t entry)
{
	if (!entry || has_rule(table, entry))
		return;
	object->entry = object->entry_end = entry;
	while (object->entry_end - entry < ENTRY_BYTES_MAX && !has_rule(table, object->entry_end))
		object->entry_end++;
}

static uint64_t words_of(size_t nr, size_t bytes)
{
	return (nr * bytes + 7) / 8;
}

static int upload(struct unwind_tables *tables, const struct unwind_table *table, uint64_t entry,
		  struct unwind_table_entry *into)
{
	struct unwind_object *ret = &into->object;
	int err = take_words(tables, words_of(table->page_nr + 1, sizeof(*table->page)) +
					     words_of(table->rule_nr, sizeof(*table->rule)) +
					     words_of(table->row_nr, sizeof(*table->row)), into);
	uint32_t at = into->words_at;

	if (err)
		return err;
	*ret = (struct unwind_object){
		.first_page = table->first_page,
		.page_nr = table->page_nr,
		.segment_nr = table->segment_nr,
	};
	memcpy(ret->segment, table->segment, sizeof(ret->segment));
	find_entry(ret, table, entry);
	ret->page_at = at;
	put(tables, &at, table->page, (table->page_nr + 1) * sizeof(*table->page));
	ret->rule_at = at;
	put(tables, &at, table->rule, table->rule_nr * sizeof(*table->rule));
	ret->row_at = at;
	put(tables, &at, table->row, table->row_nr * sizeof(*table->row));
	return 0;
}

/*
 * The file as the kernel's side will find it in a process: asked of a mapping of our own, which leads to the same
 * inode, also below an overlay. Shared, so that nobody's breakpoints come to lie in it. False: the kernel's side has
 * to ask.
 */
static bool find_file(const struct unwind_tables *tables, const struct object *object,
		      struct unwind_file *ret)
{
	struct file_request request = {};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &request, .ctx_size_in = sizeof(request));
	size_t bytes = getpagesize();
	void *page = mmap(NULL, bytes, PROT_READ, MAP_SHARED, object->fd, 0);
	int err;

	if (page == MAP_FAILED)
		return false;
	request.address = (uintptr_t)page;
	err = bpf_prog_test_run_opts(bpf_program__fd(tables->bpf->progs.find_file), &opts);
	munmap(page, bytes);
	*ret = request.file;
	return !err && !opts.retval && request.file.inode;
}

/* What is cached of addresses in the file may be that it had no table. */
static int publish(struct unwind_tables *tables, struct unwind_table_entry *entry)
{
	int err = bpf_map_update_elem(bpf_map__fd(tables->bpf->maps.unwind_objects), &entry->file,
				      &entry->object, BPF_ANY);

	entry->is_published = !err;
	__atomic_fetch_add(&tables->bpf->bss->code_generation, 1, __ATOMIC_RELEASE);
	return err;
}

/* ---- where tables come from ---- */

static int table_of_vdso(struct parser *parser, const struct mapping *mapping,
			 struct unwind_table **ret, struct reason *why)
{
	size_t bytes = mapping->end - mapping->start;
	const void *image = own_vdso(bytes);

	return image ? parser__image_table(parser, image, bytes, ret, why) : -ESRCH;
}

static int table_of_file(struct unwind_tables *tables, struct parser *parser, int fd,
			 struct unwind_table **ret, struct reason *why)
{
	struct unwind_cache_key key;
	bool is_kept = unwind_cache__key(tables->cache, fd, &key);
	int err;

	if (is_kept)
		*ret = unwind_cache__load(tables->cache, &key);
	if (is_kept && *ret)
		return 0;
	err = parser__unwind_table(parser, fd, ret, why);
	if (!err && is_kept)
		unwind_cache__store(tables->cache, &key, fd, *ret);
	return err;
}

static const struct mapping *mapping_of(const struct mappings *mappings, uint32_t object)
{
	for (size_t i = 0; i < mappings->mapping_nr; i++)
		if (mappings->mapping[i].object == object)
			return &mappings->mapping[i];
	return NULL;
}

static int make_table(struct unwind_tables *tables, const struct mappings *mappings, uint32_t i,
		      struct unwind_table **ret, struct reason *why)
{
	const struct object *object = mappings->objects->object[i];
	const struct mapping *mapping = mapping_of(mappings, i);

	if (object->facts)
		return table_of_file(tables, mappings->objects->parser, object->fd, ret, why);
	if (object->fd >= 0)
		return object->is_given_up ? -EIO : -ENOEXEC;
	if (!strcmp(object->path, "[vdso]") && mapping)
		return table_of_vdso(mappings->objects->parser, mapping, ret, why);
	return -ENOENT;
}

/* Of a file that could not be opened, or whose inode nobody tells, the kernel's side asks. */
static int make_known(struct unwind_tables *tables, const struct object *object,
		      struct unwind_table_entry *entry)
{
	bool is_vdso = !strcmp(object->path, "[vdso]");

	entry->file = object->kernel_file;
	if (!is_vdso && !object->is_copy && (object->fd < 0 || !find_file(tables, object, &entry->file)))
		return 0;
	return is_vdso || entry->file.inode ? publish(tables, entry) : 0;
}

static int add_one(struct unwind_tables *tables, const struct mappings *mappings, uint32_t i)
{
	const struct object *object = mappings->objects->object[i];
	struct unwind_table_entry *entry = &tables->entry[i];
	struct unwind_table *table = NULL;
	struct reason why = {};
	int err = make_table(tables, mappings, i, &table, &why);
	bool has_none = err == -ENODATA || err == -ENOEXEC;

	if (err == -ESRCH || !strcmp(object->path, "[vsyscall]"))
		return 0; /* the vDSO of the next process will do; from the other nobody calls */
	if (!err)
		err = upload(tables, table, object->facts ? object->facts->entry : 0, entry);
	unwind_table__free(table);
	if (!err || has_none)
		err = make_known(tables, object, entry);
	tables->is_full |= err == -E2BIG;
	entry->state = err	? UNWIND_TABLE_MISSING :
		       has_none ? UNWIND_TABLE_NONE :
				  UNWIND_TABLE_THERE;
	if (err == -EIO && *why.text)
		err = objects_note(mappings->objects, "no unwind table for %s: %s", object->path,
				   why.text);
	return err == -ENOMEM ? err : 0;
}

int unwind_tables_add(struct unwind_tables *tables, const struct mappings *mappings)
{
	int err = 0;

	if (!tables->bpf)
		return 0;
	while (!err && tables->entry_nr < mappings->objects->object_nr)
		err = array_push(tables, entry, (struct unwind_table_entry){ 0 });
	for (size_t i = 0; i < mappings->used_nr && !err; i++)
		if (tables->entry[mappings->used[i]].state == UNWIND_TABLE_UNSEEN)
			err = add_one(tables, mappings, mappings->used[i]);
	return err;
}

/* ---- what is mapped ---- */

/* Of [start, end), or of what is kept of it: a program may reserve more than anybody can go through. */
static uint64_t last_region(uint64_t start, uint64_t end)
{
	uint64_t first = start >> UNWIND_REGION_SHIFT, last = (end - 1) >> UNWIND_REGION_SHIFT;

	return last - first < UNWIND_REGIONS_MAX ? last : first + UNWIND_REGIONS_MAX - 1;
}

uint64_t unwind_tables_regions(uint64_t start, uint64_t end)
{
	return last_region(start, end) - (start >> UNWIND_REGION_SHIFT) + 1;
}

/* What the kernel's side has noted itself is younger than what we have read. */
static void tell_regions(const struct unwind_tables *tables, const struct mapping *mapping,
			 uint64_t image, bool is_true)
{
	int fd = bpf_map__fd(tables->bpf->maps.unwind_places);
	const struct unwind_place place = {
		.file = tables->entry[mapping->object].file,
		.start = mapping->start,
		.end = mapping->end,
		.offset = mapping->offset,
	};
	struct place_key key = { image, mapping->start >> UNWIND_REGION_SHIFT };
	uint64_t last = last_region(mapping->start, mapping->end);

	for (; key.region <= last; key.region++)
		if (is_true)
			bpf_map_update_elem(fd, &key, &place, BPF_NOEXIST);
		else
			bpf_map_delete_elem(fd, &key);
}

void unwind_tables_tell(struct unwind_tables *tables, const struct mappings *mappings,
			uint64_t image, bool is_true)
{
	uint64_t told_nr = 0, region_nr;

	for (size_t i = 0; tables->bpf && i < mappings->mapping_nr; i++) {
		const struct mapping *mapping = &mappings->mapping[i];

		if (!mapping_is_there(mappings, mapping) || mapping->object >= tables->entry_nr ||
		    !tables->entry[mapping->object].is_published)
			continue;
		region_nr = unwind_tables_regions(mapping->start, mapping->end);
		if (told_nr + region_nr > UNWIND_REGIONS_MAX)
			continue; /* the map has no more room either: the kernel's side looks there itself */
		told_nr += region_nr;
		tell_regions(tables, mapping, image, is_true);
	}
}

void unwind_tables_forget(struct unwind_tables *tables, uint64_t start, uint64_t end,
			  uint64_t image)
{
	struct place_key key = { image, start >> UNWIND_REGION_SHIFT };
	uint64_t last = last_region(start, end);

	for (; tables->bpf && key.region <= last; key.region++)
		bpf_map_delete_elem(bpf_map__fd(tables->bpf->maps.unwind_places), &key);
}

#define PLACES_AT_ONCE 1024

void unwind_tables_forget_image(struct unwind_tables *tables, uint64_t image)
{
	static struct place_key key[PLACES_AT_ONCE];
	static struct unwind_place place[PLACES_AT_ONCE];
	uint32_t at, nr;
	bool is_first = true;
	int fd, err = tables->bpf ? 0 : -ENOENT;

	fd = err ? -1 : bpf_map__fd(tables->bpf->maps.unwind_places);
	for (; !err; is_first = false) {
		nr = PLACES_AT_ONCE;
		err = bpf_map_lookup_batch(fd, is_first ? NULL : &at, &at, key, place, &nr, NULL);
		for (uint32_t i = 0; i < nr && (!err || err == -ENOENT); i++)
			if (key[i].image == image)
				bpf_map_delete_elem(fd, &key[i]);
	}
}

/* ---- what is asked for ---- */

/* NULL: nothing is known of what is mapped, or not yet. */
static struct unwind_table_entry *entry_of(const struct unwind_tables *tables,
					   const struct mapping *mapping)
{
	if (!mapping || mapping->object >= tables->entry_nr ||
	    tables->entry[mapping->object].state == UNWIND_TABLE_UNSEEN)
		return NULL;
	return &tables->entry[mapping->object];
}

/* The kernel's side has the file's own number; an overlay's is another one in its upper half. */
static bool is_wanted(const struct unwind_table_entry *entry, const struct object *object,
		      struct unwind_file file)
{
	if (entry->file.inode)
		return entry->file.inode == file.inode && entry->file.number == file.number;
	return (uint32_t)object->identity.inode == (uint32_t)file.number;
}

/* Nothing where it is not known (yet) what is mapped there: it may be asked for again. */
static void answer(struct unwind_tables *tables, struct unwind_file file,
		   const struct unwind_object *wanted, const struct mappings *mappings)
{
	const struct mapping *mapping = mappings ? mappings_find(mappings, wanted->wanted_at) : NULL;
	struct unwind_table_entry *entry = entry_of(tables, mapping);

	if (entry && is_wanted(entry, mappings->objects->object[mapping->object], file)) {
		entry->file = file;
		if (entry->state != UNWIND_TABLE_MISSING && !publish(tables, entry))
			return;
	}
	bpf_map_delete_elem(bpf_map__fd(tables->bpf->maps.unwind_objects), &file);
}

void unwind_tables_answer(struct unwind_tables *tables,
			  const struct mappings *(*mappings_of)(void *what, pid_t pid), void *what)
{
	uint64_t wanted_nr;
	struct unwind_file file, next;
	struct unwind_object wanted;
	int fd, err;

	if (!tables->bpf)
		return;
	wanted_nr = __atomic_load_n(&tables->bpf->bss->tables_wanted, __ATOMIC_ACQUIRE);
	if (wanted_nr == tables->answered)
		return;
	tables->answered = wanted_nr;
	fd = bpf_map__fd(tables->bpf->maps.unwind_objects);
	for (err = bpf_map_get_next_key(fd, NULL, &file); !err; file = next) {
		err = bpf_map_get_next_key(fd, &file, &next);
		if (!bpf_map_lookup_elem(fd, &file, &wanted) && wanted.wanted_by)
			answer(tables, file, &wanted, mappings_of(what, wanted.wanted_by));
	}
}

static bool is_same_file(const struct unwind_file *a, const struct unwind_file *b)
{
	return a->inode == b->inode && a->number == b->number;
}

/* A file that was written to is another object, whose table stands under the same key by now. */
static bool has_successor(const struct unwind_tables *tables, const struct unwind_table_entry *entry)
{
	for (size_t i = 0; i < tables->entry_nr; i++)
		if (&tables->entry[i] != entry && tables->entry[i].is_published &&
		    is_same_file(&tables->entry[i].file, &entry->file))
			return true;
	return false;
}

/* Out of the map first: its words may be another table's after unwind_tables_settle(). */
void unwind_tables_drop(struct unwind_tables *tables, uint32_t object)
{
	struct unwind_table_entry *entry;

	if (object >= tables->entry_nr)
		return;
	entry = &tables->entry[object];
	if (entry->is_published && !has_successor(tables, entry))
		bpf_map_delete_elem(bpf_map__fd(tables->bpf->maps.unwind_objects), &entry->file);
	word_pool_leave(&tables->words, entry->words_at, entry->word_nr);
	*entry = (struct unwind_table_entry){};
}

void unwind_tables_settle(struct unwind_tables *tables)
{
	word_pool_settle(&tables->words);
}

uint64_t unwind_tables_missing(const struct unwind_tables *tables, const struct mappings *mappings)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < mappings->used_nr; i++)
		nr += mappings->used[i] < tables->entry_nr &&
		      tables->entry[mappings->used[i]].state == UNWIND_TABLE_MISSING;
	return nr;
}

void unwind_tables_release(struct unwind_tables *tables)
{
	unwind_cache__close(tables->cache);
	for (uint32_t i = 0; i < tables->slab_nr; i++)
		munmap(tables->slab[i], SLAB_BYTES);
	word_pool_release(&tables->words);
	free(tables->entry);
	memset(tables, 0, sizeof(*tables));
}
