// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/unwind/unwind_tables.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "collect/bpf.h"
#include "elf/probe_info.h"
#include "sandbox/client.h"
#include "unwind/unwind_table.h"

/* ---- word pool ---- */

static void remove_hole(struct word_pool *pool, size_t i)
{
	memmove(pool->hole + i, pool->hole + i + 1, (--pool->hole_nr - i) * sizeof(*pool->hole));
}

static int64_t take_of(struct word_pool *pool, size_t i, uint32_t nr)
{
	struct free_words *hole = &pool->hole[i];
	uint32_t at = hole->at;

	hole->at += nr;
	hole->nr -= nr;
	if (!hole->nr)
		remove_hole(pool, i);
	return at;
}

int64_t word_pool_take(struct word_pool *pool, uint32_t nr, uint64_t most)
{
	uint32_t at = pool->end;

	for (size_t i = 0; i < pool->hole_nr; i++)
		if (pool->hole[i].nr >= nr)
			return take_of(pool, i, nr);
	if ((uint64_t)at + nr > most)
		return -E2BIG;
	pool->end += nr;
	return at;
}

/* If the last hole reaches the end, merges it with the free words behind it. */
static void trim_end(struct word_pool *pool)
{
	const struct free_words *last = pool->hole_nr ? &pool->hole[pool->hole_nr - 1] : NULL;

	if (!last || last->at + last->nr != pool->end)
		return;
	pool->end = last->at;
	pool->hole_nr--;
}

static void join_next(struct word_pool *pool, size_t i)
{
	struct free_words *hole = &pool->hole[i];

	if (i + 1 == pool->hole_nr || hole->at + hole->nr != hole[1].at)
		return;
	hole->nr += hole[1].nr;
	remove_hole(pool, i + 1);
}

void word_pool_give(struct word_pool *pool, uint32_t at, uint32_t nr)
{
	const struct free_words hole = { at, nr };
	size_t i = pool->hole_nr;

	if (!nr || array_reserve(&pool->hole, &pool->hole_alloc, pool->hole_nr + 1))
		return;
	while (i && pool->hole[i - 1].at > at)
		i--;
	memmove(pool->hole + i + 1, pool->hole + i, (pool->hole_nr++ - i) * sizeof(hole));
	pool->hole[i] = hole;
	join_next(pool, i);
	if (i)
		join_next(pool, i - 1);
	trim_end(pool);
}

void word_pool_leave(struct word_pool *pool, uint32_t at, uint32_t nr)
{
	if (nr && !array_reserve(&pool->left, &pool->left_alloc, pool->left_nr + 1))
		pool->left[pool->left_nr++] = (struct free_words){ at, nr };
}

void word_pool_settle(struct word_pool *pool)
{
	while (pool->left_nr) {
		const struct free_words *left = &pool->left[--pool->left_nr];

		word_pool_give(pool, left->at, left->nr);
	}
}

void word_pool_release(struct word_pool *pool)
{
	free(pool->hole);
	free(pool->left);
	*pool = (struct word_pool){};
}

/* ---- memory ---- */

#define SLAB_BYTES (UNWIND_SLAB_WORDS * sizeof(uint64_t))

static uint32_t slabs_most(const struct unwind_tables *tables)
{
	return bpf_map__max_entries(tables->bpf->maps.unwind_slabs);
}

/* Adds a slab: a BPF map that the loader writes to as memory. */
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
	err = err ?: bpf_map_update_elem(bpf_map__fd(tables->bpf->maps.unwind_slabs), &nr, &fd,
					 BPF_ANY);
	close(fd);
	if (err && words != MAP_FAILED)
		munmap(words, SLAB_BYTES);
	if (!err)
		tables->slab[tables->slab_nr++] = words;
	return err;
}

/* Allocates words for a table, and adds slabs if needed. 0 or a negative errno: no words are allocated. */
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

/* Copies to the words from *at on, and advances *at behind them. */
static void copy_to_slabs(struct unwind_tables *tables, uint32_t *at, const void *from, size_t bytes)
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

#define ENTRY_BYTES_MAX 128 /* of start code without call frame information */

static bool has_rule(const struct unwind_table *table, uint64_t address)
{
	return unwind_table__rule(table, address).cfa_kind != UNWIND_CFA_NONE;
}

