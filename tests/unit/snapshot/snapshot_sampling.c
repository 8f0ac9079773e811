// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "snapshot_sample.h"

/* Snapshots of sampled recordings: weights, and the gaps. */

TestSuite(snapshot_sampling, .timeout = 600);

/* The sample's traces without weights, then two with. */
static struct snapshot *make(unsigned int columns)
{
	struct snapshot_builder *builder = sample_builder(columns);
	struct snap_trace trace[] = {
		{ .size = 7, .weight = 1.5, .traceback = 1 }, { .size = 9, .weight = 524288.5 },
	};
	uint64_t first;

	cr_assert_eq(snapshot_builder__add_traces(builder, 2, &first), 0);
	cr_assert_eq(snapshot_builder__set_traces(builder, first, trace, 2), 0);
	cr_assert_eq(snapshot_builder__gap(builder, 12, 13), 0);
	cr_assert_eq(snapshot_builder__gap(builder, 13, 20), 0);
	return sample_finish(builder);
}

static void expect_gaps(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);

	cr_assert_eq(t->gap_nr, 2);
	cr_expect(t->gap[0].start_ns == 12 && t->gap[0].end_ns == 13);
	cr_expect(t->gap[1].start_ns == 13 && t->gap[1].end_ns == 20);
}

static void expect(const struct snapshot *snapshot)
{
	const double weight[] = { 1, 1, 1, 1, 1.5, 524288.5 };
	const struct snapshot_tables *t = snapshot__tables(snapshot);

	cr_assert(t->trace_nr == 6 && t->trace_weight);
	cr_expect_arr_eq(t->trace_weight, weight, sizeof(weight));
	cr_expect_eq(snapshot__trace(snapshot, 5).weight, 524288.5);
	expect_gaps(snapshot);
}

Test(snapshot_sampling, is_kept_in_the_file)
{
	const struct snapshot_save_options compress = { .compress = true };
	struct snapshot *snapshot = make(SNAP_WITH_ALL | SNAP_WITH_WEIGHT), *again;

	expect(snapshot);
	for (int i = 0; i < 2; i++) {
		struct sample sample = sample_serialize(snapshot, i ? &compress : NULL);

		again = snapshot__open_memory(sample.bytes, sample.len, NULL);
		cr_assert(again);
		expect(again);
		snapshot__close(again);
		sample_release(&sample);
	}
	snapshot__close(snapshot);
}

Test(snapshot_sampling, is_kept_in_a_selection)
{
	struct snapshot *snapshot = make(SNAP_WITH_WEIGHT), *part;

	cr_assert_eq(snapshot__select(snapshot, NULL, &part), 0);
	expect(part);
	snapshot__close(part);
	cr_assert_eq(snapshot__select(snapshot, (const uint8_t[6]){ 1, 0, 0, 0, 0, 1 }, &part), 0);
	cr_expect_eq(snapshot__tables(part)->trace_nr, 2);
	cr_expect_eq(snapshot__trace(part, 0).weight, 1);
	cr_expect_eq(snapshot__trace(part, 1).weight, 524288.5);
	expect_gaps(part);
	snapshot__close(part);
	snapshot__close(snapshot);
}

Test(snapshot_sampling, is_absent_unless_requested)
{
	struct snapshot *snapshot = make(SNAP_WITH_ALL);

	cr_expect_null(snapshot__tables(snapshot)->trace_weight);
	cr_expect_eq(snapshot__trace(snapshot, 5).weight, 1);
	snapshot__close(snapshot);
	snapshot = sample_finish(sample_builder(SNAP_WITH_WEIGHT));
	cr_expect_not_null(snapshot__tables(snapshot)->trace_weight);
	cr_expect_null(snapshot__tables(snapshot)->gap);
	snapshot__close(snapshot);
}

Test(snapshot_sampling, refuses_invalid_weights)
{
	static const double bad[] = { -1, 0.5, 0x1.fffffffffffffp-1, INFINITY, -INFINITY, NAN };
	struct snapshot_builder *with = snapshot_builder__new(SNAP_WITH_WEIGHT);
	struct snapshot_builder *without = snapshot_builder__new(0);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct snap_trace trace = { .weight = bad[i] };

		cr_expect_eq(snapshot_builder__trace(with, &trace), -EINVAL, "%g", bad[i]);
		cr_expect_eq(snapshot_builder__trace(without, &trace), 0, "%g", bad[i]);
	}
	snapshot_builder__free(with);
	snapshot_builder__free(without);
}

