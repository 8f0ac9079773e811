// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <string.h>

#include "engine/leak_report.h"

#define S UINT64_C(1000000000)
#define MOST 100

/* As text, 'x' for each moment that is kept. */
static const char *choose(const struct leak_moment *moment, size_t nr, const struct leak_span *span,
			  struct leak_times *times)
{
	static char text[MOST + 1];
	bool keep[MOST] = {};
	size_t kept = leak_moments_choose(moment, nr, span, keep, times), seen = 0;

	for (size_t i = 0; i < nr; i++) {
		text[i] = keep[i] ? 'x' : '-';
		seen += keep[i];
	}
	text[nr] = '\0';
	cr_expect_eq(kept, seen, "%zu, not %zu", kept, seen);
	return text;
}

static void fill(struct leak_moment *moment, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		moment[i] = (struct leak_moment){ .now_ns = (i + 2) * S };
}

Test(leak_moments, are_all_kept_if_there_are_few)
{
	struct leak_moment moment[MOST];
	struct leak_times times;

	fill(moment, MOST);
	cr_expect_str_eq(choose(moment, 12, &(struct leak_span){ S, 0 }, &times), "xxxxxxxxxxxx");
	cr_expect_eq(times.begin_ns, S);
	cr_expect_not(times.is_part);
	cr_expect_str_eq(choose(moment, 1, &(struct leak_span){ S, 0 }, &times), "x");
}

Test(leak_moments, are_chosen_evenly)
{
	struct leak_moment moment[MOST];
	struct leak_times times;

	fill(moment, MOST);
	cr_expect_str_eq(choose(moment, 24, &(struct leak_span){ S, 0 }, &times), "-x-x-x-x-x-x-x-x-x-x-x-x");
	cr_expect_str_eq(choose(moment, 13, &(struct leak_span){ S, 0 }, &times), "-xxxxxxxxxxxx");
}

/* However uneven they are: twelve, and the last one. */
Test(leak_moments, are_twelve_and_have_the_last_one)
{
	struct leak_moment moment[MOST];
	struct leak_times times;

	for (unsigned int seed = 1; seed < 500; seed++) {
		unsigned int state = seed;
		size_t nr = 13 + seed % 80;
		const char *kept;

		for (size_t i = 0; i < nr; i++) {
			state = state * 1103515245 + 12345;
			moment[i] = (struct leak_moment){
				.now_ns = (i ? moment[i - 1].now_ns : S) + 1 + (state >> 16) % (state % 7 ? 10 : 10000),
			};
		}
		kept = choose(moment, nr, &(struct leak_span){ S, 0 }, &times);
		nr = 0;
		for (const char *at = kept; *at; at++)
			nr += *at == 'x';
		cr_expect_eq(nr, 12, "%s", kept);
		cr_expect_eq(kept[strlen(kept) - 1], 'x', "%s", kept);
	}
}

Test(leak_moments, before_traces_were_cleared_do_not_count)
{
	struct leak_moment moment[MOST];
	struct leak_times times;

	fill(moment, 6);
	moment[2].clears = moment[3].clears = 1;
	moment[4].clears = moment[5].clears = 2;
	cr_expect_str_eq(choose(moment, 6, &(struct leak_span){ S, 0 }, &times), "----xx");
	cr_expect_eq(times.begin_ns, moment[3].now_ns);
	cr_expect(times.is_part);
}

Test(leak_moments, may_be_only_those_of_the_end)
{
	struct leak_moment moment[MOST];
	struct leak_times times;

	fill(moment, 10);
	cr_expect_str_eq(choose(moment, 10, &(struct leak_span){ S, 3 * S }, &times), "-------xxx");
	cr_expect_eq(times.begin_ns, 8 * S);
	cr_expect(times.is_part);
	cr_expect_str_eq(choose(moment, 10, &(struct leak_span){ S, 99 * S }, &times), "xxxxxxxxxx");
	cr_expect_not(times.is_part);
}

Test(leak_moments, of_one_time_are_one)
{
	struct leak_moment moment[MOST];
	struct leak_times times;

	fill(moment, 4);
	moment[1].now_ns = moment[2].now_ns;
	cr_expect_str_eq(choose(moment, 4, &(struct leak_span){ S, 0 }, &times), "x-xx");
}

Test(leak_moments, without_times_are_none)
{
	struct leak_moment moment[MOST] = {};
	struct leak_times times;

	cr_expect_str_eq(choose(moment, 2, &(struct leak_span){ S, 0 }, &times), "--");
	fill(moment, 2);
	cr_expect_str_eq(choose(moment, 2, &(struct leak_span){ UINT64_MAX, 0 }, &times), "--");
	cr_expect_eq(leak_moments_choose(moment, 0, &(struct leak_span){ S, 0 }, NULL, &times), 0);
}
