// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "snapshot.h"

static struct snapshot *make(void)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_BIRTH);
	struct snapshot *snapshot;

	cr_assert_eq(snapshot_builder__metadata(builder, "pid", "4711"), 0);
	cr_assert_eq(snapshot_builder__metadata(builder, "host", "shop"), 0);
	cr_assert_eq(snapshot_builder__trace(builder, &(struct snap_trace){ .size = 7 }), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

static void expect_all(const struct snapshot *snapshot)
{
	cr_expect_str_eq(snapshot__metadata(snapshot, "pid"), "4712");
	cr_expect_str_eq(snapshot__metadata(snapshot, "host"), "shop");
	cr_expect_str_eq(snapshot__metadata(snapshot, "filters"), "--include 'a*'");
	cr_expect_str_eq(snapshot__metadata(snapshot, "empty"), "");
	cr_expect_eq(snapshot__tables(snapshot)->metadata_nr, 4);
	cr_expect_eq(snapshot__trace(snapshot, 0).size, 7);
}

/* The snapshot, and the metadata read back from its file. */
static void set_and_expect(struct snapshot *snapshot)
{
	struct reason why = {};
	struct snapshot *again;
	void *bytes;
	size_t len;

	cr_assert_eq(snapshot__set_metadata(snapshot, "filters", "--include 'a*'"), 0);
	cr_assert_eq(snapshot__set_metadata(snapshot, "pid", "4712"), 0);
	cr_assert_eq(snapshot__set_metadata(snapshot, "empty", "x"), 0);
	cr_assert_eq(snapshot__set_metadata(snapshot, "empty", ""), 0);
	cr_assert_eq(snapshot__set_metadata(snapshot, "", "x"), -EINVAL);
	expect_all(snapshot);
	cr_assert_eq(snapshot__serialize(snapshot, NULL, &bytes, &len), 0);
	again = snapshot__open_memory(bytes, len, &why);
	cr_assert_not_null(again, "%s", why.text);
	expect_all(again);
	snapshot__close(again);
	free(bytes);
}

Test(cmd_set_metadata, changes_a_snapshot_that_was_built)
{
	struct snapshot *snapshot = make();

	set_and_expect(snapshot);
	snapshot__close(snapshot);
}

Test(cmd_set_metadata, changes_a_part_of_a_snapshot)
{
	struct snapshot *whole = make(), *part = NULL;

	cr_assert_eq(snapshot__select(whole, NULL, &part), 0);
	snapshot__close(whole);
	set_and_expect(part);
	snapshot__close(part);
}

Test(cmd_set_metadata, changes_a_snapshot_read_from_a_file)
{
	struct snapshot *built = make(), *read;
	void *bytes;
	size_t len;

	cr_assert_eq(snapshot__serialize(built, NULL, &bytes, &len), 0);
	snapshot__close(built);
	read = snapshot__open_memory(bytes, len, NULL);
	set_and_expect(read);
	snapshot__close(read);
	free(bytes);
}