Test(snapshot_sampling, refuses_invalid_gaps)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);

	cr_expect_eq(snapshot_builder__gap(builder, 5, 5), -EINVAL);
	cr_expect_eq(snapshot_builder__gap(builder, 5, 4), -EINVAL);
	cr_assert_eq(snapshot_builder__gap(builder, 5, 10), 0);
	cr_expect_eq(snapshot_builder__gap(builder, 9, 11), -EINVAL);
	cr_expect_eq(snapshot_builder__gap(builder, 1, 2), -EINVAL);
	cr_expect_eq(snapshot_builder__gap(builder, 10, 11), 0);
	snapshot_builder__free(builder);
}

static const struct {
	uint32_t type;
	size_t at; /* of the value, in the section */
	uint64_t value;
	const char *says;
} damages[] = {
	{ SNAP_TRACE_WEIGHT, 0, 0, "section trace weights: row 0: 0 is no weight" },
	{ SNAP_TRACE_WEIGHT, 8, 0x3fe0000000000000, "row 1: 0.5 is no weight" },
	{ SNAP_TRACE_WEIGHT, 40, 0x7ff0000000000000, "row 5: inf is no weight" },
	{ SNAP_TRACE_WEIGHT, 40, 0x7ff8000000000000, "row 5: nan is no weight" },
	{ SNAP_TRACE_WEIGHT, 40, 0xc000000000000000, "row 5: -2 is no weight" },
	{ SNAP_GAPS, 0, 13, "section gaps: row 0 from 13 to 13 comes after 0" },
	{ SNAP_GAPS, 16, 12, "section gaps: row 1 from 12 to 20 comes after 13" },
	{ SNAP_GAPS, 24, 12, "section gaps: row 1 from 13 to 12 comes after 13" },
};

Test(snapshot_sampling, detects_damage)
{
	struct snapshot *snapshot = make(SNAP_WITH_ALL | SNAP_WITH_WEIGHT);

	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		struct sample sample = sample_serialize(snapshot, NULL);
		struct snap_section *section = sample_section(&sample, damages[i].type);

		sample_poke(&sample, sample.bytes + section->offset + damages[i].at,
			    damages[i].value, 8);
		sample_seal(&sample);
		sample_expect_refused(&sample, "value", EBADMSG, damages[i].says);
		sample_release(&sample);
	}
	snapshot__close(snapshot);
}

Test(snapshot_sampling, must_have_one_weight_for_each_trace)
{
	struct snapshot *snapshot = make(SNAP_WITH_WEIGHT);
	struct sample sample = sample_serialize(snapshot, NULL);
	struct snap_section *section = sample_section(&sample, SNAP_TRACE_WEIGHT);

	section->size -= sizeof(double);
	section->count--;
	memset(sample.bytes + section->offset + section->size, 0, sizeof(double));
	sample_seal(&sample);
	sample_expect_refused(&sample, "rows", EBADMSG, "trace weights: 5 rows for 6 traces");
	sample_release(&sample);
	snapshot__close(snapshot);
}

/* Where the functions of frames are declared. */

TestSuite(snapshot_first_line, .timeout = 600);

static int add(struct snapshot_builder *builder, uint32_t lineno, uint32_t first_line, uint32_t *ret)
{
	const struct snap_frame frame = { .lineno = lineno };

	return snapshot_builder__frame_declared(builder, &frame, first_line, ret);
}

/* Tracebacks of one frame each; a block of the second and the last. */
static struct snapshot *make_declared(void)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_FIRST_LINE);
	struct snap_trace trace = { .size = 10 };
	uint32_t frame[4], again, traceback;
	struct snapshot *snapshot;

	cr_assert_eq(add(builder, 7, 5, &frame[0]), 0);
	cr_assert_eq(add(builder, 7, 6, &frame[1]), 0);
	cr_assert_eq(add(builder, 7, 0, &frame[2]), 0);
	cr_assert_eq(add(builder, 9, 6, &frame[3]), 0);
	cr_assert_eq(add(builder, 7, 6, &again), 0);
	cr_expect_eq(again, frame[1]);
	cr_expect_eq(frame[3], 4, "each is another frame");
	cr_expect_eq(add(builder, 0, 6, &again), -EINVAL);
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(snapshot_builder__traceback(builder, &frame[i], 1, 1, 0, &traceback), 0);
		trace.traceback = traceback;
		if (i % 2)
			cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	}
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

static struct snapshot *reread(const struct snapshot *snapshot,
			       const struct snapshot_save_options *options, void **ret_bytes)
{
	struct snapshot *again;
	size_t len;

	cr_assert_eq(snapshot__serialize(snapshot, options, ret_bytes, &len), 0);
	again = snapshot__open_memory(*ret_bytes, len, NULL);
	cr_assert(again);
	return again;
}