/*
 * The kernel jumps to a program's entry, so the entry has no caller. The entry of the dynamic linker lacks call
 * frame information that says this. The code from there to the next function with such information belongs to the
 * entry.
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

static int upload_table(struct unwind_tables *tables, const struct unwind_table *table, uint64_t entry,
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
	copy_to_slabs(tables, &at, table->page, (table->page_nr + 1) * sizeof(*table->page));
	ret->rule_at = at;
	copy_to_slabs(tables, &at, table->rule, table->rule_nr * sizeof(*table->rule));
	ret->row_at = at;
	copy_to_slabs(tables, &at, table->row, table->row_nr * sizeof(*table->row));
	return 0;
}

#define FIND_TRIES 100 /* 100 µs apart */

/*
 * Asks the kernel side for the file as it will appear in a process, by mapping it here: the mapping leads to the
 * same inode, also below an overlay. The mapping is shared, so that no process's breakpoints are in it. While
 * another thread here changes what is mapped, the kernel finds nothing and says EBUSY. False: wait until the kernel
 * side asks for the file.
 */
static bool find_kernel_file(const struct unwind_tables *tables, const struct object *object,
			     struct unwind_file *ret)
{
	struct file_request request = {};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &request, .ctx_size_in = sizeof(request));
	size_t bytes = getpagesize();
	void *page = mmap(NULL, bytes, PROT_READ, MAP_SHARED, object->fd, 0);
	int err = 0;

	if (page == MAP_FAILED)
		return false;
	request.address = (uintptr_t)page;
	opts.retval = -EBUSY;
	for (int i = 0; i < FIND_TRIES && !err && (int)opts.retval == -EBUSY; i++) {
		usleep(i ? 100 : 0);
		err = bpf_prog_test_run_opts(bpf_program__fd(tables->bpf->progs.file_find), &opts);
	}
	munmap(page, bytes);
	*ret = request.file;
	return !err && !opts.retval && request.file.inode;
}

/*
 * Publishes a table. The kernel side may have cached that addresses in the file have no table; the generation
 * ends that.
 */
static int publish_table(struct unwind_tables *tables, struct unwind_table_entry *entry)
{
	int err = bpf_map_update_elem(bpf_map__fd(tables->bpf->maps.unwind_objects), &entry->file,
				      &entry->object, BPF_ANY);

	entry->is_published = !err;
	__atomic_fetch_add(&tables->bpf->bss->code_generation, 1, __ATOMIC_RELEASE);
	return err;
}

/* ---- the sources of tables ---- */

static size_t mapped_bytes(uintptr_t wanted)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t start = 0, end = 0;
	char line[512];

	while (maps && start != wanted && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &start, &end) != 2)
			start = 0;
	if (maps)
		fclose(maps);
	return start == wanted ? end - start : 0;
}

const void *own_vdso(size_t bytes)
{
	uintptr_t start = getauxval(AT_SYSINFO_EHDR);

	return start && bytes && mapped_bytes(start) == bytes ? (const void *)start : NULL;
}

static int table_of_vdso(struct sandbox *sandbox, const struct mapping *mapping,
			 struct unwind_table **ret, struct reason *why)
{
	size_t bytes = mapping->end - mapping->start;
	const void *image = own_vdso(bytes);

	return image ? sandbox__image_table(sandbox, image, bytes, ret, why) : -ESRCH;
}

static int make_table(const struct mappings *mappings, uint32_t i, struct unwind_table **ret,
		      struct reason *why)
{
	const struct object *object = mappings->objects->object[i];
	const struct mapping *mapping = array_find(mappings, mapping, at, mappings->mapping[at].object == i);

	if (object->probe_info)
		return sandbox__unwind_table(mappings->objects->sandbox, object->fd, ret, why);
	if (object->fd >= 0)
		return object->is_given_up ? -EIO : -ENOEXEC;
	if (!strcmp(object->path, "[vdso]") && mapping)
		return table_of_vdso(mappings->objects->sandbox, mapping, ret, why);
	return -ENOENT;
}

/*
 * Publishes an entry. If the file could not be opened, or its inode cannot be found out, the kernel side asks for
 * it later.
 */
static int make_known(struct unwind_tables *tables, const struct object *object,
		      struct unwind_table_entry *entry)
{
	bool is_vdso = !strcmp(object->path, "[vdso]");

	entry->file = object->kernel_file;
	if (!is_vdso && !object->is_copy && (object->fd < 0 || !find_kernel_file(tables, object, &entry->file)))
		return 0;
	return is_vdso || entry->file.inode ? publish_table(tables, entry) : 0;
}

