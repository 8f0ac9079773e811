// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A snapshot is the same thing whether it comes from a builder, from a file, or is a part of another one. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "snapshot_sample.h"

static struct snapshot *part_of(const struct snapshot *snapshot, const uint8_t *keep)
{
	struct snapshot *part = NULL;

	cr_assert_eq(snapshot__select(snapshot, keep, &part), 0);
	return part;
}

static void expect_file(const struct snapshot *snapshot, const struct sample *want)
{
	struct sample got = sample_serialize(snapshot, NULL);

	cr_assert_eq(got.len, want->len);
	cr_expect_arr_eq(got.bytes, want->bytes, want->len);
	sample_release(&got);
}

Test(snapshot_finish, gives_the_same_snapshot_as_the_file)
{
	static const unsigned int columns[] = { 0, SNAP_WITH_BIRTH, SNAP_WITH_ALL };

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		struct snapshot_builder *builder = sample_builder(columns[i]);
		struct snapshot *snapshot;
		struct sample want;
		void *bytes;

		cr_assert_eq(snapshot_builder__serialize(builder, &bytes, &want.len), 0);
		want.bytes = bytes;
		snapshot = sample_finish(builder);
		cr_expect_str_eq(snapshot__metadata(snapshot, "comm"), "app");
		cr_expect_gt(sample_walk(snapshot), 0);
		expect_file(snapshot, &want);
		snapshot__close(snapshot);
		sample_release(&want);
	}
}

Test(snapshot_finish, accepts_an_empty_snapshot)
{
	struct snapshot *snapshot = sample_finish(snapshot_builder__new(SNAP_WITH_BIRTH));
	struct snapshot *part = part_of(snapshot, NULL);
	struct sample want = sample_serialize(snapshot, NULL);

	cr_expect_eq(snapshot__tables(snapshot)->trace_nr, 0);
	cr_expect_not_null(snapshot__tables(snapshot)->trace_birth_ns);
	cr_expect_null(snapshot__tables(snapshot)->trace_thread);
	expect_file(part, &want);
	snapshot__close(part);
	snapshot__close(snapshot);
	sample_release(&want);
}

Test(snapshot_finish, fills_absent_columns_of_traces_with_zero)
{
	struct snapshot *all = sample_finish(sample_builder(SNAP_WITH_ALL)), *few = sample_finish(sample_builder(0));
	const struct snap_trace a = snapshot__trace(all, 1), b = snapshot__trace(few, 1);

	cr_expect(a.size == 200 && a.birth_ns == 12 && a.address == 0x2000 && a.traceback == 2);
	cr_expect(a.domain == 1 && a.thread == 42);
	cr_expect(b.size == 200 && b.birth_ns == 0 && b.address == 0 && b.traceback == 2);
	cr_expect(b.domain == 0 && b.thread == 0);
	snapshot__close(all);
	snapshot__close(few);
}

Test(snapshot_select, may_keep_all_traces)
{
	struct snapshot *snapshot = sample_finish(sample_builder(SNAP_WITH_ALL)), *part, *again;
	struct sample want = sample_serialize(snapshot, NULL);

	part = part_of(snapshot, NULL);
	snapshot__close(snapshot);
	expect_file(part, &want);
	again = part_of(part, (const uint8_t[]){ 1, 2, 255, 1 });
	expect_file(again, &want);
	snapshot__close(part);
	snapshot__close(again);
	sample_release(&want);
}

/* Parts of the sample. In the sample only traceback 1 has frame 3, and only traceback 2 is limited. */
static const struct {
	uint8_t keep[4];
	uint32_t traceback_nr, frame_nr;
	uint64_t traceback_frame_nr;
	bool has_list_c;
} parts[] = {
	{ { 0, 0, 0, 0 }, 1, 1, 0, false },
	{ { 0, 0, 0, 1 }, 1, 1, 0, false },
	{ { 0, 1, 0, 0 }, 2, 3, 2, false },
	{ { 0, 1, 0, 1 }, 2, 3, 2, false },
	{ { 1, 0, 0, 0 }, 2, 4, 3, true },
	{ { 1, 0, 1, 0 }, 2, 4, 3, true },
	{ { 1, 1, 0, 0 }, 3, 4, 5, true },
};

static bool has_string(const struct snapshot *snapshot, const char *text)
{
	for (uint32_t i = 0; i < snapshot__tables(snapshot)->string_nr; i++)
		if (!strcmp(snapshot__string(snapshot, i), text))
			return true;
	return false;
}

static const char *newest_function(const struct snapshot *snapshot, uint32_t traceback)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	const struct snap_traceback *row = &t->traceback[traceback];
	uint32_t frame = row->nframe ? t->traceback_frame[row->first + row->nframe - 1] : 0;

	return snapshot__string(snapshot, t->frame[frame].function);
}

static void expect_traces(const struct snapshot *all, const struct snapshot *part,
			  const uint8_t keep[4])
{
	uint64_t nr = 0;

	for (uint64_t i = 0; i < 4; i++) {
		const struct snap_trace want = snapshot__trace(all, i);
		struct snap_trace got;

		if (!keep[i])
			continue;
		got = snapshot__trace(part, nr++);
		cr_expect_str_eq(newest_function(part, got.traceback),
				 newest_function(all, want.traceback));
		cr_expect_eq(snapshot__tables(part)->traceback[got.traceback].total_nframe,
			     snapshot__tables(all)->traceback[want.traceback].total_nframe);
		got.traceback = want.traceback;
		cr_expect(!memcmp(&got.size, &want.size, offsetof(struct snap_trace, thread) + 4));
	}
	cr_expect_eq(snapshot__tables(part)->trace_nr, nr);
}

Test(snapshot_select, keeps_only_what_the_selected_traces_need)
{
	struct snapshot *all = sample_finish(sample_builder(SNAP_WITH_ALL));

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct snapshot *part = part_of(all, parts[i].keep), *back;
		const struct snapshot_tables *t = snapshot__tables(part);
		struct sample sample = sample_serialize(part, NULL);
		struct reason why = { "" };

		cr_expect_eq(t->traceback_nr, parts[i].traceback_nr, "part %zu", i);
		cr_expect_eq(t->frame_nr, parts[i].frame_nr, "part %zu", i);
		cr_expect_eq(t->traceback_frame_nr, parts[i].traceback_frame_nr, "part %zu", i);
		cr_expect_eq(has_string(part, "list.c"), parts[i].has_list_c, "part %zu", i);
		cr_expect(t->probe_nr == 1 && t->metadata_nr == 2 && t->counter_nr == 2);
		cr_expect_str_eq(snapshot__metadata(part, "pid"), "4711");
		cr_expect_eq(snapshot__counter(part, "blocks_dropped"), 3);
		expect_traces(all, part, parts[i].keep);
		back = snapshot__open_memory(sample.bytes, sample.len, &why);
		cr_assert(back, "part %zu: %s", i, why.text);
		sample_walk(back);
		snapshot__close(back);
		snapshot__close(part);
		sample_release(&sample);
	}
	snapshot__close(all);
}

Test(snapshot_select, keeps_the_columns)
{
	struct snapshot *all = sample_finish(sample_builder(SNAP_WITH_DOMAIN | SNAP_WITH_THREAD));
	struct snapshot *part = part_of(all, (const uint8_t[]){ 1, 0, 0, 0 });
	const struct snapshot_tables *t = snapshot__tables(part);

	cr_expect(t->trace_domain && t->trace_thread && !t->trace_birth_ns && !t->trace_address);
	snapshot__close(all);
	snapshot__close(part);
}
