// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Events of pages, and what makes them go, move and stay, beside a model of single pages. */
#include <stdlib.h>
#include <string.h>

#include "shared/page_types.h"
#include "target.h"

#define START (UINT64_C(0x7f0000000) >> 4 << 4) /* number of the first page */
#define PAGES 300
#define STEPS 2000
#define NR_MREMAP 25

extern __u32 pages_shift;
extern bool pages_of_all;
extern bool fake_lacks_fields;
extern struct settings settings;
int page_fault(struct bpf_perf_event_data *ctx);
int page_fault_in_user(__u64 *ctx);
int page_fault_in_kernel(__u64 *ctx);
int page_room_found(__u64 *ctx);
int page_added(__u64 *ctx);
int pages_moved(__u64 *ctx);

static void touch(__u64 page)
{
	struct bpf_perf_event_data event = { .addr = page << PAGE_BITS | 123 };

	page_fault(&event);
}

static void find_room(__u64 page, __u64 nr)
{
	struct vm_unmapped_area_info info = { .length = nr << PAGE_BITS };
	__u64 ctx[] = { page << PAGE_BITS, (__u64)&info };

	page_room_found(ctx);
}

static void move(__u64 from, __u64 old_nr, __u64 to, __u64 nr)
{
	fake.user_regs = (struct pt_regs){
		.orig_ax = NR_MREMAP, .di = from << PAGE_BITS, .si = old_nr << PAGE_BITS, .dx = nr << PAGE_BITS,
	};
	find_room(to, nr);
	fake.user_regs.orig_ax = 0;
}

static const struct page_leaf *leaf_of(__u64 unit)
{
	struct page_key key = { book_of(process)->image, unit >> LEAF_BITS };
	struct fake_walk walk = {};

	while (fake_map_walk(&page_leaves, &walk))
		if (!memcmp(walk.key, &key, sizeof(key)))
			return walk.value;
	return NULL;
}

static __u64 traceback_of_unit(__u64 unit)
{
	const struct page_leaf *leaf = leaf_of(unit);

	return leaf ? leaf->traceback[unit & (LEAF_PAGES - 1)] : PAGE_UNSEEN;
}

static void stand_at(__u64 ip)
{
	fake.user_regs = (struct pt_regs){ .ip = ip, .sp = sp_at(1) };
}

static void begin_with(__u32 leaves)
{
	world_init();
	fake_map_resize(&page_leaves, leaves);
	pages_of_all = true;
	stand_at(0x401000);
}

static void begin(void)
{
	begin_with(1 << 10);
}

static void expect_brought(__u64 pages)
{
	expect_same(book_of(process)->pages_bytes, pages << PAGE_BITS, "bytes that came");
	expect(allocations, 0);
}

Test(pages, belong_to_the_code_that_needed_them)
{
	__u64 first, second;

	begin();
	touch(START);
	fake.user_regs.ip = 0x402000;
	touch(START + 1);
	first = traceback_of_unit(START);
	second = traceback_of_unit(START + 1);
	cr_expect(first > PAGE_UNTRACED && second > PAGE_UNTRACED && first != second);
	touch(START); /* it came again */
	expect_same(traceback_of_unit(START), second, "its traceback");
	expect_brought(3);
}

Test(pages, of_a_kernel_thread_have_no_code)
{
	begin();
	main_thread->task.flags = PF_IO_WORKER;
	touch(START);
	expect_same(traceback_of_unit(START), PAGE_BY_KERNEL, "its traceback");
}

Test(pages, count_only_while_they_are_recorded)
{
	begin();
	book_of(process)->is_open = 0;
	touch(START);
	thread_run(thread_start(process_start(200), 200));
	touch(START);
	expect_same(fake_map_count(&page_leaves), 0, "leaves");
}

