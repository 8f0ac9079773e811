// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot_sample.h"

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
static struct snapshot *make(uint32_t *ret_gone, uint32_t *ret_kept)
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

static void expect(const struct snapshot *snapshot, const char *function, uint64_t allocations,
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
	struct snapshot *snapshot = make(&gone, &kept), *again;
	size_t len;
	void *bytes;

	expect(snapshot, "gone", 3, 20);
	expect(snapshot, "unused", 0, 0);
	expect(snapshot, "kept", 6, 40);
	cr_assert_eq(snapshot__serialize(snapshot, NULL, &bytes, &len), 0);
	again = snapshot__open_memory(bytes, len, NULL);
	cr_assert(again);
	expect(again, "gone", 3, 20);
	expect(again, "kept", 6, 40);
	snapshot__close(again);
	snapshot__close(snapshot);
	free(bytes);
}

Test(snapshot_churn, is_kept_in_a_copy_and_left_out_of_a_part)
{
	uint32_t gone, kept;
	struct snapshot *snapshot = make(&gone, &kept), *copy, *part;

	cr_assert_eq(snapshot__select(snapshot, NULL, &copy), 0);
	cr_expect_eq(snapshot__tables(copy)->traceback_nr, 3, "the unused one is left out");
	expect(copy, "gone", 3, 20);
	expect(copy, "kept", 6, 40);
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
	struct snapshot *snapshot = make(&gone, &kept);
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
