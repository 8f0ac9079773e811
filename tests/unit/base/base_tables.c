// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
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
