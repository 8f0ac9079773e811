// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which code made the memory that is resident: a page has the traceback of the event that brought it last. What becomes
 * of the page is not followed here: the loader asks the kernel which pages are resident (src/process/pagemap.h).
 *
 * A recording hears of pages in one of two ways (src/collect/sources/page_ways.h):
 *
 *	rmap	page_added, pages_moved: functions of the kernel that each new page, and each mremap, comes through
 *	faults	page_fault…, page_room_found: the code's own page faults, before they are handled
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "account/record.bpf.h"
#include "account/thread.bpf.h"
#include "shared/page_types.h"

const volatile __u64 pages_since_ns = 0; /* births count from here; CLOCK_MONOTONIC */
const volatile __u32 pages_shift = 0;	 /* of units of which one page is recorded */
const volatile bool pages_of_all = false; /* otherwise of the processes that the loader has chosen */

/* Leaves in the map, also of images that have ended. The loader subtracts each one that it removes. */
__u64 leaves_held = 0;
__u64 leaves_most = ~0ULL >> 1; /* the most leaves of one process; the loader sets it */

static __always_inline bool records_pages(const struct process *process)
{
	return pages_of_all || process->pages_image == process->image;
}

static const struct page_leaf no_pages;

static __always_inline struct page_leaf *leaf_at(struct process *process, const struct page_key *key)
{
	struct page_leaf *leaf = bpf_map_lookup_elem(&page_leaves, key);

	if (leaf || (__s64)process->leaves >= (__s64)leaves_most)
		return leaf;
	if (!bpf_map_update_elem(&page_leaves, key, &no_pages, BPF_NOEXIST)) {
		__sync_fetch_and_add(&process->leaves, 1);
		__sync_fetch_and_add(&leaves_held, 1);
	}
	return bpf_map_lookup_elem(&page_leaves, key);
}

/* keeps: if it has a note, that stays. */
static __always_inline void put_in_leaf(struct process *process, struct page_leaf *leaf, __u64 at, __u64 traceback, bool keeps)
{
	barrier_var(leaf); /* no arithmetic before it is checked */
	if (!leaf) {
		process_count_loss(process, LOSS_pages_dropped);
		return;
	}
	if (keeps && leaf->traceback[at & (LEAF_PAGES - 1)] != PAGE_UNSEEN)
		return;
	__sync_fetch_and_add(&process->pages_bytes, 1ULL << (PAGE_BITS + pages_shift));
	leaf->birth[at & (LEAF_PAGES - 1)] = (bpf_ktime_get_ns() - pages_since_ns) >> PAGE_BIRTH_BITS;
	leaf->traceback[at & (LEAF_PAGES - 1)] = traceback;
}

static __always_inline void put_page(struct process *process, __u64 unit, __u64 traceback)
{
	struct page_key key = { process->image, unit >> LEAF_BITS };

	put_in_leaf(process, leaf_at(process, &key), unit, traceback, false);
}

/* The registers of the thread's user code, also where a system call has touched the page. */
static __always_inline struct caller user_code(struct task_struct *task)
{
	const struct pt_regs *regs = (const void *)bpf_task_pt_regs(task);

	return (struct caller){ PT_REGS_IP_CORE(regs), PT_REGS_SP_CORE(regs), PT_REGS_FP_CORE(regs), CALLER_EXACT,
				LINK_REGISTER_CORE(regs) };
}

static __always_inline __u64 traceback_of_page(struct process *process, struct thread *thread, struct task_struct *task)
{
	struct caller caller = user_code(task);
	__u64 hash;

	if (!thread || task->flags & PF_IO_WORKER)
		return thread ? PAGE_BY_KERNEL : PAGE_UNTRACED;
	return traceback_record(&caller, process, &thread->walk, &hash, false) ? hash : PAGE_UNTRACED;
}

/* The page may be there already, or not come: then there is a note too many, which no pass reads. */
static __always_inline int page_faulted(__u64 address, bool may_wait)
{
	__u64 page = address >> PAGE_BITS, unit = page >> pages_shift;
	struct process *process;
	struct thread *thread;
	bool is_bystander;

	if (page != chosen_page(unit, pages_shift, settings.hash_seed) || (long)address < 0)
		return 0;
	thread = own_thread(may_wait, &is_bystander);
	process = is_bystander ? NULL : process_of_thread(thread);
	if (process && records_pages(process) && is_recording(process))
		put_page(process, unit, traceback_of_page(process, thread, bpf_get_current_task_btf()));
	return 0;
}

/* The event belongs to the recorded process's threads and to their children. Faults that may not be handled make none. */
SEC("perf_event")
int page_fault(struct bpf_perf_event_data *ctx)
{
	return page_faulted(ctx->addr, true);
}

/* It runs in every process, with interrupts off, and costs less than half of the event. */
SEC("tp_btf")
int page_fault_in_user(__u64 *ctx)
{
	return page_faulted(ctx[0], false);
}

