// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Quotas of CPU time, in made hierarchies of both versions. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "collect/budget/budget.h"

static char top[] = "/tmp/allocsnap-quota.XXXXXX";

static void make_top(void)
{
	cr_assert(mkdtemp(top));
}

static void remove_top(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", top);
	cr_assert_eq(system(command), 0);
}

TestSuite(cpu_quota, .init = make_top, .fini = remove_top);

/* Makes the folders of the path, too. */
static void write_below_top(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	for (char *slash = path + strlen(top) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	file = fopen(path, "w");
	cr_assert(file, "%s", path);
	fputs(text, file);
	fclose(file);
}

/* mountinfo has the folder of this test for "@". */
static uint64_t quota(const char *mountinfo, const char *groups)
{
	char text[1024];
	struct cpu_quotas quotas;
	uint64_t ns;
	size_t len = 0;

	for (const char *at = mountinfo; *at; at++)
		len += *at == '@' ? snprintf(text + len, sizeof(text) - len, "%s", top) : snprintf(text + len, 2, "%c", *at);
	cr_assert_eq(cpu_quotas_find(&quotas, text), 0);
	ns = cpu_quota_ns(&quotas, groups);
	cpu_quotas_release(&quotas);
	return ns;
}

#define UNIFIED "22 21 0:20 / /proc rw - proc proc rw\n30 20 0:26 / @/two rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
#define FIRST "31 20 0:27 / @/one rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n32 20 0:28 / @/set rw - cgroup cgroup rw,cpuset\n"

Test(cpu_quota, is_the_least_of_a_group_and_those_above)
{
	write_below_top("two/a/b/cpu.max", "max 100000\n");
	cr_expect_eq(quota(UNIFIED, "0::/a/b\n"), UINT64_MAX);
	write_below_top("two/a/cpu.max", "20000 100000\n");
	cr_expect_eq(quota(UNIFIED, "0::/a/b\n"), 200000000, "the one above");
	write_below_top("two/a/b/cpu.max", "1000 10000\n");
	cr_expect_eq(quota(UNIFIED, "0::/a/b\n"), 100000000);
	write_below_top("two/a/b/cpu.max", "350000 100000\n");
	cr_expect_eq(quota(UNIFIED, "0::/a/b\n"), 200000000);
	cr_expect_eq(quota(UNIFIED, "0::/\n"), UINT64_MAX);
	cr_expect_eq(quota(UNIFIED, "0::/gone\n"), UINT64_MAX);
	cr_expect_eq(quota("", "0::/a/b\n"), UINT64_MAX, "nothing is mounted");
}

Test(cpu_quota, of_the_first_version)
{
	write_below_top("one/a/cpu.cfs_quota_us", "-1\n");
	write_below_top("one/a/cpu.cfs_period_us", "100000\n");
	cr_expect_eq(quota(FIRST, "4:cpu,cpuacct:/a\n5:cpuset:/x\n0::/\n"), UINT64_MAX);
	write_below_top("one/a/cpu.cfs_quota_us", "50000\n");
	cr_expect_eq(quota(FIRST, "5:cpuset:/a\n4:cpuacct,cpu:/a\n0::/\n"), 500000000);
	cr_expect_eq(quota(FIRST, "5:cpuset:/a\n4:cpuacct:/a\n"), UINT64_MAX, "another hierarchy");
	write_below_top("one/a/cpu.cfs_period_us", "0\n");
	cr_expect_eq(quota(FIRST, "4:cpu:/a\n"), UINT64_MAX, "nonsense");
}

Test(cpu_quota, of_both_versions_the_less)
{
	write_below_top("two/a/cpu.max", "70000 100000\n");
	write_below_top("one/b/cpu.cfs_quota_us", "30000\n");
	write_below_top("one/b/cpu.cfs_period_us", "100000\n");
	cr_expect_eq(quota(UNIFIED FIRST, "0::/a\n4:cpu:/b\n"), 300000000);
}

/* As in a container: a part of the hierarchy is mounted. */
Test(cpu_quota, of_groups_that_cannot_be_seen_is_none)
{
	static const char part[] = "30 20 0:26 /docker/x @/part rw - cgroup2 cgroup2 rw\n";

	write_below_top("part/a/cpu.max", "10000 100000\n");
	write_below_top("part/cpu.max", "40000 100000\n");
	cr_expect_eq(quota(part, "0::/docker/x/a\n"), 100000000);
	cr_expect_eq(quota(part, "0::/docker/x\n"), 400000000);
	cr_expect_eq(quota(part, "0::/docker/xx\n"), UINT64_MAX);
	cr_expect_eq(quota(part, "0::/docker/x/../a\n"), UINT64_MAX);
	write_below_top("two/docker/x/cpu.max", "20000 100000\n");
	cr_expect_eq(quota("30 20 0:26 /docker/x @/part rw - cgroup2 cgroup2 rw\n" UNIFIED, "0::/docker/x\n"), 200000000,
		     "the whole one is mounted, too");
}
