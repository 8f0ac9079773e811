// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/units.h"
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

/* ---- cmd parse size ---- */

Test(cmd_parse_size, accepts_units_in_powers_of_1024)
{
	static const struct {
		const char *text;
		int err;
		uint64_t bytes;
	} cases[] = {
		{ "0", 0, 0 },
		{ "4096", 0, 4096 },
		{ "64K", 0, 65536 },
		{ "64KiB", 0, 65536 },
		{ "64kib", 0, 65536 },
		{ "10MiB", 0, 10485760 },
		{ "10m", 0, 10485760 },
		{ "2G", 0, 2147483648 },
		{ "1TiB", 0, 1099511627776 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "16777215T", 0, UINT64_MAX - ((1ull << 40) - 1) },
		{ "16777216T", -ERANGE },
		{ "18446744073709551616", -ERANGE },
		{ "", -EINVAL },
		{ "K", -EINVAL },
		{ "-1", -EINVAL },
		{ "+1", -EINVAL },
		{ " 1", -EINVAL },
		{ "1 ", -EINVAL },
		{ "1 K", -EINVAL },
		{ "1KB", -EINVAL },
		{ "1.5M", -EINVAL },
		{ "0x10", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t bytes = 77;

		cr_expect_eq(parse_size(cases[i].text, &bytes), cases[i].err, "%s", cases[i].text);
		cr_expect_eq(bytes, cases[i].err ? 77 : cases[i].bytes, "%s", cases[i].text);
	}
}
