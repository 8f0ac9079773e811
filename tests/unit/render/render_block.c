// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The block at an address, with names of C++ functions. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "render.h"
#include "render/formats.h"
#include "snapshot.h"

static const char put[] = "void shop::put<std::__cxx11::basic_string<char, std::char_traits<char>, "
			  "std::allocator<char> > >(int)";

static struct snapshot *block_of(const char *function)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_ALL);
	struct snap_trace trace = { .size = 100, .address = 0x1000 };
	struct snap_frame frame = { .lineno = 7 };
	struct snapshot *snapshot;
	uint32_t id;

	cr_assert_eq(snapshot_builder__string(builder, function, &frame.function), 0);
	cr_assert_eq(snapshot_builder__string(builder, "put.cc", &frame.filename), 0);
	cr_assert_eq(snapshot_builder__frame(builder, &frame, &id), 0);
	cr_assert_eq(snapshot_builder__traceback(builder, &id, 1, 1, 0, &trace.traceback), 0);
	cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

static void expect_block(bool full_names, const char *want)
{
	struct snapshot *snapshot = block_of(put);
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	cr_assert_eq(text_put_block(out, snapshot, 0, full_names), 0);
	cr_assert_eq(fclose(out), 0);
	cr_expect(strstr(text, want), "%s", text);
	free(text);
	snapshot__close(snapshot);
}

Test(render_block, has_short_names_unless_all_are_asked_for)
{
	expect_block(false, "\n    shop::put<std::string> at put.cc:7\n");
	expect_block(true, "\n    void shop::put<std::__cxx11::basic_string<char, std::char_traits<char>, "
			   "std::allocator<char> > >(int) at put.cc:7\n");
}