/* A BPF program, also this one, reads user memory that is not there; or code touches the kernel's. */
Test(pages, that_a_fault_cannot_bring_are_not_noted)
{
	__u64 ctx[3] = { START << PAGE_BITS };

	begin();
	main_thread->task.pagefault_disabled = 1;
	page_fault_in_kernel(ctx);
	main_thread->task.pagefault_disabled = 0;
	ctx[0] |= 1ULL << 63;
	page_fault_in_user(ctx);
	expect_same(fake_map_count(&page_leaves), 0, "leaves");
	ctx[0] = START << PAGE_BITS;
	page_fault_in_kernel(ctx);
	cr_expect(traceback_of_unit(START) > PAGE_UNTRACED, "of a system call");
	ctx[0] += 1 << PAGE_BITS;
	page_fault_in_user(ctx);
	expect_same(traceback_of_unit(START + 1), traceback_of_unit(START), "its traceback");
}

/* The thread that is in the way runs when interrupts are on again. */
Test(pages, at_a_tracepoint_do_not_wait_for_the_state_of_a_thread)
{
	__u64 ctx[3] = { START << PAGE_BITS };

	begin();
	thread_run(thread_start(process, 101));
	stand_at(0x401000);
	fake.storage_tries = 0;
	fake.storage_busy = 1000;
	page_fault_in_user(ctx);
	expect_same(fake.storage_tries, 1, "tries");
	expect_same(traceback_of_unit(START), PAGE_UNTRACED, "its traceback");
}

static bool is_noted(__u64 page)
{
	touch(page);
	return traceback_of_unit(page) != PAGE_UNSEEN;
}

Test(pages, are_of_the_processes_and_programs_that_were_chosen)
{
	begin();
	pages_of_all = false;
	cr_expect(!is_noted(START));
	book_of(process)->pages_image = book_of(process)->image;
	cr_expect(is_noted(START));
	clear_begin(process);
	clear_end(process);
	expect_brought(0);
	cr_expect(is_noted(START + 1), "after its traces were cleared");
	thread_exec(main_thread);
	cr_expect(!is_noted(START + 2), "the next program");
}

Test(pages, without_room_are_counted)
{
	begin_with(1);
	touch(START);
	touch(START + LEAF_PAGES);
	touch(START + 1);
	expect_same(book_of(process)->loss[LOSS_pages_dropped], 1, "pages_dropped");
}

extern __u64 leaves_held, leaves_most;

Test(pages, take_no_more_than_the_share_of_their_process)
{
	struct target_process *other;

	begin();
	other = process_start(200);
	leaves_most = 2;
	for (int i = 0; i < 4; i++)
		touch(START + i * LEAF_PAGES);
	move(START, 1, START + 8 * LEAF_PAGES, 1);
	expect_same(fake_map_count(&page_leaves), 2, "leaves");
	expect_same(leaves_held, 2, "leaves of all");
	expect_same(book_of(process)->loss[LOSS_pages_dropped], 2, "pages_dropped");
	process_admit(other);
	thread_run(thread_start(other, 200));
	stand_at(0x401000);
	touch(START);
	expect_same(leaves_held, 3, "leaves of all");
}

/* ---- beside a model ---- */

static __u64 model[2 * PAGES]; /* traceback of each page */

static void touch_some(__u64 at, __u64 nr)
{
	stand_at(0x400000 + rand() % 1000 * 16);
	for (__u64 i = at; i < at + nr; i++) {
		touch(START + i);
		model[i] = traceback_of_unit(START + i);
	}
}

/* To the other half, where nothing is. The mremap may fail, so the notes stay where they were, too. */
static void move_some(__u64 at, __u64 nr)
{
	__u64 larger = nr + rand() % 20, to = PAGES + rand() % (PAGES - larger);

	move(START + at, nr, START + to, larger);
	memset(&model[to], 0, larger * sizeof(*model));
	memcpy(&model[to], &model[at], nr * sizeof(*model));
}

static void step(void)
{
	__u64 at = rand() % PAGES, most = PAGES - at < 90 ? PAGES - at : 90, nr = 1 + rand() % most;

	switch (rand() % 4) {
	case 0:
		find_room(START + at, nr);
		memset(&model[at], 0, nr * sizeof(*model));
		break;
	case 1:
		move_some(at, nr);
		break;
	default:
		touch_some(at, nr);
	}
}

Test(pages, go_and_move_as_their_memory_does)
{
	begin();
	srand(1);
	for (int i = 0; i < STEPS; i++) {
		step();
		for (__u64 page = 0; page < 2 * PAGES && i % 20 == 0; page++)
			cr_assert_eq(traceback_of_unit(START + page), model[page], "page %llu after step %d", page, i);
	}
}

