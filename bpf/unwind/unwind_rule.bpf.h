/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_RULE_BPF_H
#define ALLOCSNAP_UNWIND_RULE_BPF_H

/*
 * Address → rule. First a cache for all processes; where it has nothing, the mapping that holds the
 * address says which file it is, and the loader's tables have the rule. No books are kept of what a
 * process maps: fork, exec and dlopen need nothing but the table of a file not seen before.
 */

#include <bpf/bpf_core_read.h>
#include "account/admit.bpf.h"
#include "unwind/file.bpf.h"
#include "maps.bpf.h"

/* How often a table was asked for that the loader has not told of. */
extern __u64 tables_wanted;

/* A word of the tables; 0 beyond their end. Global, so that the verifier looks into it once. */
__weak __noinline __u64 unwind_word(__u32 index)
{
	__u32 slab_nr = index / UNWIND_SLAB_WORDS, at = index % UNWIND_SLAB_WORDS;
	struct unwind_slab *slab = (void *)bpf_map_lookup_elem(&unwind_slabs, &slab_nr);
	__u64 *word;

	if (!slab)
		return 0;
	word = bpf_map_lookup_elem(slab, &at);
	return word ? *word : 0;
}

/* Of an array of 4-byte values that begins at a word. */
static __always_inline __u32 unwind_half_word(__u32 start, __u32 index)
{
	return unwind_word(start + index / 2) >> 32 * (index & 1);
}

struct unwind_rows {
	__u32 start;
};

static __always_inline unwind_row unwind_rows__at(const struct unwind_rows *rows, bpf_u32 index)
{
	return unwind_half_word(rows->start, index);
}

#include "shared/unwind_lookup.h"

/* The id of the rule at an address as in the file. */
__weak __noinline int unwind_find_id(__u32 page_at, __u32 row_at, __u32 page, __u64 address)
{
	const struct unwind_rows rows = { row_at };
	__u32 first = unwind_half_word(page_at, page);
	__u32 next = unwind_half_word(page_at, page + 1);

	return UNWIND_ROW_RULE(unwind_find_row(&rows, first, next - first, address));
}

static __always_inline void fill_unwind_place(struct task_struct *task, struct vm_area_struct *vma,
					      struct unwind_place *place)
{
	struct file *file = vma->vm_file;

	if (!(vma->vm_flags & VM_EXEC))
		return;
	place->start = vma->vm_start;
	place->end = vma->vm_end;
	if (!file) {
		/* the vDSO is where the kernel says, and has no file */
		place->is_anonymous = (__u64)task->mm->context.vdso != place->start;
		return;
	}
	place->offset = vma->vm_pgoff << 12;
	note_file(file, &place->file);
}

static long take_place(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
	fill_unwind_place(task, vma, data);
	return 0;
}

#define NO_ADDRESS (~0ULL)

/*
 * The address as in the file; NO_ADDRESS: not in its code. One value and not a flag beside it: clang 19
 * makes of that what the verifier of 6.1 takes for a register that was never written.
 */
static __always_inline __u64 unwind_address(const struct unwind_object *object, __u64 offset)
{
	for (__u32 i = 0; i < UNWIND_SEGMENTS_MAX; i++) {
		const struct unwind_segment *segment = &object->segment[i];

		if (i >= object->segment_nr)
			return NO_ADDRESS;
		if (offset >= segment->offset && offset < segment->end)
			return offset + segment->delta;
	}
	return NO_ADDRESS;
}

/* The rule of a known file's code. What begins a program may say nothing, and has no caller. */
static __always_inline int rule_in_object(struct walk *walk, const struct unwind_object *object,
					  __u64 offset)
{
	const struct unwind_rule root = { .cfa_kind = UNWIND_CFA_ROOT };
	__u64 address = unwind_address(object, offset), page;

	if (!object->page_nr) {
		walk->may_guess = 1;
		return UNWIND_NO_TABLE;
	}
	walk->rule = 0;
	if (address == NO_ADDRESS)
		return UNWIND_GOES_ON;
	page = (address >> UNWIND_PAGE_SHIFT) - object->first_page;
	if (page < object->page_nr)
		walk->rule = unwind_word(object->rule_at + unwind_find_id(object->page_at,
							object->row_at, page, address));
	if (!(walk->rule & 0xf) && address - object->entry < object->entry_end - object->entry)
		__builtin_memcpy(&walk->rule, &root, sizeof(root));
	return UNWIND_GOES_ON;
}

#define BUSY_TRIES 8

/* Which mapping holds an address. What the kernel's own books say is kept for the next one. */
static __always_inline int find_unwind_place(struct walk *walk, __u64 address, struct unwind_place *ret)
{
	struct place_key key = { walk->image, address >> UNWIND_REGION_SHIFT };
	struct unwind_place *known = bpf_map_lookup_elem(&unwind_places, &key);
	long err = -EBUSY;

	if (known && address - known->start < known->end - known->start) {
		*ret = *known;
		return UNWIND_GOES_ON;
	}
	for (int i = 0; i < BUSY_TRIES && err == -EBUSY; i++)
		err = bpf_find_vma(bpf_get_current_task_btf(), address, take_place, ret, 0);
	if (err == -EBUSY)
		return UNWIND_BUSY;
	if (err || !ret->end)
		return UNWIND_NO_CODE;
	if (!ret->is_anonymous)
		bpf_map_update_elem(&unwind_places, &key, ret, BPF_ANY);
	return UNWIND_GOES_ON;
}

