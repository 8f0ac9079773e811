// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The heap profile of a Go program, in memory that is made here: both layouts, and what a hostile process may do. */
#include "go/go_profile.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define BASE 0x100000ull
#define CODE 0x400000ull
#define PAGE 4096
#define PAGES 64
#define VARIABLES (2 * PAGE) /* bytes at the begin */

static uint8_t memory[PAGES * PAGE] __attribute__((aligned(8)));
static bool is_there[PAGES], is_read[PAGES];
static size_t used, read_nr, settled_at_read;
static uint64_t newest; /* bucket */
static bool has_bytes, is_flushed_at_each_read;

static uint64_t *word_at(uint64_t address)
{
	return (uint64_t *)&memory[address - BASE];
}

static int read_made(void *, uint64_t address, void *to, size_t bytes)
{
	for (uint64_t page = (address - BASE) / PAGE; page < (address - BASE + bytes) / PAGE; page++) {
		cr_assert(page < PAGES && is_there[page], "a page was read that is not there: %lu", page);
		is_read[page] = true;
	}
	if (is_flushed_at_each_read && newest)
		word_at(newest)[6 + word_at(newest)[5]]++;
	if (++read_nr == settled_at_read)
		word_at(newest)[8]--;
	memcpy(to, word_at(address), bytes);
	return 0;
}

static int read_entries(void *, uint64_t address, uint64_t *entry, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		uint64_t page = (address - BASE) / PAGE + i;

		entry[i] = page < PAGES && is_there[page] ? UINT64_C(1) << 63 : 0;
	}
	return 0;
}

static const struct go_memory process = { read_made, read_entries, NULL };
static const struct go_places places = {
	CODE, CODE + 0x1000, { { BASE, BASE + PAGE }, { BASE + PAGE, BASE + VARIABLES } },
};

#define MBUCKETS (BASE + PAGE + 0x208)

static void begin(bool bytes)
{
	memset(memory, 0, sizeof(memory));
	memset(is_there, true, sizeof(is_there));
	memset(is_read, false, sizeof(is_read));
	used = VARIABLES;
	newest = 0;
	has_bytes = bytes;
	is_flushed_at_each_read = false;
}

/* counts: allocations and frees of `active` and three futures. */
static uint64_t add(uint64_t size, uint32_t frames, const uint64_t counts[8])
{
	uint64_t at = BASE + used, *word = word_at(at);

	*word++ = 0;
	*word++ = newest;
	*word++ = 1;
	*word++ = 0x1234;
	*word++ = size;
	*word++ = frames;
	for (uint32_t i = 0; i < frames; i++)
		*word++ = CODE + 8 * i + used % 64;
	for (int cycle = 0; cycle < 4; cycle++) {
		*word++ = counts[2 * cycle];
		*word++ = counts[2 * cycle + 1];
		if (!has_bytes)
			continue;
		*word++ = counts[2 * cycle] * size;
		*word++ = counts[2 * cycle + 1] * size;
	}
	used = (uint8_t *)word - memory;
	newest = at;
	*word_at(MBUCKETS) = at;
	return at;
}

static void add_ten(void)
{
	for (uint64_t i = 0; i < 10; i++)
		add(64 * (i + 1), 1 + i % 5, (const uint64_t[8]){ 10 + i, i, 2, 1, 0, 0, i, 0 });
}

static struct go_profile profile;
static struct reason why;

static int read_again(void)
{
	why = (struct reason){};
	return go_profile_read(&process, &places, MBUCKETS, &profile, &why);
}

static void expect_ten(void)
{
	uint64_t mbuckets;

	cr_assert_eq(go_profile_find(&process, &places, &mbuckets), 0);
	cr_assert_eq(mbuckets, MBUCKETS);
	cr_assert_eq(read_again(), 0, "%s", why.text);
	cr_assert_eq(profile.bucket_nr, 10);
	for (uint64_t i = 0; i < 10; i++) {
		const struct go_bucket *bucket = &profile.bucket[i];

		cr_expect_eq(bucket->size, 64 * (i + 1));
		cr_expect_eq(bucket->nframe, 1 + i % 5);
		cr_expect_eq(profile.pc[bucket->first], CODE + (bucket->address - BASE) % 64);
		cr_expect_eq(bucket->active.allocations, 10 + i);
		cr_expect_eq(bucket->active.frees, i);
		cr_expect_eq(bucket->now.allocations, 12 + 2 * i);
		cr_expect_eq(bucket->now.frees, i + 1);
	}
	go_profile_release(&profile);
}

