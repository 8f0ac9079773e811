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
extern struct settings settings;
int page_fault(struct bpf_perf_event_data *ctx);
int page_room_found(__u64 *ctx);

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
	expect(allocations, 3);
	expect(allocated_bytes, 3 * 4096);
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

/* ---- samples ---- */

Test(pages, are_samples_of_one_in_each_unit)
{
	__u64 before, nr = 0;

	begin();
	pages_shift = 3;
	for (__u64 unit = START >> 3; unit < (START >> 3) + 64; unit++) {
		before = book_of(process)->counter[COUNTER_allocations];
		for (int i = 0; i < 8; i++)
			touch(unit << 3 | i);
		expect_same(book_of(process)->counter[COUNTER_allocations] - before, 8, "the unit's pages");
		cr_expect(traceback_of_unit(unit) > PAGE_UNTRACED);
		nr += chosen_page(unit, 3, settings.hash_seed) != unit << 3;
	}
	cr_expect(nr > 40, "always the first page");
	find_room(START, 64 * 8 - 1);
	for (__u64 unit = START >> 3; unit < (START >> 3) + 63; unit++)
		expect_same(traceback_of_unit(unit), PAGE_UNSEEN, "a unit that has gone");
}
