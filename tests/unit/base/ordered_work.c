// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/parallel.h"

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