static int add_one(struct unwind_tables *tables, const struct mappings *mappings, uint32_t i)
{
	const struct object *object = mappings->objects->object[i];
	struct unwind_table_entry *entry = &tables->entry[i];
	struct unwind_table *table = NULL;
	struct reason why = {};
	int err = make_table(mappings, i, &table, &why);
	bool has_none = err == -ENODATA || err == -ENOEXEC;

	if (err == -ESRCH || !strcmp(object->path, "[vsyscall]"))
		return 0; /* the vDSO of the next process will do; the vsyscall page calls no allocator */
	if (!err)
		err = upload_table(tables, table, object->probe_info ? object->probe_info->entry : 0, entry);
	entry->object.copies = object->copies;
	unwind_table__free(table);
	if (!err || has_none)
		err = make_known(tables, object, entry);
	tables->is_full |= err == -E2BIG;
	entry->state = err	? UNWIND_TABLE_MISSING :
		       has_none ? UNWIND_TABLE_NONE :
				  UNWIND_TABLE_THERE;
	if (err == -EIO && *why.text)
		err = objects_note(mappings->objects, "no unwind table for %s: %s", object->path, why.text);
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

/* ---- telling the kernel side what is mapped ---- */

/* The last region of [start, end), or the last one kept: a program may reserve more than can be walked. */
static uint64_t last_region(uint64_t start, uint64_t end)
{
	uint64_t first = start >> UNWIND_REGION_SHIFT, last = (end - 1) >> UNWIND_REGION_SHIFT;

	return last - first < UNWIND_REGIONS_MAX ? last : first + UNWIND_REGIONS_MAX - 1;
}

uint64_t unwind_tables_regions(uint64_t start, uint64_t end)
{
	return last_region(start, end) - (start >> UNWIND_REGION_SHIFT) + 1;
}

/* Entries that the kernel side has noted itself are newer than the recorder's: BPF_NOEXIST keeps them. */
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
			continue; /* the map would have no room either: the kernel side looks up this mapping itself */
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

/* ---- answering the kernel side ---- */

/* NULL: the mapping, or the state of its table, is not known yet. */
static struct unwind_table_entry *entry_of(const struct unwind_tables *tables,
					   const struct mapping *mapping)
{
	if (!mapping || mapping->object >= tables->entry_nr ||
	    tables->entry[mapping->object].state == UNWIND_TABLE_UNSEEN)
		return NULL;
	return &tables->entry[mapping->object];
}

/*
 * The kernel side has the inode number of the file itself. On an overlay the upper half of that number may
 * differ.
 */
static bool is_wanted_table(const struct unwind_table_entry *entry, const struct object *object,
			    struct unwind_file file)
{
	if (entry->file.inode)
		return entry->file.inode == file.inode && entry->file.number == file.number;
	return (uint32_t)object->identity.inode == (uint32_t)file.number;
}

/* Publishes nothing if the mapping is not known (yet): the kernel side may ask again. */
static void answer_table_request(struct unwind_tables *tables, struct unwind_file file,
				 const struct unwind_object *wanted, const struct mappings *mappings)
{
	const struct mapping *mapping = mappings ? mappings_find(mappings, wanted->wanted_at) : NULL;
	struct unwind_table_entry *entry = entry_of(tables, mapping);

	if (entry && is_wanted_table(entry, mappings->objects->object[mapping->object], file)) {
		entry->file = file;
		if (entry->state != UNWIND_TABLE_MISSING && !publish_table(tables, entry))
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
			answer_table_request(tables, file, &wanted, mappings_of(what, wanted.wanted_by));
	}
}

static bool is_same_file(const struct unwind_file *a, const struct unwind_file *b)
{
	return a->inode == b->inode && a->number == b->number;
}

/* A file that was written to becomes another object. The table of that object may already have the same key. */
static bool has_successor(const struct unwind_tables *tables, const struct unwind_table_entry *entry)
{
	return array_any(tables->entry_nr, i, &tables->entry[i] != entry && tables->entry[i].is_published &&
			 is_same_file(&tables->entry[i].file, &entry->file));
}

/* Deletes the map's entry first: after unwind_tables_settle() another table may use the words. */
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
	for (uint32_t i = 0; i < tables->slab_nr; i++)
		munmap(tables->slab[i], SLAB_BYTES);
	word_pool_release(&tables->words);
	free(tables->entry);
	memset(tables, 0, sizeof(*tables));
}
