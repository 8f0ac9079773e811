// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The hooks' walks over the frames of a fake CPython, each compared with a plain walk, and their books with a ledger. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/array.h"
#include "compared_hooks.h"
#include "fake_python.h"
#include "full.h"

#define STEPS 200000
#define STEPS_OF_CHECK 40000

static const unsigned char minors[] = { 9, 10, 11, 12, 13, 14 };

/* Returns the number of walks. */
static uint64_t walk_at_random(unsigned char minor, uint64_t seed)
{
	static struct fake_thread thread;
	struct fake_python python;
	struct made_books made;
	uint64_t walk_nr;
	char what[64];

	fake_python_begin(&python, minor, &thread, 1, seed, &made);
	be_fake_thread(&thread);
	snprintf(what, sizeof(what), "3.%u, seed %lu", minor, seed);
	for (int i = 1; i <= STEPS; i++) {
		fake_step(&python, &thread);
		if (!(i % STEPS_OF_CHECK))
			check_ledgers(&python, &made, what);
	}
	walk_nr = MADE_HEAD(&made)->compared;
	fake_python_end(&python);
	release_made_books(&made);
	return walk_nr;
}

Test(exact_walks, by_memo_are_those_without)
{
	uint64_t walk_nr = 0, most = full_or(10000000, 2000000), seed = 0;

	for (; walk_nr < most; seed++)
		walk_nr += walk_at_random(minors[seed % ARRAY_SIZE(minors)], seed);
}