struct new_code {
	struct place_key key;
	struct unwind_place place;
};

/* What can't be noted must not stay what it was. */
static long note_region(__u32 nr, void *data)
{
	struct new_code *code = data;
	struct place_key key = { code->key.image, code->key.region + nr };

	if (code->place.is_anonymous ||
	    bpf_map_update_elem(&unwind_places, &key, &code->place, BPF_ANY))
		bpf_map_delete_elem(&unwind_places, &key);
	return 0;
}

/* How many regions are looked at of [start, end): a program may reserve more than there can be code in. */
static __always_inline __u32 regions_of(__u64 start, __u64 end)
{
	__u64 nr = ((end - 1) >> UNWIND_REGION_SHIFT) - (start >> UNWIND_REGION_SHIFT) + 1;

	return nr < UNWIND_REGIONS_MAX ? nr : UNWIND_REGIONS_MAX;
}

/* Code has been mapped, in the place of what may have been there. */
static __always_inline void note_code(const struct process *process, struct vm_area_struct *vma)
{
	struct new_code code = { .key.image = process->image };

	fill_unwind_place(bpf_get_current_task_btf(), vma, &code.place);
	code.key.region = code.place.start >> UNWIND_REGION_SHIFT;
	bpf_loop(regions_of(code.place.start, code.place.end), note_region, &code, 0);
}

static long forget_region(__u32 nr, void *data)
{
	const struct place_key *first = data;
	struct place_key key = { first->image, first->region + nr };

	bpf_map_delete_elem(&unwind_places, &key);
	return 0;
}

/* Something will be mapped there, and it is not known what. */
static __always_inline void forget_code(const struct process *process, __u64 start, __u64 bytes)
{
	struct place_key first = { process->image, start >> UNWIND_REGION_SHIFT };

	bpf_loop(regions_of(start, start + bytes), forget_region, &first, 0);
}

/* As long as it is not said by whom and where, nobody finds anything there. */
static const struct unwind_object wanted_object = { .wanted_by = 1 };

/*
 * Once for each file; should there be no room, the loader finds out in its own time. An object is too
 * much for the 512 bytes of stack that all functions of a program have together.
 */
static __always_inline void want_table(const struct unwind_place *place)
{
	struct unwind_object *wanted;
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (bpf_map_update_elem(&unwind_objects, &place->file, &wanted_object, BPF_NOEXIST))
		return;
	wanted = bpf_map_lookup_elem(&unwind_objects, &place->file);
	if (!wanted)
		return;
	wanted->wanted_at = place->start;
	wanted->wanted_by = tgid;
	__sync_fetch_and_add(&tables_wanted, 1);
	ring(tgid);
}

/* Finds walk->rule for an address. UNWIND_GOES_ON, or why there is none; then may_guess is set. */
__weak __noinline int unwind_find_rule(struct walk *walk, __u64 address)
{
	struct unwind_place place = {};
	struct unwind_object *object;
	int end;

	if (!walk)
		return UNWIND_NO_TABLE;
	walk->may_guess = 0;
	end = find_unwind_place(walk, address, &place);
	if (end != UNWIND_GOES_ON)
		return end;
	if (place.is_anonymous) {
		walk->may_guess = 1;
		return UNWIND_NO_TABLE;
	}
	object = bpf_map_lookup_elem(&unwind_objects, &place.file);
	if (object && !object->wanted_by)
		return rule_in_object(walk, object, address - place.start + place.offset);
	if (!object)
		want_table(&place);
	return UNWIND_NO_TABLE;
}

/*
 * Code of a file without a table, or of no file, and what is no code, stay that until something is mapped
 * or a table is published: the salt of the cache's keys is another one then. A table that is still to come
 * and mappings that are locked say nothing of the next look.
 */
static __always_inline bool is_miss(const struct walk *walk, int end)
{
	return end == UNWIND_NO_CODE || (end == UNWIND_NO_TABLE && walk->may_guess);
}

/* What the cache has for the address: as unwind_find_rule(). */
static __always_inline int known_rule(struct walk *walk)
{
	int end = UNWIND_MISS_END(walk->rule);

	if (!UNWIND_IS_MISS(walk->rule))
		return UNWIND_GOES_ON;
	walk->may_guess = end == UNWIND_NO_TABLE;
	return end;
}

/* As unwind_find_rule(), by the cache. */
static __always_inline int unwind_rule_at(struct walk *walk, __u64 address)
{
	__u64 key = mix(walk->salt ^ address);
	__u32 at = key % UNWIND_CACHE_ENTRIES;
	struct unwind_cached *cached = bpf_map_lookup_elem(&unwind_cache, &at);
	int end;

	if (!cached)
		return UNWIND_NO_TABLE;
	walk->rule = *(volatile __u64 *)&cached->rule;
	if ((*(volatile __u64 *)&cached->check ^ walk->rule) == key)
		return known_rule(walk);
	end = unwind_find_rule(walk, address);
	if (is_miss(walk, end))
		walk->rule = UNWIND_MISS(end);
	else if (end != UNWIND_GOES_ON)
		return end;
	cached->rule = walk->rule;
	cached->check = key ^ walk->rule;
	return end;
}

#endif