TestSuite(go_profile);

Test(go_profile, has_buckets_with_sums_of_bytes)
{
	begin(true);
	add_ten();
	expect_ten();
}

Test(go_profile, has_buckets_with_counts_only)
{
	begin(false);
	add_ten();
	expect_ten();
}

Test(go_profile, of_one_bucket_is_read)
{
	for (int bytes = 0; bytes < 2; bytes++) {
		begin(bytes);
		add(48, 3, (const uint64_t[8]){ 0, 0, 0, 0, 5, 1 });
		cr_assert_eq(read_again(), 0);
		cr_expect_eq(profile.bucket[0].now.allocations, 5);
		cr_expect_eq(profile.bucket[0].now.frees, 1);
		cr_expect_eq(profile.bucket[0].active.allocations, 0);
	}
	go_profile_release(&profile);
}

Test(go_profile, may_have_buckets_without_frames)
{
	uint64_t mbuckets;

	for (int bytes = 0; bytes < 2; bytes++) {
		begin(bytes);
		add_ten();
		add(48, 0, (const uint64_t[8]){ 7, 2 });
		cr_expect_eq(go_profile_find(&process, &places, &mbuckets), -ENOENT, "it may be anything");
		add(48, 1, (const uint64_t[8]){ 7, 2 });
		cr_expect_eq(go_profile_find(&process, &places, &mbuckets), 0);
		cr_assert_eq(read_again(), 0, "%s", why.text);
		cr_expect_eq(profile.bucket_nr, 12);
		cr_expect_eq(profile.bucket[10].nframe, 0);
		cr_expect_eq(profile.bucket[10].now.allocations, 7);
	}
	go_profile_release(&profile);
}

Test(go_profile, without_a_sample_is_not_found)
{
	uint64_t mbuckets;

	begin(true);
	cr_expect_eq(go_profile_find(&process, &places, &mbuckets), -ENOENT);
	*word_at(MBUCKETS) = BASE + 0x3000; /* zeros */
	cr_expect_eq(go_profile_find(&process, &places, &mbuckets), -ENOENT);
	cr_assert_eq(read_again(), -EPROTO);
	*word_at(MBUCKETS) = 0;
	cr_assert_eq(read_again(), 0);
	cr_expect_eq(profile.bucket_nr, 0);
}

Test(go_profile, has_no_pages_that_were_never_touched)
{
	begin(false);
	add_ten();
	for (size_t i = 0; i < PAGES; i++)
		is_there[i] = i == 1 || i == 2; /* mbuckets, and all buckets */
	expect_ten();
	cr_expect(is_read[1] && is_read[2]);
	is_there[2] = false;
	cr_expect_eq(read_again(), -EPROTO);
}

Test(go_profile, may_end_with_what_can_be_read)
{
	begin(false);
	used = 3 * PAGE - (48 + 8 + 64); /* the record of a bucket with sums would lie on the next page */
	add(32, 1, (const uint64_t[8]){ 3, 1 });
	is_there[3] = false;
	cr_assert_eq(read_again(), 0, "%s", why.text);
	cr_expect_eq(profile.bucket[0].now.allocations, 3);
	go_profile_release(&profile);
}

/* A layout of a version to come: three counts a cycle. Neither is taken for the other. */
Test(go_profile, of_another_layout_is_refused)
{
	uint64_t at;

	begin(true);
	for (uint64_t i = 0; i < 20; i++) {
		at = add(64, 2, (const uint64_t[8]){});
		used = at - BASE + 48 + 16 + 96;
		for (uint64_t k = 0; k < 12; k++)
			word_at(at)[8 + k] = 3 - k % 3;
	}
	cr_expect_eq(read_again(), -EPROTO);
	cr_expect_str_eq(why.text, "its heap profile makes no sense, or has a layout that is not known");
}

/* The buckets of a layout with sums never touch if they are taken for shorter ones. */
Test(go_profile, with_wrong_sums_is_not_taken_for_one_without)
{
	begin(true);
	add_ten();
	for (uint64_t at = newest; at; at = word_at(at)[1])
		word_at(at)[6 + word_at(at)[5] + 2]++;
	cr_expect_eq(read_again(), -EPROTO);
}