static void expect_first_lines(const struct snapshot *snapshot, const uint32_t *first_line, uint32_t nr)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);

	cr_assert_eq(t->frame_nr, nr);
	cr_assert(t->frame_first_line);
	for (uint32_t i = 0; i < nr; i++)
		cr_expect_eq(t->frame_first_line[i], first_line[i], "frame %u: %u", i,
			     t->frame_first_line[i]);
}

Test(snapshot_first_line, is_kept_in_the_file)
{
	static const struct snapshot_save_options forms[] = {
		{}, { .compress = true }, { .compact = true }, { .compress = true, .compact = true },
	};
	struct snapshot *snapshot = make_declared();

	expect_first_lines(snapshot, (const uint32_t[]){ 0, 5, 6, 0, 6 }, 5);
	for (int i = 0; i < 4; i++) {
		void *bytes;
		struct snapshot *again = reread(snapshot, &forms[i], &bytes);

		expect_first_lines(again, (const uint32_t[]){ 0, 5, 6, 0, 6 }, 5);
		snapshot__close(again);
		free(bytes);
	}
	snapshot__close(snapshot);
}

Test(snapshot_first_line, is_copied_with_its_frame)
{
	struct snapshot *snapshot = make_declared(), *copy, *part;

	cr_assert_eq(snapshot__select(snapshot, NULL, &copy), 0);
	expect_first_lines(copy, (const uint32_t[]){ 0, 6, 6 }, 3);
	cr_assert_eq(snapshot__select(snapshot, (const uint8_t[]){ 0, 1 }, &part), 0);
	expect_first_lines(part, (const uint32_t[]){ 0, 6 }, 2);
	cr_expect_eq(snapshot__tables(part)->frame[1].lineno, 9);
	snapshot__close(part);
	snapshot__close(copy);
	snapshot__close(snapshot);
}

Test(snapshot_first_line, is_not_recorded_unless_requested)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_ALL);
	struct snapshot *snapshot, *copy;
	uint32_t frame[2];

	cr_assert_eq(add(builder, 7, 5, &frame[0]), 0);
	cr_assert_eq(add(builder, 7, 6, &frame[1]), 0);
	cr_expect_eq(frame[0], frame[1], "nothing tells them apart");
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	cr_expect_null(snapshot__tables(snapshot)->frame_first_line);
	cr_assert_eq(snapshot__select(snapshot, NULL, &copy), 0);
	cr_expect_null(snapshot__tables(copy)->frame_first_line);
	snapshot__close(copy);
	snapshot__close(snapshot);
}

/* Versions before this one refuse files that have the section. */
Test(snapshot_first_line, is_not_recorded_when_none_is_known)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_FIRST_LINE);
	struct snapshot *snapshot = make_declared(), *copy;
	uint32_t frame;

	cr_assert_eq(snapshot__select(snapshot, (const uint8_t[]){ 0, 0 }, &copy), 0);
	cr_expect_null(snapshot__tables(copy)->frame_first_line);
	snapshot__close(copy);
	snapshot__close(snapshot);
	cr_assert_eq(add(builder, 7, 0, &frame), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	cr_expect_null(snapshot__tables(snapshot)->frame_first_line);
	snapshot__close(snapshot);
}

static void expect_refused(uint32_t row, uint32_t first_line, const char *why)
{
	struct snapshot *snapshot = make_declared();
	struct sample sample = { 0 };
	struct snap_section *section;

	cr_assert_eq(snapshot__serialize(snapshot, NULL, (void **)&sample.bytes, &sample.len), 0);
	section = sample_section(&sample, SNAP_FRAME_FIRST_LINE);
	if (row == UINT32_MAX) {
		section->size -= sizeof(uint32_t);
		section->count--;
		memset(sample.bytes + section->offset + section->size, 0, sizeof(uint32_t));
	} else {
		memcpy(sample.bytes + section->offset + row * sizeof(uint32_t), &first_line,
		       sizeof(first_line));
	}
	sample_seal(&sample);
	sample_expect_refused(&sample, "first line", EBADMSG, why);
	sample_release(&sample);
	snapshot__close(snapshot);
}

Test(snapshot_first_line, without_a_frame_is_refused)
{
	expect_refused(0, 1, "section frame first lines: row 0: the frame has no line");
	expect_refused(UINT32_MAX, 0, "section frame first lines: 4 rows for 5 frames");
}

TestSuite(snapshot_churn, .timeout = 600);

