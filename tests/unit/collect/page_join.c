// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The join of resident pages with events, against one that looks at each page alone. */
#include "collect/sources/page_join.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define PAGES 4096 /* eight huge pages */
#define HUGE_PAGES (HUGE_BYTES / PAGE_BYTES)
#define START (UINT64_C(0x7f0000000000))
#define LEAVES (PAGES / LEAF_PAGES)
#define ROUNDS 300

/* The oracle looks at each page alone. */
static struct truth {
	bool is_resident, is_swapped, is_huge, is_older;
	uint64_t traceback;
	uint32_t birth;
} truth[PAGES];

static struct page_leaf leaves[LEAVES];
static struct found_leaf found[LEAVES];
static struct page_run resident_run[PAGES], older_run[PAGES];
static struct page_runs resident, older;
static struct page_block block[PAGES];
static size_t block_nr;

static int keep_block(void *what, const struct page_block *new)
{
	(void)what;
	cr_assert(block_nr < PAGES);
	block[block_nr++] = *new;
	return 0;
}

static void make_page(size_t i, bool is_huge)
{
	struct truth *page = &truth[i];

	*page = (struct truth){ .is_huge = is_huge, .is_resident = is_huge || rand() % 4, .is_older = !(rand() % 3) };
	page->is_swapped = !page->is_resident && rand() % 2;
	if (rand() % (is_huge ? 100 : 3))
		return;
	page->traceback = rand() % 5;
	page->birth = page->traceback ? rand() % 200 : 0;
}

static void add_run(struct page_runs *runs, size_t i, uint32_t kind)
{
	uint64_t start = START + i * PAGE_BYTES;
	struct page_run *last = runs->run_nr ? &runs->run[runs->run_nr - 1] : NULL;

	if (last && last->end == start && last->kind == kind)
		last->end += PAGE_BYTES;
	else
		runs->run[runs->run_nr++] = (struct page_run){ start, start + PAGE_BYTES, kind };
}

static size_t make_inputs(void)
{
	size_t leaf_nr = 0;

	resident = (struct page_runs){ .run = resident_run };
	older = (struct page_runs){ .run = older_run };
	for (size_t i = 0; i < PAGES; i++) {
		const struct truth *page = &truth[i];

		make_page(i, i % HUGE_PAGES ? truth[i - 1].is_huge : !(rand() % 3));
		if (page->is_resident || page->is_swapped)
			add_run(&resident, i, (page->is_swapped ? PAGES_SWAPPED : 0) | (page->is_huge ? PAGES_HUGE : 0));
		if (page->is_older)
			add_run(&older, i, 0);
		leaves[i / LEAF_PAGES].traceback[i % LEAF_PAGES] = page->traceback;
		leaves[i / LEAF_PAGES].birth[i % LEAF_PAGES] = page->birth;
	}
	for (size_t i = 0; i < LEAVES; i++)
		if (array_any(LEAF_PAGES, at, leaves[i].traceback[at]))
			found[leaf_nr++] = (struct found_leaf){ 1, (START / PAGE_BYTES + i * LEAF_PAGES) / LEAF_PAGES, &leaves[i], false };
	return leaf_nr;
}

/* ---- the oracle ---- */

static struct truth huge_event(size_t i)
{
	size_t first = i - i % HUGE_PAGES;
	struct truth event = {};

	for (size_t at = first; at < first + HUGE_PAGES; at++)
		if (truth[at].traceback && (!event.traceback || truth[at].birth < event.birth))
			event = truth[at];
	return event;
}

/* Its event; none: *ret_sum has where it counts. */
static struct truth event_of(size_t i, const char **ret_sum)
{
	struct truth event = truth[i];

	*ret_sum = "older";
	if (event.traceback <= PAGE_BY_KERNEL && truth[i].is_older)
		return event;
	*ret_sum = "unattributed";
	if (!event.traceback && truth[i].is_huge)
		event = huge_event(i);
	if (event.traceback == PAGE_BY_KERNEL)
		*ret_sum = "by_kernel";
	if (event.traceback > PAGE_BY_KERNEL)
		*ret_sum = "traced";
	return event;
}

static bool is_one_block(const struct truth *a, const struct truth *b)
{
	return a->traceback == b->traceback && a->birth / 64 == b->birth / 64;
}

/* The block of each page that is traced, and that a border lies between two blocks only where it must. */
static void check_blocks(void)
{
	struct truth before = {};
	const char *sum;
	size_t at = 0;

	for (size_t i = 0; i < PAGES; i++) {
		struct truth event = event_of(i, &sum);
		uint64_t address = START + i * PAGE_BYTES;
		bool is_traced = truth[i].is_resident && !strcmp(sum, "traced");

		if (is_traced) {
			bool is_new = !is_one_block(&before, &event);

			while (at < block_nr && block[at].end <= address)
				at++;
			cr_assert(at < block_nr && block[at].start <= address);
			cr_expect_eq(block[at].traceback, event.traceback);
			cr_expect_eq(block[at].start == address, is_new);
			cr_expect(block[at].birth >= event.birth && block[at].birth / 64 == event.birth / 64);
		} else {
			cr_expect(at >= block_nr || !(block[at].start <= address && address < block[at].end));
		}
		before = is_traced ? event : (struct truth){};
	}
}

