// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The walk missed the caller of a wrapper: such a wrapper is not skipped. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "engine.h"
#include "snapshot.h"

static uint32_t add_frame(struct snapshot_builder *builder, const char *filename,
			  const char *function, uint32_t flags)
{
	struct snap_frame frame = { .lineno = flags ? 0 : 1, .flags = flags };
	uint32_t id;

	cr_assert_eq(snapshot_builder__string(builder, filename, &frame.filename), 0);
	cr_assert_eq(snapshot_builder__string(builder, function, &frame.function), 0);
	cr_assert_eq(snapshot_builder__frame(builder, &frame, &id), 0);
	return id;
}

/* operator new ← [callers without frame pointer]? ← outer */
static struct snapshot *make(struct snapshot_builder *builder, bool skipped, void **ret_bytes)
{
	struct snap_trace trace = { .size = 8 };
	uint32_t frame[3], nr = 0;
	size_t len;

	frame[nr++] = add_frame(builder, "new.cc", "operator new(unsigned long)", 0);
	if (skipped)
		frame[nr++] = add_frame(builder, "<unknown>", "[…]", SNAP_FRAME_SKIPPED);
	frame[nr++] = add_frame(builder, "outer.cc", "outer()", 0);
	cr_assert_eq(snapshot_builder__traceback(builder, frame, nr, nr, 0, &trace.traceback), 0);
	cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	cr_assert_eq(snapshot_builder__serialize(builder, ret_bytes, &len), 0);
	return snapshot__open_memory(*ret_bytes, len, NULL);
}

static void expect_top(bool skipped, const char *filename)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct engine_options options = {};
	struct statistics *statistics;
	void *bytes;
	struct snapshot *snapshot = make(builder, skipped, &bytes);

	cr_assert_not_null(snapshot);
	cr_assert_eq(snapshot_statistics(snapshot, &options, &statistics, NULL), 0);
	cr_assert_eq(statistics->statistic_nr, 1);
	cr_expect_str_eq(statistics->statistic[0].frame[0].filename, filename);
	statistics_free(statistics);
	snapshot__close(snapshot);
	snapshot_builder__free(builder);
	free(bytes);
}

Test(engine_skipped, wrapper_with_a_known_caller_is_left_out)
{
	expect_top(false, "outer.cc");
}

Test(engine_skipped, wrapper_without_a_known_caller_is_kept)
{
	expect_top(true, "new.cc");
}
