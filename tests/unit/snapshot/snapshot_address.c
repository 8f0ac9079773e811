// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which block an address lies in. */
#include <criterion/criterion.h>
#include <errno.h>

#include "snapshot.h"

static struct snapshot *snapshot_of(const struct snap_trace *trace, size_t nr)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_ALL);
	struct snapshot *snapshot;

	cr_assert(builder);
	for (size_t i = 0; i < nr; i++)
		cr_assert_eq(snapshot_builder__trace(builder, &trace[i]), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

static void expect_found(const struct snapshot *snapshot, uint64_t address, uint64_t size)
{
	uint64_t at;

	cr_assert_eq(snapshot__find_address(snapshot, address, &at), 0, "%#jx", (uintmax_t)address);
	cr_expect_eq(snapshot__trace(snapshot, at).size, size, "%#jx", (uintmax_t)address);
}

Test(snapshot_address, is_attributed_to_the_smallest_of_several_blocks)
{
	static const struct snap_trace trace[] = {
		{ .address = 0x1000, .size = 0x4000, .domain = 1 },
		{ .address = 0x1000, .size = 24, .domain = 0 },
		{ .address = 0x3000, .size = 100, .domain = 0 },
		{ .address = 0x2f00, .size = 0x300, .domain = 2 },
		{ .address = 0x9000, .size = 0 },
	};
	struct snapshot *snapshot = snapshot_of(trace, 5);
	uint64_t at;

	expect_found(snapshot, 0x1000, 24);
	expect_found(snapshot, 0x1017, 24);
	expect_found(snapshot, 0x1018, 0x4000);
	expect_found(snapshot, 0x3000, 100);
	expect_found(snapshot, 0x3064, 0x300);
	expect_found(snapshot, 0x4fff, 0x4000);
	expect_found(snapshot, 0x9000, 0);
	cr_expect_eq(snapshot__find_address(snapshot, 0x5000, &at), -ENOENT);
	cr_expect_eq(snapshot__find_address(snapshot, 0x9001, &at), -ENOENT);
	snapshot__close(snapshot);
}