Test(go_profile, amid_a_change_is_read)
{
	begin(true);
	for (uint64_t i = 0; i < 64; i++)
		add(64, 2, (const uint64_t[8]){ i + 1 });
	word_at(newest)[8]++; /* its sum comes later */
	cr_assert_eq(read_again(), 0);
	word_at(newest)[9] = 1000; /* frees of what is not counted yet */
	cr_assert_eq(read_again(), 0);
	cr_expect_eq(profile.bucket[63].now.allocations, profile.bucket[63].now.frees);
	go_profile_release(&profile);
}

/* A bucket gets its count before the reading, and its sum during it. */
Test(go_profile, amid_a_change_of_few_buckets_is_read_again)
{
	for (int buckets = 1; buckets <= 3; buckets += 2) {
		size_t first = read_nr;

		begin(true);
		for (int i = 0; i < buckets; i++)
			add(64, 2, (const uint64_t[8]){ 7 });
		word_at(newest)[8]++;
		cr_expect_eq(read_again(), buckets == 1 ? -EAGAIN : -EPROTO);
		settled_at_read = read_nr + (read_nr - first) / 2;
		cr_assert_eq(read_again(), 0, "%s", why.text);
		cr_expect_eq(profile.bucket[0].now.allocations, 7);
	}
	go_profile_release(&profile);
}

Test(go_profile, that_never_agrees_is_refused)
{
	begin(false);
	add_ten();
	is_flushed_at_each_read = true;
	cr_expect_eq(read_again(), -EAGAIN);
	is_flushed_at_each_read = false;
	cr_expect_eq(read_again(), 0);
	cr_expect_eq(profile.walk_nr, 2);
	go_profile_release(&profile);
}

Test(go_profile, with_a_list_that_never_ends_is_refused)
{
	uint64_t first;

	begin(true);
	first = add(64, 1, (const uint64_t[8]){ 1 });
	add_ten();
	for (uint64_t to = newest; to; to = word_at(to)[1]) { /* a circle of each length */
		word_at(first)[1] = to;
		read_nr = 0;
		cr_expect_eq(read_again(), -EPROTO);
		cr_expect_lt(read_nr, 100);
		word_at(first)[1] = 0;
	}
}

Test(go_profile, of_a_hostile_process_is_refused)
{
	static const struct {
		int word;
		uint64_t value;
	} rows[] = {
		{ 1, 8 }, { 1, 0x100001 }, { 1, UINT64_MAX }, { 1, BASE + PAGES * PAGE - 8 }, { 2, 2 }, { 4, 0 }, { 4, UINT64_MAX },
		{ 5, 0 }, { 5, GO_FRAMES_MAX + 1 }, { 5, UINT64_MAX }, { 6, CODE - 1 }, { 6, CODE + 0x1002 }, { 6, UINT64_MAX },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		begin(i % 2);
		add_ten();
		word_at(newest)[rows[i].word] = rows[i].value;
		cr_expect_eq(read_again(), -EPROTO, "word %d, %#lx", rows[i].word, rows[i].value);
		cr_expect(*why.text);
	}
	cr_expect_eq(profile.bucket_nr, 0, "a failed reading has left something");
}

Test(go_profile, of_counts_that_cannot_be_is_refused)
{
	static const uint64_t counts[][8] = {
		{ 1, 2 }, { UINT64_MAX, 0 }, { 1, 0, 0, 1, 0, 1 }, { 1ull << 63, 0, 1ull << 63 },
	};

	for (size_t i = 0; i < 2 * sizeof(counts) / sizeof(*counts); i++) {
		begin(i % 2);
		for (int k = 0; k < 10; k++)
			add(64, 1, counts[i / 2]);
		cr_expect_eq(read_again(), -EPROTO, "row %zu", i / 2);
	}
}

static uint64_t led_to;

static int read_pointers(void *, uint64_t, void *to, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++) {
		const uint64_t pointer = (UINT64_C(1) << 40) + led_to++ * 4 * PAGE;

		memcpy((char *)to + i * sizeof(pointer), &pointer, sizeof(pointer));
	}
	read_nr++;
	return 0;
}

static int read_all_entries(void *, uint64_t, uint64_t *entry, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		entry[i] = UINT64_C(1) << 63;
	return 0;
}

Test(go_profile, a_search_that_leads_ever_further_ends, .timeout = 120)
{
	const struct go_memory endless = { read_pointers, read_all_entries, NULL };
	const struct go_places large = { CODE, CODE + 0x1000, { { BASE, BASE + (64u << 20) }, {} } };
	uint64_t mbuckets;

	read_nr = led_to = 0;
	cr_assert_eq(go_profile_find(&endless, &large, &mbuckets), -E2BIG);
	cr_assert_lt(read_nr, 200000);
}
