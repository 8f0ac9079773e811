// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/page_join.h"

#include "base/array.h"

#define BIRTH_TOGETHER 6 /* bits of a birth: blocks are told apart by the second */

struct brought {
	uint64_t traceback; /* PAGE_UNSEEN: no event */
	uint32_t birth;
};

struct joining_pages {
	const struct page_join *join;
	page_block_fn emit;
	void *what;
	struct page_sums *sums;
	struct page_block block; /* the one that grows; start == end: none */
	size_t leaf_at, older_at;
	uint64_t huge_at; /* the huge page that was looked up last */
	struct brought huge; /* what brought it */
	size_t huge_events;  /* in it */
};

static int end_block(struct joining_pages *joining)
{
	const struct page_block block = joining->block;

	joining->block.start = joining->block.end = 0;
	return block.start == block.end ? 0 : joining->emit(joining->what, &block);
}

static int extend_blocks(struct joining_pages *joining, uint64_t address, const struct brought *brought)
{
	struct page_block *block = &joining->block;
	int err;

	if (block->start != block->end && block->end == address && block->traceback == brought->traceback &&
	    block->birth >> BIRTH_TOGETHER == brought->birth >> BIRTH_TOGETHER) {
		block->end += PAGE_BYTES;
		block->birth = brought->birth > block->birth ? brought->birth : block->birth;
		return 0;
	}
	err = end_block(joining);
	*block = (struct page_block){ address, address + PAGE_BYTES, brought->traceback, brought->birth };
	return err;
}

/* The first leaf of that number or above; searches go upwards. */
static struct found_leaf *leaf_from(struct joining_pages *joining, uint64_t number)
{
	const struct page_join *join = joining->join;

	while (joining->leaf_at < join->leaf_nr && join->leaf[joining->leaf_at].number < number)
		joining->leaf_at++;
	return joining->leaf_at < join->leaf_nr ? &join->leaf[joining->leaf_at] : NULL;
}

static uint64_t number_of_unit(const struct page_join *join, uint64_t address)
{
	return address >> PAGE_BITS >> join->shift;
}

static uint64_t number_of_leaf(const struct page_join *join, uint64_t address)
{
	return number_of_unit(join, address) >> LEAF_BITS;
}

static bool is_chosen(const struct page_join *join, uint64_t address)
{
	return chosen_page(number_of_unit(join, address), join->shift, join->seed) == address >> PAGE_BITS;
}

static struct brought brought_at(struct joining_pages *joining, uint64_t address)
{
	uint64_t unit = number_of_unit(joining->join, address);
	struct found_leaf *leaf = leaf_from(joining, unit >> LEAF_BITS);
	size_t at = unit & (LEAF_PAGES - 1);

	if (!leaf || leaf->number != unit >> LEAF_BITS)
		return (struct brought){};
	leaf->is_resident = true;
	return (struct brought){ leaf->leaf->traceback[at], leaf->leaf->birth[at] };
}

/* The event that came first in a huge page. */
static void find_huge(struct joining_pages *joining, uint64_t huge)
{
	const struct found_leaf *end = joining->join->leaf + joining->join->leaf_nr;
	uint64_t last = number_of_leaf(joining->join, huge + HUGE_BYTES - 1);
	struct found_leaf *leaf = leaf_from(joining, number_of_leaf(joining->join, huge));

	joining->huge_at = huge;
	joining->huge = (struct brought){};
	joining->huge_events = 0;
	for (; leaf && leaf < end && leaf->number <= last; leaf++) {
		leaf->is_resident = true;
		for (size_t at = 0; at < LEAF_PAGES; at++) {
			joining->huge_events += leaf->leaf->traceback[at] != PAGE_UNSEEN;
			if (leaf->leaf->traceback[at] &&
			    (!joining->huge.traceback || leaf->leaf->birth[at] < joining->huge.birth))
				joining->huge = (struct brought){ leaf->leaf->traceback[at], leaf->leaf->birth[at] };
		}
	}
}

static bool was_resident_before(struct joining_pages *joining, uint64_t address)
{
	const struct page_runs *older = joining->join->older;

	while (joining->older_at < older->run_nr && older->run[joining->older_at].end <= address)
		joining->older_at++;
	return joining->older_at < older->run_nr && older->run[joining->older_at].start <= address;
}