/* A system call touches a page, or a program reads user memory, which brings no page. */
SEC("tp_btf")
int page_fault_in_kernel(__u64 *ctx)
{
	return bpf_get_current_task_btf()->pagefault_disabled ? 0 : page_faulted(ctx[0], false);
}

/* ---- several pages ---- */

#define LEAVES_AT_ONCE (1 << 16) /* 8 GiB: a larger room is mostly a reservation, where nothing was before */
#define MOVES_AT_ONCE (1 << 16)	 /* units: the rest of a larger range loses its events */

struct page_range {
	__u64 image, slot;
	__u64 first, nr; /* pages */
	__u64 from;	 /* the page that moves to the first one */
	__u64 traceback; /* that brings them all */
	__u64 keeps;	 /* pages that have a note keep it */
};

static __always_inline bool is_in_range(const struct page_range *range, __u64 unit, __u64 *ret_at)
{
	*ret_at = chosen_page(unit, pages_shift, settings.hash_seed) - range->first;
	return *ret_at < range->nr;
}

static __always_inline __u64 first_leaf(const struct page_range *range)
{
	return range->first >> pages_shift >> LEAF_BITS;
}

static __always_inline __u64 leaves_in(const struct page_range *range)
{
	return ((range->first + range->nr - 1) >> pages_shift >> LEAF_BITS) - first_leaf(range) + 1;
}

static long put_pages_in_leaf(__u32 i, void *range_)
{
	const struct page_range *range = range_;
	struct process *process = process_in(range->slot);
	struct page_key key = { range->image, first_leaf(range) + i };
	struct page_leaf *leaf = process ? leaf_at(process, &key) : NULL;
	__u64 ignored;

	for (__u64 at = 0; process && at < LEAF_PAGES; at++)
		if (is_in_range(range, key.leaf << LEAF_BITS | at, &ignored))
			put_in_leaf(process, leaf, at, range->traceback, range->keeps);
	return 0;
}

static long forget_in_leaf(__u32 i, void *range_)
{
	const struct page_range *range = range_;
	struct page_key key = { range->image, first_leaf(range) + i };
	struct page_leaf *leaf = bpf_map_lookup_elem(&page_leaves, &key);
	__u64 ignored;

	for (__u64 at = 0; leaf && at < LEAF_PAGES; at++)
		if (is_in_range(range, key.leaf << LEAF_BITS | at, &ignored))
			leaf->traceback[at] = PAGE_UNSEEN;
	return 0;
}

static __always_inline void forget_pages(struct page_range *range)
{
	__u64 nr = leaves_in(range);

	bpf_loop(nr < LEAVES_AT_ONCE ? nr : LEAVES_AT_ONCE, forget_in_leaf, range, 0);
}

/* Where the pages of a unit come from, another one may be recorded: then that one stands for it. */
static long copy_unit(__u32 i, void *range_)
{
	const struct page_range *range = range_;
	__u64 to = (range->first >> pages_shift) + i, at, from, traceback;
	struct page_key key = { range->image, 0 };
	struct process *process = process_in(range->slot);
	struct page_leaf *leaf, *to_leaf;

	if (!is_in_range(range, to, &at) || !process)
		return 0;
	from = (range->from + at) >> pages_shift;
	key.leaf = from >> LEAF_BITS;
	leaf = bpf_map_lookup_elem(&page_leaves, &key);
	traceback = leaf ? leaf->traceback[from & (LEAF_PAGES - 1)] : PAGE_UNSEEN;
	if (!leaf || traceback == PAGE_UNSEEN)
		return 0;
	key.leaf = to >> LEAF_BITS;
	to_leaf = leaf_at(process, &key);
	if (!to_leaf)
		return 0;
	to_leaf->birth[to & (LEAF_PAGES - 1)] = leaf->birth[from & (LEAF_PAGES - 1)];
	to_leaf->traceback[to & (LEAF_PAGES - 1)] = traceback;
	return 0;
}

/* Copies the notes of the range's pages from where they were. */
static __always_inline void copy_notes(struct page_range *range, __u64 from)
{
	__u64 nr = ((range->first + range->nr - 1) >> pages_shift) - (range->first >> pages_shift) + 1;

	range->from = from >> PAGE_BITS;
	bpf_loop(nr < MOVES_AT_ONCE ? nr : MOVES_AT_ONCE, copy_unit, range, 0);
}

/* The pages that an mremap moves. */
static __always_inline __u64 pages_to_move(__u64 old_bytes, __u64 new_bytes)
{
	return ((old_bytes < new_bytes ? old_bytes : new_bytes) + PAGE_BYTES - 1) >> PAGE_BITS;
}

static __always_inline bool is_for_pages(struct process *process, struct page_range *range)
{
	if (!process || !records_pages(process))
		return false;
	range->image = process->image;
	range->slot = process->slot;
	return true;
}

/* ---- by faults: memory that goes and moves ---- */