/* The third argument of mmap is no size, but rounded up it is a page. */
Test(pages, stay_where_they_are_when_another_call_finds_room)
{
	__u64 traceback;

	begin();
	touch(START);
	traceback = traceback_of_unit(START);
	fake.user_regs = (struct pt_regs){ .orig_ax = 9, .di = START << PAGE_BITS, .si = 1 << PAGE_BITS, .dx = 3 };
	find_room(START + PAGES, 1);
	expect_same(traceback_of_unit(START + PAGES), PAGE_UNSEEN, "the room that was found");
	expect_same(traceback_of_unit(START), traceback, "the page");
}

/* ---- by rmap ---- */

/* The kernel adds a folio of 2^order pages to the memory of the process. */
static void add_folio(__u64 page, unsigned long order)
{
	struct vm_area_struct vma = { .vm_mm = &process->mm };
	struct folio folio = { order ? 1UL << PG_head : 0, order };
	__u64 ctx[] = { (__u64)&folio, (__u64)&vma, page << PAGE_BITS };

	fake_lacks_fields = true; /* a kernel since 6.6 */
	page_added(ctx);
	fake_lacks_fields = false;
}

static void end_mremap(__u64 from, __u64 old_nr, __u64 new_nr, __u64 result)
{
	struct pt_regs regs = { .di = from << PAGE_BITS, .si = old_nr << PAGE_BITS, .dx = new_nr << PAGE_BITS };
	__u64 ctx[] = { (__u64)&regs, result };

	pages_moved(ctx);
}

static void begin_rmap(void)
{
	begin();
	process->mm.owner = &main_thread->task;
}

/* Returns how many of these pages have the traceback. */
static int pages_with(__u64 traceback, __u64 first, __u64 nr)
{
	int found = 0;

	for (__u64 page = first; page < first + nr; page++)
		found += traceback_of_unit(page) == traceback;
	return found;
}

Test(pages, of_a_folio_belong_to_the_code_that_needed_one_of_them)
{
	begin_rmap();
	add_folio(START, 9);
	cr_expect(traceback_of_unit(START) > PAGE_UNTRACED);
	expect_same(pages_with(traceback_of_unit(START), START, 512), 512, "pages");
	expect_same(traceback_of_unit(START + 512), PAGE_UNSEEN, "the next page");
	expect_brought(512);
	stand_at(0x402000);
	add_folio(START + 512, 0);
	cr_expect(traceback_of_unit(START + 512) > PAGE_UNTRACED && traceback_of_unit(START + 512) != traceback_of_unit(START));
	expect_brought(513);
}

Test(pages, of_a_folio_before_linux_6_6)
{
	struct vm_area_struct vma;
	struct folio___with_order folio = { 1UL << PG_head, 9 };
	__u64 ctx[] = { (__u64)&folio, (__u64)&vma, START << PAGE_BITS };

	begin_rmap();
	vma.vm_mm = &process->mm;
	page_added(ctx);
	expect_brought(512);
}

Test(pages, that_another_process_brings_have_no_code)
{
	begin_rmap();
	add_folio(START, 0);
	thread_run(thread_start(process_start(200), 200));
	add_folio(START, 0);
	expect_same(traceback_of_unit(START), PAGE_BY_KERNEL, "another one writes");
	main_thread->task.flags = PF_KTHREAD;
	thread_run(main_thread);
	add_folio(START + 1, 0);
	expect_same(traceback_of_unit(START + 1), PAGE_BY_KERNEL, "a thread of the kernel uses the memory");
	main_thread->task.mm = NULL;
	add_folio(START + 2, 0);
	expect_same(traceback_of_unit(START + 2), PAGE_UNSEEN, "memory that is not its owner's");
}