/* Counts a page, or a sample, by what brought it. */
static int count_brought(struct joining_pages *joining, uint64_t address, const struct brought *brought, bool was_before)
{
	uint64_t bytes = PAGE_BYTES << joining->join->shift;
	struct page_sums *sums = joining->sums;

	if (brought->traceback > PAGE_BY_KERNEL) {
		sums->traced += bytes;
		return extend_blocks(joining, address, brought);
	}
	if (was_before)
		sums->older += bytes;
	else if (brought->traceback)
		sums->by_kernel += bytes;
	else
		*(joining->join->is_forked ? &sums->inherited : &sums->unattributed) += bytes;
	return 0;
}

/*
 * One fault has brought all pages of a huge page, so all of them are a sample, or none. If the page was made of pages
 * that came one by one, it has several events, and each stands for itself.
 */
static bool is_sampled_as_whole(const struct joining_pages *joining, uint32_t kind)
{
	return joining->join->shift && kind & PAGES_HUGE && joining->huge_events <= 1;
}

static int join_resident(struct joining_pages *joining, uint64_t address, uint32_t kind, struct brought brought)
{
	bool is_whole = is_sampled_as_whole(joining, kind), was_before;

	if (is_whole && joining->huge.traceback)
		return count_brought(joining, address, &joining->huge, false);
	if (!is_chosen(joining->join, address))
		return 0;
	/* The kernel makes huge pages of pages that were there, also of older ones. */
	was_before = brought.traceback <= PAGE_BY_KERNEL && was_resident_before(joining, address);
	if (is_whole && !was_before)
		return 0;
	if (!brought.traceback && !was_before && kind & PAGES_HUGE && !joining->join->shift) {
		brought = joining->huge;
		joining->sums->spread += brought.traceback > PAGE_BY_KERNEL ? PAGE_BYTES : 0;
	}
	return count_brought(joining, address, &brought, was_before);
}

static int join_page(struct joining_pages *joining, uint64_t address, uint32_t kind)
{
	struct page_sums *sums = joining->sums;
	uint64_t huge = address & ~(HUGE_BYTES - 1);
	struct brought brought;

	if (kind & PAGES_HUGE && huge != joining->huge_at)
		find_huge(joining, huge);
	brought = brought_at(joining, address);
	*(kind & PAGES_SWAPPED ? &sums->swapped : &sums->rss_anon) += PAGE_BYTES;
	sums->huge += kind & PAGES_HUGE ? PAGE_BYTES : 0;
	return kind & PAGES_SWAPPED ? 0 : join_resident(joining, address, kind, brought);
}

int page_join(const struct page_join *join, page_block_fn emit, void *what, struct page_sums *ret)
{
	struct joining_pages joining = { .join = join, .emit = emit, .what = what, .sums = ret, .huge_at = UINT64_MAX };
	int err = 0;

	*ret = (struct page_sums){ .zero = join->resident->zero_bytes };
	for (size_t i = 0; i < join->resident->run_nr && !err; i++) {
		const struct page_run *run = &join->resident->run[i];

		for (uint64_t at = run->start; at < run->end && !err; at += PAGE_BYTES)
			err = join_page(&joining, at, run->kind);
	}
	return err ?: end_block(&joining);
}

int page_join_ended(const struct page_join *join, page_block_fn emit, void *what)
{
	struct page_sums sums = {};
	struct joining_pages joining = { .join = join, .emit = emit, .what = what, .sums = &sums };
	int err = 0;

	for (size_t i = 0; i < join->leaf_nr * LEAF_PAGES && !err; i++) {
		const struct found_leaf *leaf = &join->leaf[i / LEAF_PAGES];
		const struct brought brought = { leaf->leaf->traceback[i % LEAF_PAGES], leaf->leaf->birth[i % LEAF_PAGES] };

		if (brought.traceback > PAGE_BY_KERNEL)
			err = extend_blocks(&joining, chosen_page(leaf->number << LEAF_BITS | i % LEAF_PAGES, join->shift, join->seed)
						    << PAGE_BITS, &brought);
	}
	return err ?: end_block(&joining);
}
