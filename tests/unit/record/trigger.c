// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* When it is time for a snapshot. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect.h"
#include "record/triggers.h"

#define K 1024ull
#define M (1024 * K)

static struct process_view view_of(uint64_t now, uint64_t last, uint64_t most)
{
	return (struct process_view){
		.memory = { .current_bytes = now }, .last_bytes = last, .most_bytes = most,
	};
}

static const struct {
	struct trigger_options options;
	uint64_t last, most; /* that snapshots have */
	uint64_t at;	     /* bytes that must be live; 0: no trigger at any size */
	enum trigger trigger;
} cases[] = {
	{ {}, M, M, 0, TRIGGER_NONE },
	{ { .on_oom = true }, M, M, 0, TRIGGER_NONE },
	{ { .growth_bytes = 100 }, 1000, 5000, 1100, TRIGGER_GROWTH },
	{ { .growth_bytes = 100 }, 0, 0, 100, TRIGGER_GROWTH },
	{ { .growth_bytes = 100 }, UINT64_MAX - 99, UINT64_MAX - 99, 0, TRIGGER_NONE },
	{ { .growth_percent = 20 }, 10 * M, 10 * M, 12 * M, TRIGGER_GROWTH },
	{ { .growth_percent = 20 }, 10 * M, 50 * M, 12 * M, TRIGGER_GROWTH },
	{ { .growth_percent = 300 }, 10 * M, 50 * M, 40 * M, TRIGGER_GROWTH },
	{ { .growth_percent = 20 }, 0, 0, 64 * K, TRIGGER_GROWTH },
	{ { .growth_percent = 20 }, 100 * K, 100 * K, 164 * K, TRIGGER_GROWTH },
	{ { .growth_percent = 33 }, M + 1, M + 1, M + 1 + 346031, TRIGGER_GROWTH },
	{ { .growth_percent = 20 }, UINT64_MAX / 2 * 2, UINT64_MAX, 0, TRIGGER_NONE },
	{ { .peak_percent = 5 }, 10 * M, 100 * M, 105 * M, TRIGGER_PEAK },
	{ { .peak_percent = 5 }, 0, 0, 64 * K, TRIGGER_PEAK },
	{ { .peak_percent = 5, .growth_percent = 20 }, 10 * M, 100 * M, 12 * M, TRIGGER_GROWTH },
	{ { .peak_percent = 5, .growth_percent = 20 }, 100 * M, 100 * M, 105 * M, TRIGGER_PEAK },
	{ { .peak_percent = 20, .growth_percent = 20 }, 100 * M, 100 * M, 120 * M, TRIGGER_PEAK },
};

Test(trigger, fires_at_the_threshold)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t at = cases[i].at ?: UINT64_MAX / 2;
		struct process_view below = view_of(at - 1, cases[i].last, cases[i].most);
		struct process_view there = view_of(at, cases[i].last, cases[i].most);

		cr_expect_eq(triggers__threshold(&cases[i].options, &below), cases[i].at, "case %zu: %zu", i,
			     (size_t)triggers__threshold(&cases[i].options, &below));
		cr_expect_eq(triggers__decide(&cases[i].options, &below), TRIGGER_NONE, "case %zu", i);
		cr_expect_eq(triggers__decide(&cases[i].options, &there), cases[i].trigger, "case %zu", i);
	}
}

/* The largest snapshot is near the peak, whatever the peak is and however late each snapshot comes. */
Test(trigger, leaves_a_snapshot_near_each_peak)
{
	const struct trigger_options options = { .peak_percent = 5 };

	for (int round = 0; round < 200; round++) {
		uint64_t peak = 2 * M + random() % (1000 * M), shown = 0;

		for (uint64_t now = 0; now < peak; now += 1 + random() % (64 * K)) {
			struct process_view view = view_of(now, shown, shown);

			if (triggers__decide(&options, &view))
				shown = now;
		}
		cr_expect(shown * 1.05 + 64 * K >= peak, "%zu of %zu", (size_t)shown, (size_t)peak);
	}
}

Test(trigger, never_fires_for_an_exited_or_vforked_process)
{
	const struct trigger_options options = { .growth_bytes = 1, .on_oom = true };
	struct process_view view = view_of(M, 0, 0);

	view.is_near_oom = view.has_ended = true;
	cr_expect_eq(triggers__decide(&options, &view), TRIGGER_NONE);
	view.has_ended = false;
	view.is_vforked = true;
	cr_expect_eq(triggers__decide(&options, &view), TRIGGER_NONE);
}

Test(trigger, oom_comes_first_if_it_is_requested)
{
	struct trigger_options options = { .growth_bytes = 1, .on_oom = true };
	struct process_view view = view_of(M, 0, 0);

	view.is_near_oom = true;
	cr_expect_eq(triggers__decide(&options, &view), TRIGGER_OOM);
	options.on_oom = false;
	cr_expect_eq(triggers__decide(&options, &view), TRIGGER_GROWTH);
}

Test(trigger, is_enabled_by_any_option)
{
	cr_expect(!triggers__are_set(&(struct trigger_options){}));
	cr_expect(triggers__are_set(&(struct trigger_options){ .growth_bytes = 1 }));
	cr_expect(triggers__are_set(&(struct trigger_options){ .growth_percent = 1 }));
	cr_expect(triggers__are_set(&(struct trigger_options){ .peak_percent = 1 }));
	cr_expect(triggers__are_set(&(struct trigger_options){ .on_oom = true }));
}

Test(trigger, has_a_name)
{
	cr_expect_str_eq(trigger_name(TRIGGER_INTERVAL), "interval");
	cr_expect_str_eq(trigger_name(TRIGGER_LAST), "last");
}

Test(trigger, parses_growth)
{
	static const struct {
		const char *text;
		uint64_t percent, bytes;
	} good[] = {
		{ "20%", 20, 0 }, { "1%", 1, 0 }, { "100000%", 100000, 0 }, { "100M", 0, 100 * M },
		{ "1", 0, 1 }, { "64KiB", 0, 64 * K },
	};
	static const char *const bad[] = { "", "%", "0%", "0", "-1", "20 %", "20%%", "x%", "100001%",
					   "1.5M", "99999999999999999999%", "M" };
	struct trigger_options options = {};
	struct reason why;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		cr_expect_eq(parse_growth_trigger(good[i].text, &options, &why), 0, "%s", good[i].text);
		cr_expect_eq(options.growth_percent, good[i].percent, "%s", good[i].text);
		cr_expect_eq(options.growth_bytes, good[i].bytes, "%s", good[i].text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_neq(parse_growth_trigger(bad[i], &options, &why), 0, "%s", bad[i]);
	cr_expect_eq(options.growth_bytes, 64 * K, "what is bad changes nothing");
}

Test(trigger, parses_peak)
{
	static const char *const bad[] = { "", "5", "%", "0%", "5M" };
	uint64_t percent = 7;
	struct reason why;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_neq(parse_peak_trigger(bad[i], &percent, &why), 0, "%s", bad[i]);
	cr_expect_eq(percent, 7);
	cr_expect_eq(parse_peak_trigger("5%", &percent, &why), 0);
	cr_expect_eq(percent, 5);
}
