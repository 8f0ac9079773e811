// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/unwind_tables.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/array.h"
#include "collect/bpf.h"
#include "elf/object_facts.h"
#include "parser/parser.h"
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

/* Room behind what is taken; it is only taken when the table is whole. */
static int reserve(struct unwind_tables *tables, uint64_t word_nr)
{
	uint64_t end = tables->word_nr + word_nr;
	int err = 0;

	if (end > (uint64_t)slabs_most(tables) * UNWIND_SLAB_WORDS)
		return -E2BIG;
	while (!err && end > (uint64_t)tables->slab_nr * UNWIND_SLAB_WORDS)
		err = add_slab(tables);
	return err;
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
		  struct unwind_object *ret)
{
	uint32_t at = tables->word_nr;
	int err = reserve(tables, words_of(table->page_nr + 1, sizeof(*table->page)) +
					  words_of(table->rule_nr, sizeof(*table->rule)) +
					  words_of(table->row_nr, sizeof(*table->row)));

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
	tables->word_nr = at;
	return 0;
}

/*
 * What numbers a file most likely has in the kernel: as /proc/PID/maps has them, or else stat(). Where
 * that is wrong, the kernel's side asks.
 */
static struct unwind_file file_of(const struct object *object)
{
	uint64_t device = (object->dev >> 32) << 20 | (object->dev & 0xfffff);
	struct stat st;

	if (object->inode || object->fd < 0 || fstat(object->fd, &st))
		return (struct unwind_file){ device, object->inode };
	device = (uint64_t)major(st.st_dev) << 20 | minor(st.st_dev);
	return (struct unwind_file){ device, st.st_ino };
}

static int publish(struct unwind_tables *tables, struct unwind_file file,
		   const struct unwind_object *object)
{
	return bpf_map_update_elem(bpf_map__fd(tables->bpf->maps.unwind_objects), &file, object,
				   BPF_ANY);
}

/* ---- where tables come from ---- */

static int table_of_vdso(struct parser *parser, const struct mapping *mapping, pid_t pid,
			 struct unwind_table **ret, struct reason *why)
{
	size_t bytes = mapping->end - mapping->start;
	void *image = malloc(bytes);
	char path[64];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (!image || fd < 0 || pread(fd, image, bytes, mapping->start) != (ssize_t)bytes)
		err = image ? -ESRCH : -ENOMEM;
	else
		err = parser__image_table(parser, image, bytes, ret, why);
	if (fd >= 0)
		close(fd);
	free(image);
	return err;
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
		      pid_t pid, struct unwind_table **ret, struct reason *why)
{
	const struct object *object = mappings->objects->object[i];
	const struct mapping *mapping = mapping_of(mappings, i);

	if (object->facts)
		return table_of_file(tables, mappings->objects->parser, object->fd, ret, why);
	if (object->fd >= 0)
		return object->is_given_up ? -EIO : -ENOEXEC;
	if (!strcmp(object->path, "[vdso]") && mapping)
		return table_of_vdso(mappings->objects->parser, mapping, pid, ret, why);
	return -ENOENT;
}

static int add_one(struct unwind_tables *tables, const struct mappings *mappings, uint32_t i,
		   pid_t pid)
{
	const struct object *object = mappings->objects->object[i];
	struct unwind_table_entry *entry = &tables->entry[i];
	struct unwind_table *table = NULL;
	struct reason why = {};
	int err = make_table(tables, mappings, i, pid, &table, &why);
	bool has_none = err == -ENODATA || err == -ENOEXEC;

	if (err == -ESRCH || !strcmp(object->path, "[vsyscall]"))
		return 0; /* the vDSO of the next process will do; from the other nobody calls */
	if (!err)
		err = upload(tables, table,
			     object->facts ? object->facts->entry : 0, &entry->object);
	unwind_table__free(table);
	entry->file = file_of(object);
	if (!err || has_none)
		err = publish(tables, entry->file, &entry->object);
	entry->is_published = !err;
	entry->state = err	? UNWIND_TABLE_MISSING :
		       has_none ? UNWIND_TABLE_NONE :
				  UNWIND_TABLE_THERE;
	if (err == -EIO && *why.text)
		err = objects_note(mappings->objects, "no unwind table for %s: %s", object->path,
				   why.text);
	return err == -ENOMEM ? err : 0;
}

int unwind_tables_add(struct unwind_tables *tables, const struct mappings *mappings, pid_t pid)
{
	int err = 0;

	if (!tables->bpf)
		return 0;
	while (!err && tables->entry_nr < mappings->objects->object_nr)
		err = array_push(tables, entry, (struct unwind_table_entry){ 0 });
	for (size_t i = 0; i < mappings->used_nr && !err; i++)
		if (tables->entry[mappings->used[i]].state == UNWIND_TABLE_UNSEEN)
			err = add_one(tables, mappings, mappings->used[i], pid);
	return err;
}

/* ---- what is mapped ---- */

/* Of [start, end), or of what is kept of it: a program may reserve more than anybody can go through. */
static uint64_t last_region(uint64_t start, uint64_t end)
{
	uint64_t first = start >> UNWIND_REGION_SHIFT, last = (end - 1) >> UNWIND_REGION_SHIFT;

	return last - first < UNWIND_REGIONS_MAX ? last : first + UNWIND_REGIONS_MAX - 1;
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
	for (size_t i = 0; tables->bpf && i < mappings->mapping_nr; i++) {
		const struct mapping *mapping = &mappings->mapping[i];

		if (mapping->object < tables->entry_nr &&
		    tables->entry[mapping->object].is_published)
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

/* ---- what is asked for ---- */

static struct unwind_table_entry *entry_at(const struct unwind_tables *tables,
					   const struct mappings *mappings, uint64_t address)
{
	const struct mapping *mapping = mappings ? mappings_find(mappings, address) : NULL;

	if (!mapping || mapping->object >= tables->entry_nr)
		return NULL;
	return &tables->entry[mapping->object];
}

/*
 * Other numbers are those of another file system (overlayfs, btrfs), which leaves at least the lower
 * half of the inode; else another file has come to lie there since.
 */
static bool may_be_same(const struct unwind_table_entry *entry, struct unwind_file file)
{
	return (uint32_t)entry->file.inode == (uint32_t)file.inode;
}

/* Nothing where it is not known (yet) what is mapped there: it may be asked for again. */
static void answer(struct unwind_tables *tables, struct unwind_file file,
		   const struct unwind_object *wanted, const struct mappings *mappings)
{
	int fd = bpf_map__fd(tables->bpf->maps.unwind_objects);
	struct unwind_table_entry *entry = entry_at(tables, mappings, wanted->wanted_at);

	if (!entry || entry->state == UNWIND_TABLE_UNSEEN || !may_be_same(entry, file))
		bpf_map_delete_elem(fd, &file);
	else if (entry->state != UNWIND_TABLE_MISSING && !publish(tables, file, &entry->object))
		entry->file = file;
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
	free(tables->entry);
	memset(tables, 0, sizeof(*tables));
}
