// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Snapshots of sampled recordings: weights, and the gaps. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "snapshot_sample.h"

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