/*
 * For an mremap that asked for exactly this room, which is then where the pages go. It may still fail, so the notes stay
 * where they were, too: nothing is resident there if it does not, and what comes back comes by a fault.
 */
static __always_inline void note_mremap(struct page_range *range)
{
	const struct pt_regs *regs = (const void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	__u64 from = PT_REGS_PARM1_CORE_SYSCALL(regs), old = PT_REGS_PARM2_CORE_SYSCALL(regs);
	__u64 new = PT_REGS_PARM3_CORE_SYSCALL(regs);

	if (SYSCALL_NUMBER_CORE(regs) != NR_MREMAP || (new + PAGE_BYTES - 1) >> PAGE_BITS != range->nr)
		return;
	range->nr = pages_to_move(old, new);
	copy_notes(range, from);
}

/* The kernel has found room for a mapping. Nothing is resident there, whatever came there before. */
SEC("tp_btf/vm_unmapped_area")
int page_room_found(__u64 *ctx)
{
	const struct vm_unmapped_area_info *info = (const void *)ctx[1];
	__u64 address = ctx[0];
	struct page_range range = { .first = address >> PAGE_BITS };

	if ((long)address < 0 || !is_for_pages(current_process(), &range))
		return 0;
	range.nr = info->length >> PAGE_BITS;
	forget_pages(&range);
	note_mremap(&range);
	return 0;
}

/* ---- by rmap: each page that the kernel adds to a process's memory ---- */

static __always_inline __u64 pages_of_folio(const struct folio *folio)
{
	const struct folio___with_order *older = (const void *)folio;
	unsigned long flags = 0;

	bpf_core_read(&flags, sizeof(flags), folio);
	if (!(flags & 1UL << bpf_core_enum_value(enum pageflags, PG_head)))
		return 1;
	if (bpf_core_field_exists(older->_folio_order))
		return 1ULL << (BPF_CORE_READ(older, _folio_order) & 31);
	return 1ULL << (BPF_CORE_READ(folio, _flags_1) & 31);
}

/* The process that has the memory. While a fork or an exec makes it, its owner does not run in it yet. */
static __always_inline struct process *process_of_memory(struct mm_struct *mm)
{
	struct task_struct *owner = mm->owner;
	struct process *process = owner && owner->mm == mm ? find_process_of_task(owner) : NULL;

	return process ? find_memory_owner(process) : NULL;
}

/*
 * A page of pages that were there (khugepaged, MADV_COLLAPSE) is made below the lock for writing. The second bit of the owner
 * may be set; with the first one readers have it.
 */
static __always_inline bool is_collapse(const struct mm_struct *mm, const struct task_struct *task)
{
	return (BPF_CORE_READ(mm, mmap_lock.owner.counter) & ~2ULL) == (__u64)task;
}

/* A fault, MAP_POPULATE, mlock, another process's write: the page table is locked, so nothing preempts this. */
SEC("fentry")
int page_added(__u64 *ctx)
{
	const struct vm_area_struct *vma = (const void *)ctx[1];
	struct page_range range = { .first = ctx[2] >> PAGE_BITS, .nr = pages_of_folio((const void *)ctx[0]) };
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = vma->vm_mm;
	bool is_own = task->mm == mm && !(task->flags & PF_KTHREAD), is_bystander = false;
	struct thread *thread;
	struct process *process;
	__u64 ignored;

	if (range.nr < 1ULL << pages_shift && !is_in_range(&range, range.first >> pages_shift, &ignored))
		return 0;
	thread = is_own ? own_thread(true, &is_bystander) : NULL;
	if (is_bystander)
		return 0;
	process = is_own ? process_of_thread(thread) : process_of_memory(mm);
	if (!is_for_pages(process, &range) || !is_recording(process))
		return 0;
	range.keeps = range.nr > 1 && is_collapse(mm, task);
	range.traceback = is_own && !range.keeps ? traceback_of_page(process, thread, task) : PAGE_BY_KERNEL;
	if (range.nr == 1) {
		put_page(process, range.first >> pages_shift, range.traceback);
		return 0;
	}
	bpf_loop(leaves_in(&range), put_pages_in_leaf, &range, 0);
	return 0;
}

/* An mremap has ended. */
SEC("fexit")
int pages_moved(__u64 *ctx)
{
	const struct pt_regs *regs = (const void *)ctx[0];
	__u64 to = ctx[1], from = PT_REGS_PARM1_CORE_SYSCALL(regs);
	struct page_range range = { .first = to >> PAGE_BITS };

	if ((long)to < 0 || to == from || !is_for_pages(current_process(), &range))
		return 0;
	range.nr = pages_to_move(PT_REGS_PARM2_CORE_SYSCALL(regs), PT_REGS_PARM3_CORE_SYSCALL(regs));
	forget_pages(&range);
	copy_notes(&range, from);
	range.first = from >> PAGE_BITS;
	forget_pages(&range);
	return 0;
}
