/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_RULE_BPF_H
#define ALLOCSNAP_UNWIND_RULE_BPF_H

/*
 * Finds the rule for an address. First it looks into a cache for all processes. If the cache has no rule, the mapping
 * that holds the address gives the file, and the loader's tables give the rule. There is no complete list of the
 * mappings of a process: fork, exec and dlopen need only the table of a new file.
 */

#include <bpf/bpf_core_read.h>
#include "account/admit.bpf.h"
#include "unwind/file.bpf.h"
#include "maps.bpf.h"

/* How often a table was wanted that the loader does not have yet. */
extern __u64 tables_wanted;

/* A word of the tables; 0 beyond their end. A global function, so that the verifier checks it only once. */
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

/* An element of an array of 4-byte values that begins at word `start`. */
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

/* The id of the rule at an address; the address is the one in the file. */
__weak __noinline int unwind_find_id(__u32 page_at, __u32 row_at, __u32 page, __u64 address)
{
	const struct unwind_rows rows = { row_at };
	__u32 first = unwind_half_word(page_at, page);
	__u32 next = unwind_half_word(page_at, page + 1);

	return UNWIND_ROW_RULE(unwind_find_row(&rows, first, next - first, address));
}

/* This is rare; the verifier takes half a millisecond for each pointer that is not read by BPF_CORE_READ(). */
static __always_inline void fill_unwind_place(struct task_struct *task, struct vm_area_struct *vma,
					      struct unwind_place *place)
{
	struct file *file = BPF_CORE_READ(vma, vm_file);

