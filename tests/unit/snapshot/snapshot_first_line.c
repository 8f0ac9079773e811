// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Where the functions of frames are declared. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot_sample.h"

TestSuite(snapshot_first_line, .timeout = 600);

static int add(struct snapshot_builder *builder, uint32_t lineno, uint32_t first_line, uint32_t *ret)
{
	const struct snap_frame frame = { .lineno = lineno };

	return snapshot_builder__frame_declared(builder, &frame, first_line, ret);
}

/* Tracebacks of one frame each; a block of the second and the last. */
static struct snapshot *make(void)
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

static void expect(const struct snapshot *snapshot, const uint32_t *first_line, uint32_t nr)
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
	struct snapshot *snapshot = make();

	expect(snapshot, (const uint32_t[]){ 0, 5, 6, 0, 6 }, 5);
	for (int i = 0; i < 4; i++) {
		void *bytes;
		struct snapshot *again = reread(snapshot, &forms[i], &bytes);

		expect(again, (const uint32_t[]){ 0, 5, 6, 0, 6 }, 5);
		snapshot__close(again);
		free(bytes);
	}
	snapshot__close(snapshot);
}

Test(snapshot_first_line, is_copied_with_its_frame)
{
	struct snapshot *snapshot = make(), *copy, *part;

	cr_assert_eq(snapshot__select(snapshot, NULL, &copy), 0);
	expect(copy, (const uint32_t[]){ 0, 6, 6 }, 3);
	cr_assert_eq(snapshot__select(snapshot, (const uint8_t[]){ 0, 1 }, &part), 0);
	expect(part, (const uint32_t[]){ 0, 6 }, 2);
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
	struct snapshot *snapshot = make(), *copy;
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
	struct snapshot *snapshot = make();
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
