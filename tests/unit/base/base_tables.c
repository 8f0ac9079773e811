// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/idmap.h"
#include "base/parallel.h"
#include "base/reason.h"

Test(base_array, push_keeps_earlier_elements)
{
	struct {
		int *number;
		size_t number_nr, number_alloc;
	} owner = {};

	for (int i = 0; i < 1000; i++)
		cr_assert_eq(array_push(&owner, number, i), 0);
	cr_expect_eq(owner.number_nr, 1000);
	for (int i = 0; i < 1000; i++)
		cr_expect_eq(owner.number[i], i);
	free(owner.number);
}

Test(base_strpool, equal_strings_have_equal_ids)
{
	struct strpool pool = {};
	uint32_t first[500], again;
	char text[32];

	for (int i = 0; i < 500; i++) {
		snprintf(text, sizeof(text), "string %d", i);
		cr_assert_eq(strpool_add(&pool, text, strlen(text), &first[i]), 0);
	}
	for (int i = 0; i < 500; i++) {
		snprintf(text, sizeof(text), "string %d", i);
		cr_assert_eq(strpool_add(&pool, text, strlen(text), &again), 0);
		cr_expect_eq(again, first[i]);
		cr_expect_str_eq(strpool_get(&pool, again), text);
	}
	cr_expect_eq(pool.start_nr, 501);
	strpool_release(&pool);
}

Test(base_strpool, id_0_is_the_empty_string)
{
	struct strpool pool = {};
	uint32_t id = 9;

	cr_expect_str_eq(strpool_get(&pool, 0), "");
	cr_assert_eq(strpool_add(&pool, "a", 1, &id), 0);
	cr_expect_eq(id, 1);
	cr_assert_eq(strpool_add(&pool, "", 0, &id), 0);
	cr_expect_eq(id, 0);
	strpool_release(&pool);
}

Test(base_reason, sets_the_line_and_returns_the_error)
{
	struct reason why;
	char text[2000];

	cr_expect_eq(reason_set(&why, -EINVAL, "%s %d", "no", 7), -EINVAL);
	cr_expect_str_eq(why.text, "no 7");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	cr_expect_eq(reason_set(&why, -1, "%s", text), -1);
	cr_expect_eq(strlen(why.text), sizeof(why.text) - 1);
	reason_set(&why, -1, "%s", "two\nlines\x1b[2J, \xff, é");
	cr_expect_str_eq(why.text, "two\\x0alines\\x1b[2J, \\xff, é");
	cr_expect_eq(reason_set(NULL, -ENOENT, "not wanted"), -ENOENT);
}

#define PARTS 500

struct parts {
	size_t made[ORDERED_PLACES]; /* number + 1 of the part in each place; 0: free */
	size_t taken[PARTS], taken_nr;
	size_t fails_at;
	atomic_size_t made_nr;
	atomic_int clashes;
};

static void make_part(void *parts_, size_t at, unsigned int place)
{
	struct parts *parts = parts_;

	if (parts->made[place])
		atomic_fetch_add(&parts->clashes, 1);
	if (at % 7 == 0)
		usleep(at % 3 * 300); /* later parts are ready first */
	parts->made[place] = at + 1;
	atomic_fetch_add(&parts->made_nr, 1);
}

static int take_part(void *parts_, size_t at, unsigned int place)
{
	struct parts *parts = parts_;

	parts->taken[parts->taken_nr++] = parts->made[place] - 1;
	parts->made[place] = 0;
	return at == parts->fails_at ? -EIO : 0;
}

static int run_parts(struct parts *parts, size_t nr, unsigned int thread_nr)
{
	const struct ordered_work work = { .nr = nr, .make = make_part, .take = take_part, .what = parts };

	return ordered_work_run(&work, thread_nr);
}

Test(ordered_work, is_taken_in_order_by_any_number_of_threads)
{
	static const unsigned int threads[] = { 1, 2, 5, 100 };

	for (size_t i = 0; i < sizeof(threads) / sizeof(*threads); i++) {
		struct parts parts = { .fails_at = PARTS };

		cr_assert_eq(run_parts(&parts, PARTS, threads[i]), 0);
		cr_assert_eq(parts.taken_nr, PARTS);
		for (size_t k = 0; k < PARTS; k++)
			cr_expect_eq(parts.taken[k], k);
		cr_expect_eq(atomic_load(&parts.clashes), 0);
	}
}

Test(ordered_work, may_have_no_parts)
{
	struct parts parts = {};

	cr_expect_eq(run_parts(&parts, 0, 3), 0);
	cr_expect_eq(parts.taken_nr, 0);
}

/* All that was begun is taken, so that nothing that it holds is lost. */
Test(ordered_work, ends_after_an_error)
{
	struct parts parts = { .fails_at = 100 };

	cr_expect_eq(run_parts(&parts, PARTS, 4), -EIO);
	cr_expect_geq(parts.taken_nr, 101);
	cr_expect_leq(parts.taken_nr, 101 + ORDERED_PLACES);
	cr_expect_eq(parts.taken_nr, atomic_load(&parts.made_nr));
}
