// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Growth of RSS that a recording does not explain, and what it may be. */
#include "engine/leak_runtime.h"

#include <criterion/criterion.h>

#include "snapshot.h"

#define MIB 1048576.0

enum { DOMAIN_CUSTOM = 16 };

struct growth_case {
	const char *exe, *sampler, *unrecorded, *domains;
	unsigned int recorded; /* a domain that is recorded besides malloc */
	double rss, files, traced, mapped; /* growth, in MiB */
	double untraced;
	enum leak_untraced what;
};

static void check_growth(const struct growth_case *of, size_t at)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct leaks leaks = { .rss_bytes = of->rss * MIB, .files_bytes = of->files * MIB,
			       .rss_growth = { 1, of->traced * MIB, of->mapped * MIB } };

	cr_assert_eq(snapshot_builder__metadata(builder, "exe", of->exe), 0);
	if (of->sampler) {
		cr_assert_eq(snapshot_builder__metadata(builder, "sampler_kind", of->sampler), 0);
		if (!of->domains)
			cr_assert_eq(snapshot_builder__metadata(builder, "max_size", "512"), 0);
	}
	if (of->domains)
		cr_assert_eq(snapshot_builder__metadata(builder, "domains", of->domains), 0);
	if (of->unrecorded)
		cr_assert_eq(snapshot_builder__metadata(builder, "unrecorded", of->unrecorded), 0);
	cr_assert_eq(snapshot_builder__domain_name(builder, 0, "malloc"), 0);
	if (of->recorded)
		cr_assert_eq(snapshot_builder__domain_name(builder, of->recorded, "recorded"), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &leaks.last), 0);
	cr_expect_float_eq(leaks_untraced_growth(&leaks) / MIB, of->untraced, 0.001, "case %zu: %f", at,
			   leaks_untraced_growth(&leaks) / MIB);
	if (of->untraced)
		cr_expect_eq(leaks_find_untraced(&leaks).kind, of->what, "case %zu", at);
	snapshot__close(leaks.last);
}

#define PYTHON "/usr/bin/python3.11"
#define REDIS "/usr/sbin/redis-server"

Test(leak_runtimes, growth_that_nothing_traced_explains)
{
	static const struct growth_case cases[] = {
		{ REDIS, .rss = 10, .traced = 1, .untraced = 9 },
		{ REDIS, .rss = 10, .traced = -1, .untraced = 10 },
		{ REDIS, .rss = 10, .traced = 6 },
		{ REDIS, .rss = 0.9 },
		{ REDIS, .rss = -10 },
		{ REDIS, .rss = 10, .files = 9, .traced = 1 },
		{ REDIS, .rss = 10, .files = -9, .traced = 9, .untraced = 10 },
		/* mappings: as much as RSS, and more, of which most was not touched */
		{ REDIS, .recorded = DOMAIN_MMAP, .rss = 10, .mapped = 9 },
		{ REDIS, .recorded = DOMAIN_MMAP, .rss = 10, .mapped = 19 },
		{ REDIS, .recorded = DOMAIN_MMAP, .rss = 10, .mapped = 70, .untraced = 10 },
		{ REDIS, .recorded = DOMAIN_MMAP, .rss = 10, .traced = 6, .mapped = 70 },
		/* what it may be */
		{ "/opt/go", .unrecorded = "Go's heap", .rss = 10, .untraced = 10, .what = LEAK_UNTRACED_NAMED },
		{ PYTHON, .rss = 10, .traced = 1, .untraced = 9, .what = LEAK_UNTRACED_SMALL_OBJECTS },
		{ PYTHON " (deleted)", .rss = 10, .untraced = 10, .what = LEAK_UNTRACED_SMALL_OBJECTS },
		{ PYTHON, .recorded = DOMAIN_CUSTOM, .rss = 10, .untraced = 10, .what = LEAK_UNTRACED_SMALL_OBJECTS },
		{ PYTHON, .recorded = DOMAIN_PYTHON, .rss = 10, .untraced = 10, .what = LEAK_UNTRACED_PYTHONS_HEAP },
		{ PYTHON, "pools", .recorded = DOMAIN_PYTHON, .rss = 10, .untraced = 10, .what = LEAK_UNTRACED_LARGE_OBJECTS },
		{ PYTHON, "pools", .domains = "python,malloc", .recorded = DOMAIN_PYTHON, .rss = 10, .untraced = 10,
		  .what = LEAK_UNTRACED_UNKNOWN },
		{ PYTHON, "own", .rss = 10, .untraced = 10, .what = LEAK_UNTRACED_SMALL_OBJECTS },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		check_growth(&cases[i], i);
}