static uint32_t traceback(struct snapshot_builder *builder, const char *function)
{
	struct snap_frame frame = { .lineno = 7 };
	uint32_t id, traceback;

	cr_assert_eq(snapshot_builder__string(builder, function, &frame.function), 0);
	cr_assert_eq(snapshot_builder__frame(builder, &frame, &id), 0);
	cr_assert_eq(snapshot_builder__traceback(builder, &id, 1, 1, 0, &traceback), 0);
	return traceback;
}

/* gone: a traceback whose blocks have all been freed; kept: one with a live block. */
static struct snapshot *make_churn(uint32_t *ret_gone, uint32_t *ret_kept)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_CHURN);
	struct snap_churn churn = { 3, 30, 2, 20 };
	struct snapshot *snapshot;

	*ret_gone = traceback(builder, "gone");
	traceback(builder, "unused");
	*ret_kept = traceback(builder, "kept");
	cr_assert_eq(snapshot_builder__churn(builder, *ret_gone, &churn), 0);
	cr_assert_eq(snapshot_builder__churn(builder, *ret_kept, &churn), 0);
	cr_assert_eq(snapshot_builder__churn(builder, *ret_kept, &churn), 0);
	cr_expect_eq(snapshot_builder__churn(builder, 99, &churn), -EINVAL);
	cr_assert_eq(snapshot_builder__trace(builder, &(struct snap_trace){
		.size = 10, .traceback = *ret_kept }), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

static void expect_churn(const struct snapshot *snapshot, const char *function, uint64_t allocations,
		   uint64_t temporary_bytes)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);

	for (uint32_t i = 1; i < t->traceback_nr; i++) {
		uint32_t frame = t->traceback_frame[t->traceback[i].first];

		if (strcmp(snapshot__string(snapshot, t->frame[frame].function), function))
			continue;
		cr_expect_eq(t->churn[i].allocations, allocations, "%s", function);
		cr_expect_eq(t->churn[i].temporary_bytes, temporary_bytes, "%s", function);
		return;
	}
	cr_assert_fail("no traceback of %s", function);
}

Test(snapshot_churn, is_summed_up_and_kept_in_the_file)
{
	uint32_t gone, kept;
	struct snapshot *snapshot = make_churn(&gone, &kept), *again;
	size_t len;
	void *bytes;

	expect_churn(snapshot, "gone", 3, 20);
	expect_churn(snapshot, "unused", 0, 0);
	expect_churn(snapshot, "kept", 6, 40);
	cr_assert_eq(snapshot__serialize(snapshot, NULL, &bytes, &len), 0);
	again = snapshot__open_memory(bytes, len, NULL);
	cr_assert(again);
	expect_churn(again, "gone", 3, 20);
	expect_churn(again, "kept", 6, 40);
	snapshot__close(again);
	snapshot__close(snapshot);
	free(bytes);
}

Test(snapshot_churn, is_kept_in_a_copy_and_left_out_of_a_part)
{
	uint32_t gone, kept;
	struct snapshot *snapshot = make_churn(&gone, &kept), *copy, *part;

	cr_assert_eq(snapshot__select(snapshot, NULL, &copy), 0);
	cr_expect_eq(snapshot__tables(copy)->traceback_nr, 3, "the unused one is left out");
	expect_churn(copy, "gone", 3, 20);
	expect_churn(copy, "kept", 6, 40);
	cr_assert_eq(snapshot__select(snapshot, (const uint8_t[]){ 1 }, &part), 0);
	cr_expect_null(snapshot__tables(part)->churn);
	cr_expect_eq(snapshot__tables(part)->traceback_nr, 2);
	snapshot__close(part);
	snapshot__close(copy);
	snapshot__close(snapshot);
}

Test(snapshot_churn, must_have_one_row_for_each_traceback)
{
	uint32_t gone, kept;
	struct snapshot *snapshot = make_churn(&gone, &kept);
	struct sample sample = { 0 };
	struct snap_section *section;

	cr_assert_eq(snapshot__serialize(snapshot, NULL, (void **)&sample.bytes, &sample.len), 0);
	section = sample_section(&sample, SNAP_TRACEBACK_CHURN);
	section->size -= sizeof(struct snap_churn);
	section->count--;
	memset(sample.bytes + section->offset + section->size, 0, sizeof(struct snap_churn));
	sample_seal(&sample);
	sample_expect_refused(&sample, "rows", EBADMSG,
			      "section traceback churn: 3 rows for 4 tracebacks");
	sample_release(&sample);
	snapshot__close(snapshot);
}

/* A snapshot is the same thing whether it comes from a builder, from a file, or is a part of another one. */

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
