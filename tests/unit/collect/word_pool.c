// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "collect/unwind/unwind_tables.h"
#include "skip.h"
#include "unwind/unwind_table.h"

Test(word_pool, reuses_returned_words)
{
	struct word_pool pool = {};

	cr_expect_eq(word_pool_take(&pool, 10, 100), 0);
	cr_expect_eq(word_pool_take(&pool, 20, 100), 10);
	cr_expect_eq(word_pool_take(&pool, 30, 100), 30);
	cr_expect_eq(word_pool_take(&pool, 41, 100), -E2BIG);
	word_pool_give(&pool, 10, 20);
	cr_expect_eq(word_pool_take(&pool, 5, 100), 10);
	cr_expect_eq(word_pool_take(&pool, 15, 100), 15);
	word_pool_give(&pool, 30, 30);
	cr_expect_eq(pool.end, 30, "the end comes down");
	word_pool_release(&pool);
}

Test(word_pool, frees_words_when_their_readers_are_done)
{
	struct word_pool pool = {};

	cr_expect_eq(word_pool_take(&pool, 10, 30), 0);
	cr_expect_eq(word_pool_take(&pool, 20, 30), 10);
	word_pool_leave(&pool, 0, 10);
	word_pool_leave(&pool, 10, 20);
	cr_expect_eq(word_pool_take(&pool, 1, 30), -E2BIG);
	word_pool_settle(&pool);
	cr_expect_eq(pool.end, 0);
	cr_expect_eq(word_pool_take(&pool, 30, 30), 0);
	word_pool_settle(&pool);
	cr_expect_eq(word_pool_take(&pool, 1, 30), -E2BIG, "once");
	word_pool_release(&pool);
}

Test(word_pool, merges_neighbouring_free_words)
{
	struct word_pool pool = {};

	for (int i = 0; i < 5; i++)
		cr_expect_eq(word_pool_take(&pool, 10, 50), 10 * i);
	word_pool_give(&pool, 10, 10);
	word_pool_give(&pool, 30, 10);
	cr_expect_eq(pool.hole_nr, 2);
	word_pool_give(&pool, 20, 10);
	cr_expect_eq(pool.hole_nr, 1);
	cr_expect_eq(word_pool_take(&pool, 30, 50), 10);
	cr_expect_eq(word_pool_take(&pool, 1, 50), -E2BIG);
	word_pool_release(&pool);
}

#define WORDS 4000
#define STEPS 20000
#define HELD 64

static void expect_free(const bool *is_taken, uint32_t at, uint32_t nr)
{
	for (uint32_t i = at; i < at + nr; i++)
		cr_assert(!is_taken[i], "word %u was taken already", i);
}

/* The model has a flag for each word: no word is given out twice, and in the end all are free. */
Test(word_pool, matches_a_model_under_random_use)
{
	struct free_words held[HELD] = {};
	struct word_pool pool = {};
	bool is_taken[WORDS] = {};

	srand(7);
	for (int step = 0; step < STEPS; step++) {
		struct free_words *own = &held[rand() % HELD];
		bool takes = !own->nr;
		int64_t at;

		if (!takes) {
			word_pool_give(&pool, own->at, own->nr);
		} else {
			own->nr = 1 + rand() % 100;
			at = word_pool_take(&pool, own->nr, WORDS);
			if (at < 0) {
				own->nr = 0;
				continue;
			}
			own->at = at;
			cr_assert_leq(own->at + own->nr, WORDS);
			expect_free(is_taken, own->at, own->nr);
		}
		for (uint32_t i = own->at; i < own->at + own->nr; i++)
			is_taken[i] = takes;
		own->nr = takes ? own->nr : 0;
	}
	for (int i = 0; i < HELD; i++)
		word_pool_give(&pool, held[i].at, held[i].nr);
	cr_expect_eq(pool.end, 0);
	cr_expect_eq(pool.hole_nr, 0);
	word_pool_release(&pool);
}

/* ---- vdso ---- */

static bool find_vdso(uintptr_t *ret_start, uintptr_t *ret_end)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	bool is_found = false;
	char line[512];

	while (maps && !is_found && fgets(line, sizeof(line), maps))
		is_found = strstr(line, "[vdso]") &&
			   sscanf(line, "%" SCNxPTR "-%" SCNxPTR, ret_start, ret_end) == 2;
	if (maps)
		fclose(maps);
	return is_found;
}

/* Our own vDSO is used; a size that differs is refused. */
Test(own_vdso, gives_a_table)
{
	struct unwind_table *table = NULL;
	struct reason why = { "" };
	uintptr_t start, end;

	if (!find_vdso(&start, &end))
		skip_because("this kernel gives us no vDSO");
	cr_assert_eq(own_vdso(end - start), (const void *)start);
	cr_expect_null(own_vdso(end - start + 4096));
	cr_expect_null(own_vdso(end - start - 4096));
	cr_expect_null(own_vdso(0));
	cr_assert_eq(unwind_table__from_memory(own_vdso(end - start), end - start, &table, &why), 0,
		     "%s", why.text);
	cr_expect(unwind_table__is_sound(table));
	cr_expect_geq(table->fde_nr, 3);
	unwind_table__free(table);
}