	if (!(vma->vm_flags & VM_EXEC))
		return;
	place->start = vma->vm_start;
	place->end = vma->vm_end;
	if (!file) {
		/* the vDSO has no file; the kernel knows its address */
		place->is_anonymous = (__u64)BPF_CORE_READ(task, mm, context.vdso) != place->start;
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
 * Turns a file offset into an address of the file; NO_ADDRESS: not in its code. It returns one value and no flag beside
 * it, because clang 19 compiles a flag to code that the verifier of 6.1 rejects (a register that was never written).
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

/* The rule in the table of a known file. The start of a program may have no rule; it has no caller. */
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

struct new_code {
	struct place_key key;
	struct unwind_place place;
};

/* Notes the mapping for one region. If that fails, it deletes the old entry, which is wrong now. */
static long note_region(__u32 nr, void *data)
{
	struct new_code *code = data;
	struct place_key key = { code->key.image, code->key.region + nr };

	if (code->place.is_anonymous ||
	    bpf_map_update_elem(&unwind_places, &key, &code->place, BPF_ANY))
		bpf_map_delete_elem(&unwind_places, &key);
	return 0;
}

#define BUSY_TRIES 8
#define REGIONS_NEAR 32 /* to each side */

/*
 * Asks the kernel for the mapping that holds an address, and keeps the answer in unwind_places for the next searches:
 * for the region of the address, and as many as `near` regions to each side. Fills walk->place; returns
 * bpf_find_vma()'s result. A global function: the verifier checks the callbacks once, and not for each try. Before
 * kernel 6.2 a map takes keys and values only from the stack and from maps.
 */
__weak __noinline int unwind_ask_place(struct walk *walk, __u64 address, __u32 near)
{
	struct new_code code = {};
	long err = bpf_find_vma(bpf_get_current_task_btf(), address, take_place, &code.place, 0);
	__u64 at = address >> UNWIND_REGION_SHIFT, first, last;

	if (!walk)
		return err;
	walk->place = code.place;
	if (!code.place.end || code.place.is_anonymous)
		return err;
	first = code.place.start >> UNWIND_REGION_SHIFT;
	last = (code.place.end - 1) >> UNWIND_REGION_SHIFT;
	first = at - first < near ? first : at - near;
	last = last - at < near ? last : at + near;
	code.key = (struct place_key){ walk->image, first };
	bpf_loop(last - first + 1, note_region, &code, 0);
	return err;
}

/*
 * Finds the mapping that holds an address: walk->place. Caches the first answer about a mapping for the regions
 * around, too: a later lookup may find the mappings locked. If two mappings share the region, only this region's entry
 * is cached, as this may happen often.
 */
static __always_inline int find_unwind_place(struct walk *walk, __u64 address)
{
	struct place_key key = { walk->image, address >> UNWIND_REGION_SHIFT };
	struct unwind_place *known = bpf_map_lookup_elem(&unwind_places, &key);
	__u32 near = known ? 0 : REGIONS_NEAR;
	int err = -EBUSY;

	if (known && address - known->start < known->end - known->start) {
		walk->place = *known;
		return UNWIND_GOES_ON;
	}
	for (int i = 0; i < BUSY_TRIES && err == -EBUSY; i++)
		err = unwind_ask_place(walk, address, near);
	if (err == -EBUSY)
		return UNWIND_BUSY;
	return err || !walk->place.end ? UNWIND_NO_CODE : UNWIND_GOES_ON;
}

/* The number of regions of [start, end), limited: a program may reserve more address space than code can fill. */
static __always_inline __u32 regions_of(__u64 start, __u64 end)
{
	__u64 nr = ((end - 1) >> UNWIND_REGION_SHIFT) - (start >> UNWIND_REGION_SHIFT) + 1;

	return nr < UNWIND_REGIONS_MAX ? nr : UNWIND_REGIONS_MAX;
}

/* Notes that code has been mapped, in place of any old code there. */
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

/* Forgets the code in a range where something unknown will be mapped. */
static __always_inline void forget_code(const struct process *process, __u64 start, __u64 bytes)
{
	struct place_key first = { process->image, start >> UNWIND_REGION_SHIFT };

	bpf_loop(regions_of(start, start + bytes), forget_region, &first, 0);
}

/* The state of a wanted object before its TGID and address are set: process 1 maps no file at address 0. */
static const struct unwind_object wanted_object = { .wanted_by = 1 };

/*
 * Asks the loader for the table of a file, once for each file. If the map has no room, the loader finds the file later
 * by itself. The object is static, because it is too large for the 512 bytes of stack that all functions of a program
 * share.
 */
static __always_inline void want_table(const struct unwind_file *file, __u64 start)
{
	struct unwind_object *wanted;
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (bpf_map_update_elem(&unwind_objects, file, &wanted_object, BPF_NOEXIST))
		return;
	wanted = bpf_map_lookup_elem(&unwind_objects, file);
	if (!wanted)
		return;
	wanted->wanted_at = start;
	wanted->wanted_by = tgid;
	__sync_fetch_and_add(&tables_wanted, 1);
	ring(tgid);
}

/* The code of an address, of which the original may lie elsewhere. NULL: the result of the search is *ret_end. */
static __always_inline struct unwind_object *object_of_place(struct walk *walk, __u64 address, int *ret_end)
{
	struct unwind_object *object;
	struct unwind_file file;

	*ret_end = find_unwind_place(walk, address);
	if (*ret_end != UNWIND_GOES_ON)
		return NULL;
	*ret_end = UNWIND_NO_TABLE;
	if (walk->place.is_anonymous) {
		walk->may_guess = 1;
		return NULL;
	}
	file = walk->place.file;
	object = bpf_map_lookup_elem(&unwind_objects, &file);
	if (object && !object->wanted_by)
		return object;
	if (!object)
		want_table(&file, walk->place.start);
	return NULL;
}

/* Finds walk->rule for an address. Returns UNWIND_GOES_ON, or why there is no rule; may_guess is set then. */
__weak __noinline int unwind_find_rule(struct walk *walk, __u64 address)
{
	struct unwind_object *object;
	__u64 offset;
	int end;

	if (!walk)
		return UNWIND_NO_TABLE;
	walk->may_guess = 0;
	object = object_of_place(walk, address, &end);
	if (!object)
		return end;
	offset = address - walk->place.start + walk->place.offset;
	if (object->copies.offset && offset >= object->copies.offset) {
		address = offset - object->copies.offset + object->copies.original;
		object = object_of_place(walk, address, &end);
		if (!object)
			return end;
		offset = address - walk->place.start + walk->place.offset;
	}
	return rule_in_object(walk, object, offset);
}

/*
 * Whether the cache may keep that an address has no rule. Code without a table, code of no file, and addresses outside
 * code stay so until something is mapped or a table is published, and then the salt of the cache keys changes. A table
 * that is still to come, or locked mappings, may be different at the next look-up.
 */
static __always_inline bool is_miss(const struct walk *walk, int end)
{
	return end == UNWIND_NO_CODE || (end == UNWIND_NO_TABLE && walk->may_guess);
}

/* Reads a cached word; returns as unwind_find_rule(). */
static __always_inline int known_rule(struct walk *walk)
{
	int end = UNWIND_MISS_END(walk->rule);

	if (!UNWIND_IS_MISS(walk->rule))
		return UNWIND_GOES_ON;
	walk->may_guess = end == UNWIND_NO_TABLE;
	return end;
}

/*
 * As unwind_find_rule(), with the cache. The key is another one for each address; its upper bits are the place. An
 * entry that two programs write at once fits no key, as the keys of near addresses are far apart.
 */
static __always_inline int unwind_rule_at(struct walk *walk, __u64 address)
{
	__u64 key = (walk->salt ^ address) * 0x9e3779b97f4a7c15ULL; /* 2^64 divided by the golden ratio */
	__u32 at = key >> (64 - UNWIND_CACHE_SHIFT);
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
	else if (end != UNWIND_GOES_ON) {
		walk->depends_on_more = 1;
		return end;
	}
	cached->rule = walk->rule;
	cached->check = key ^ walk->rule;
	return end;
}

#endif