static void check_sums(const struct page_sums *sums, bool is_forked)
{
	struct page_sums expected = {};
	const char *sum;

	for (size_t i = 0; i < PAGES; i++) {
		struct truth event = event_of(i, &sum);

		expected.swapped += truth[i].is_swapped ? PAGE_BYTES : 0;
		if (!truth[i].is_resident)
			continue;
		expected.rss_anon += PAGE_BYTES;
		expected.huge += truth[i].is_huge ? PAGE_BYTES : 0;
		expected.spread += !truth[i].traceback && event.traceback > PAGE_BY_KERNEL ? PAGE_BYTES : 0;
		*(!strcmp(sum, "traced") ? &expected.traced : !strcmp(sum, "older") ? &expected.older :
		  !strcmp(sum, "by_kernel") ? &expected.by_kernel : is_forked ? &expected.inherited : &expected.unattributed) += PAGE_BYTES;
	}
	cr_expect_arr_eq(sums, &expected, sizeof(expected));
	cr_expect_eq(sums->traced + sums->older + sums->inherited + sums->by_kernel + sums->unattributed, sums->rss_anon);
}

Test(page_join, agrees_with_a_look_at_each_page)
{
	struct page_sums sums;

	for (int round = 0; round < ROUNDS; round++) {
		struct page_join join = { .resident = &resident, .older = &older, .leaf = found, .is_forked = round % 2 };

		srand(round);
		join.leaf_nr = make_inputs();
		block_nr = 0;
		cr_assert_eq(page_join(&join, keep_block, NULL, &sums), 0);
		check_sums(&sums, join.is_forked);
		check_blocks();
	}
}

/* A leaf is needed as long as the process has a page there, also if that is swapped out. */
Test(page_join, finds_leaves_that_nothing_needs)
{
	struct page_join join = { .resident = &resident, .older = &older, .leaf = found };
	struct page_sums sums;

	srand(1);
	join.leaf_nr = make_inputs();
	page_join(&join, keep_block, NULL, &sums);
	for (size_t i = 0; i < join.leaf_nr; i++) {
		size_t first = (found[i].leaf - leaves) * LEAF_PAGES, nr = 0;

		for (size_t at = first; at < first + LEAF_PAGES; at++)
			nr += truth[at].is_resident || truth[at].is_swapped;
		cr_expect_eq(found[i].is_resident, nr != 0);
	}
}

/* One page of eight; without huge pages. */
Test(page_join, has_samples_that_stand_for_their_unit)
{
	struct page_join join = { .resident = &resident, .older = &older, .leaf = found, .shift = 3, .seed = 4711 };
	struct page_sums sums;
	size_t traced = 0, before = 0, nr = 0;

	srand(3);
	make_inputs();
	memset(leaves, 0, sizeof(leaves));
	resident.run_nr = 0;
	for (uint64_t i = 0; i < PAGES; i++) {
		uint64_t page = START / PAGE_BYTES + i, unit = page >> join.shift;
		struct page_leaf *leaf = &leaves[i >> join.shift >> LEAF_BITS];

		if (truth[i].is_resident)
			add_run(&resident, i, 0);
		nr += truth[i].is_resident;
		if (chosen_page(unit, join.shift, join.seed) != page)
			continue;
		leaf->traceback[unit % LEAF_PAGES] = truth[i].traceback;
		traced += truth[i].is_resident && truth[i].traceback > PAGE_BY_KERNEL;
		before += truth[i].is_resident && truth[i].traceback <= PAGE_BY_KERNEL && truth[i].is_older;
	}
	for (uint64_t i = 0; i < LEAVES / 8; i++)
		found[join.leaf_nr++] = (struct found_leaf){ 1, (START / PAGE_BYTES >> join.shift >> LEAF_BITS) + i, &leaves[i], false };
	cr_assert_eq(page_join(&join, keep_block, NULL, &sums), 0);
	cr_expect_eq(block_nr, traced);
	cr_expect_eq(sums.traced, traced * 8 * PAGE_BYTES);
	cr_expect_eq(sums.older, before * 8 * PAGE_BYTES);
	cr_expect_eq(sums.rss_anon, nr * PAGE_BYTES);
}

Test(page_join, has_all_pages_of_a_process_that_ended)
{
	struct page_join join = { .leaf = found };
	size_t nr = 0, joined = 0;

	srand(2);
	join.leaf_nr = make_inputs();
	cr_assert_eq(page_join_ended(&join, keep_block, NULL), 0);
	for (size_t i = 0; i < PAGES; i++)
		nr += truth[i].traceback > PAGE_BY_KERNEL;
	for (size_t i = 0; i < block_nr; i++)
		joined += (block[i].end - block[i].start) / PAGE_BYTES;
	cr_expect_eq(joined, nr);
}
