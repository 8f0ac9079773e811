// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Hints at what a snapshot of a runtime's process lacks. */
#include "engine/leak_runtime.h"

#include <criterion/criterion.h>

#include "snapshot.h"

#define MIB 1048576.0

enum { DOMAIN_MMAP = 1, DOMAIN_PYTHON = 5, DOMAIN_CUSTOM = 16 };

struct python_case {
	const char *exe;
	unsigned int runtimes; /* that call what leaks */
	unsigned int recorded; /* a domain that is recorded besides malloc */
	double rss, traced; /* growth, in MiB */
	bool misses, misses_heap;
};

static bool misses_objects(const struct python_case *of, bool *ret_heap)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct leaks leaks = { .rss_first = 64 * MIB, .rss_last = (64 + of->rss) * MIB, .growth_bytes = of->traced * MIB };
	bool misses;

	cr_assert_eq(snapshot_builder__metadata(builder, "exe", of->exe), 0);
	cr_assert_eq(snapshot_builder__domain_name(builder, 0, "malloc"), 0);
	if (of->recorded)
		cr_assert_eq(snapshot_builder__domain_name(builder, of->recorded, "recorded"), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &leaks.last), 0);
	misses = leaks_miss_small_objects(&leaks, of->runtimes);
	*ret_heap = leaks_miss_heap(&leaks);
	snapshot__close(leaks.last);
	return misses;
}

Test(leak_runtimes, small_objects_of_python_are_missed_where_most_growth_is_not_traced)
{
	static const struct python_case cases[] = {
		{ "/usr/bin/python3.11", 0, 0, 10, 1, true },
		{ "/usr/bin/python3.11 (deleted)", 0, 0, 10, -1, true },
		{ "/usr/sbin/uwsgi", 1u << LEAK_RUNTIME_PYTHON, 0, 10, 1, true },
		{ "/usr/sbin/uwsgi", 1u << LEAK_RUNTIME_JAVA, 0, 10, 1, false },
		{ "/usr/sbin/redis-server", 0, 0, 10, 1, false },
		{ "/usr/bin/python3.11", 0, DOMAIN_MMAP, 10, 1, false },
		{ "/usr/bin/python3.11", 0, DOMAIN_PYTHON, 10, 1, false, true },
		{ "/usr/bin/python3.11", 0, DOMAIN_PYTHON, 10, 6, false, false },
		{ "/usr/bin/python3.11", 0, DOMAIN_PYTHON, 0.1, 0, false, false },
		{ "/usr/bin/python3.11", 0, DOMAIN_CUSTOM, 10, 1, true },
		{ "/usr/bin/python3.11", 0, 0, 10, 6, false },
		{ "/usr/bin/python3.11", 0, 0, 0.1, 0, false },
		{ "/usr/bin/python3.11", 0, 0, -10, 0, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool misses_heap, misses = misses_objects(&cases[i], &misses_heap);

		cr_expect_eq(misses, cases[i].misses, "case %zu: %s", i, cases[i].exe);
		cr_expect_eq(misses_heap, cases[i].misses_heap, "case %zu: %s, its heap", i, cases[i].exe);
	}
}

static bool misses_large(const char *sampler, const char *max_size, double rss, double traced)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct leaks leaks = { .rss_first = 64 * MIB, .rss_last = (64 + rss) * MIB, .growth_bytes = traced * MIB };
	bool misses;

	cr_assert_eq(snapshot_builder__metadata(builder, "sampler_kind", sampler), 0);
	if (max_size)
		cr_assert_eq(snapshot_builder__metadata(builder, "max_size", max_size), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &leaks.last), 0);
	misses = leaks_miss_large_objects(&leaks);
	snapshot__close(leaks.last);
	return misses;
}

Test(leak_runtimes, large_objects_are_missed_where_pools_are_not_most_of_the_growth)
{
	cr_expect(misses_large("pools", "512", 10, 1));
	cr_expect_not(misses_large("pools", "512", 10, 6));
	cr_expect_not(misses_large("pools", "512", 0.1, 0));
	cr_expect_not(misses_large("pools", NULL, 10, 1));
	cr_expect_not(misses_large("own", "512", 10, 1));
}