Test(pages, stay_whose_they_are_when_one_is_made_of_them)
{
	__u64 traceback;

	begin_rmap();
	add_folio(START, 0);
	traceback = traceback_of_unit(START);
	stand_at(0x402000);
	process->mm.mmap_lock.owner.counter = (__u64)&main_thread->task | 1; /* readers have it */
	add_folio(START + 512, 9);
	process->mm.mmap_lock.owner.counter = (__u64)&main_thread->task | 2;
	add_folio(START, 9);
	expect_same(traceback_of_unit(START), traceback, "a page that was there");
	expect_same(pages_with(traceback_of_unit(START + 1), START, 512), 511, "pages that were not");
	process->mm.mmap_lock.owner.counter = (__u64)&main_thread->task | 1;
	add_folio(START, 9);
	expect_same(pages_with(traceback_of_unit(START + 1), START, 512), 512, "pages of a fault");
}

Test(pages, move_with_an_mremap_that_succeeds)
{
	__u64 traceback;

	begin_rmap();
	add_folio(START, 0);
	traceback = traceback_of_unit(START);
	add_folio(START + 101, 0); /* a note from before */
	end_mremap(START, 2, 5, -12ULL);
	end_mremap(START, 2, 5, START << PAGE_BITS);
	expect_same(traceback_of_unit(START), traceback, "a page that has not moved");
	end_mremap(START, 2, 5, (START + 100) << PAGE_BITS);
	expect_same(traceback_of_unit(START + 100), traceback, "the page");
	expect_same(traceback_of_unit(START + 101), PAGE_UNSEEN, "where no page came to");
	expect_same(traceback_of_unit(START), PAGE_UNSEEN, "where it was");
}

/* model: of resident pages only, as notes of others mean nothing. */
static void step_by_rmap(void)
{
	__u64 order = rand() % 7, nr = 1 << order, at = rand() % (PAGES - nr) & -nr, to = PAGES + rand() % (PAGES - nr);

	switch (rand() % 4) {
	case 0: /* DONTNEED */
		memset(&model[at], 0, nr * sizeof(*model));
		break;
	case 1:
		end_mremap(START + at, nr, nr + rand() % 20, (START + to) << PAGE_BITS);
		memcpy(&model[to], &model[at], nr * sizeof(*model));
		memset(&model[at], 0, nr * sizeof(*model));
		break;
	default:
		stand_at(0x400000 + rand() % 1000 * 16);
		add_folio(START + at, order);
		for (__u64 i = at; i < at + nr; i++)
			model[i] = traceback_of_unit(START + at);
	}
}

Test(pages, by_rmap_go_and_move_as_their_memory_does)
{
	begin_rmap();
	srand(1);
	for (int i = 0; i < STEPS; i++) {
		step_by_rmap();
		for (__u64 page = 0; page < 2 * PAGES && i % 20 == 0; page++)
			cr_assert(!model[page] || traceback_of_unit(START + page) == model[page], "page %llu after step %d", page, i);
	}
}

Test(pages, of_folios_are_samples_of_one_in_each_unit)
{
	__u64 nr = 0;

	begin_rmap();
	pages_shift = 3;
	for (__u64 at = 0; at < 512; at += 4) { /* two of a unit */
		add_folio(START + at, 2);
		nr += at % 8 && traceback_of_unit((START + at) >> 3) > PAGE_UNTRACED;
	}
	expect_same(nr, 64, "samples");
	expect_brought(512);
	add_folio(START, 9);
	expect_brought(1024);
}

/* ---- samples ---- */

Test(pages, are_samples_of_one_in_each_unit)
{
	__u64 before, nr = 0;

	begin();
	pages_shift = 3;
	for (__u64 unit = START >> 3; unit < (START >> 3) + 64; unit++) {
		before = book_of(process)->pages_bytes;
		for (int i = 0; i < 8; i++)
			touch(unit << 3 | i);
		expect_same(book_of(process)->pages_bytes - before, 8 << PAGE_BITS, "the unit's pages");
		cr_expect(traceback_of_unit(unit) > PAGE_UNTRACED);
		nr += chosen_page(unit, 3, settings.hash_seed) != unit << 3;
	}
	cr_expect(nr > 40, "always the first page");
	find_room(START, 64 * 8 - 1);
	for (__u64 unit = START >> 3; unit < (START >> 3) + 63; unit++)
		expect_same(traceback_of_unit(unit), PAGE_UNSEEN, "a unit that has gone");
}
