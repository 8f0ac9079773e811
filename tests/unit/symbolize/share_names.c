// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* names_share(): a snapshot with names and one without become comparable. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "engine.h"
#include "naming_fixture.h"
#include "symbolize/share_names.h"

/* A frame in short: no filename is the object's path. */
struct short_frame {
	const char *filename;
	uint32_t lineno;
	const char *function;
	uint64_t offset;
	uint32_t flags;
};

struct short_block {
	uint64_t size;
	struct short_frame frame[6]; /* most recent call first; ends with offset 0 */
};

static uint32_t make_frame(struct snapshot_builder *builder, const struct short_frame *from, const char *path,
			   uint32_t object)
{
	return add_frame(builder, (struct snap_frame){
		.filename = add_string(builder, from->filename ?: path),
		.lineno = from->lineno,
		.function = add_string(builder, from->function),
		.object = object,
		.offset = from->offset,
		.flags = from->flags,
	});
}

/* All frames are of one object. */
static struct snapshot *make_snapshot(const char *path, const char *build_id, const struct short_block *block, size_t nr)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	uint32_t object = add_object(builder, path, build_id);
	struct snapshot *snapshot;

	for (size_t i = 0; i < nr; i++) {
		uint32_t frame[6], nframe = 0;
		struct snap_trace trace = { .size = block[i].size };

		while (nframe < 6 && block[i].frame[nframe].offset) {
			frame[nframe] = make_frame(builder, &block[i].frame[nframe], path, object);
			nframe++;
		}
		cr_assert_eq(snapshot_builder__traceback(builder, frame, nframe, nframe, 0, &trace.traceback), 0);
		cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	}
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

#define MAKE(path, id, blocks) make_snapshot(path, id, blocks, ARRAY_SIZE(blocks))

/* The sum of all differences, as numbers without a sign, after both share their names. */
static int64_t changed_bytes(const struct snapshot *old, const struct snapshot *new, enum key_type key_type,
			     struct shared_names *ret_names)
{
	const struct snapshot *const both[] = { old, new };
	struct engine_options options = { .key_type = key_type };
	struct statistics *diff;
	int64_t sum = 0;

	cr_assert_eq(names_share(both, ret_names), 0);
	cr_assert_eq(snapshot_compare(ret_names->named[0] ?: old, ret_names->named[1] ?: new, &options, &diff, NULL), 0);
	for (size_t i = 0; i < diff->statistic_nr; i++)
		sum += llabs(diff->statistic[i].diff.size);
	statistics_free(diff);
	return sum;
}

static int64_t changed_by_line(const struct snapshot *old, const struct snapshot *new)
{
	struct shared_names names;
	int64_t sum = changed_bytes(old, new, KEY_LINENO, &names);

	snapshot__close(names.named[0]);
	snapshot__close(names.named[1]);
	return sum;
}

/* malloc and main, and the line that main calls helper() in, which was inlined. */
static const struct short_block unnamed[] = {
	{ 100, { { .offset = 0x10, .function = "malloc" }, { .offset = 0x20 }, { .offset = 0x30 } } },
	{ 7, { { .offset = 0x40 } } },
};
static const struct short_block named[] = {
	{ 100, { { "m.c", 3, "malloc", 0x10 }, { "a.h", 9, "helper", 0x20, SNAP_FRAME_INLINE },
		 { "a.c", 5, "main", 0x20 }, { .offset = 0x30, .function = "_start" } } },
	{ 7, { { "a.c", 5, "main", 0x40 } } },
};

Test(share_names, a_snapshot_equals_its_named_copy_in_both_directions)
{
	static const enum key_type key_types[] = { KEY_LINENO, KEY_FILENAME, KEY_TRACEBACK, KEY_FUNCTION, KEY_OBJECT };

	for (size_t i = 0; i < ARRAY_SIZE(key_types) * 2; i++) {
		struct snapshot *without = MAKE("/bin/p", "abcd", unnamed), *with = MAKE("/bin/p", "abcd", named);
		bool is_new_named = i % 2;
		struct shared_names names;

		cr_expect_eq(changed_bytes(is_new_named ? without : with, is_new_named ? with : without,
					   key_types[i / 2], &names), 0, "key type %d", key_types[i / 2]);
		cr_expect_not_null(names.named[!is_new_named]);
		cr_expect_null(names.named[is_new_named]);
		cr_expect_eq(names.unshared[0].place_nr + names.unshared[1].place_nr, 0);
		snapshot__close(names.named[0]);
		snapshot__close(names.named[1]);
		snapshot__close(without);
		snapshot__close(with);
	}
}

Test(share_names, names_are_of_a_build_not_of_a_path)
{
	struct snapshot *without = MAKE("/bin/p", "abcd", unnamed), *other_build = MAKE("/bin/p", "ef01", named);
	struct snapshot *moved = MAKE("/new/p", "abcd", named);
	struct snapshot *no_id = MAKE("/bin/p", "", unnamed), *no_id_named = MAKE("/bin/p", "", named);

	cr_expect_eq(changed_by_line(without, other_build), 2 * 107);
	cr_expect_eq(changed_by_line(without, moved), 0);
	cr_expect_eq(changed_by_line(without, no_id_named), 2 * 107, "an unknown build is not a known one");
	cr_expect_eq(changed_by_line(no_id, no_id_named), 2 * 107, "two builds may have been at one path");
	snapshot__close(without);
	snapshot__close(other_build);
	snapshot__close(moved);
	snapshot__close(no_id);
	snapshot__close(no_id_named);
}

Test(share_names, a_function_keeps_its_name_if_the_other_one_is_called_otherwise)
{
	static const struct short_block honest[] = { { 5, { { .offset = 0x10, .function = "honest_leak" } } } };
	static const struct short_block forged[][1] = {
		{ { 5, { { "/src/evil.c", 7, "forged_name", 0x10 } } } },
		{ { 5, { { "/src/evil.c", 7, "honest_leak", 0x10, SNAP_FRAME_INLINE },
			 { "/src/evil.c", 9, "forged_name", 0x10 } } } },
		{ { 5, { { .offset = 0x10, .function = "forged_name" } } } },
		{ { 5, { { "/src/evil.c", 7, NULL, 0x10 } } } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(forged); i++) {
		struct snapshot *old = MAKE("/bin/p", "abcd", honest), *new = MAKE("/bin/p", "abcd", forged[i]);
		struct shared_names names;

		cr_assert_eq(names_share((const struct snapshot *const[]){ old, new }, &names), 0);
		cr_expect_null(names.named[0], "%zu", i);
		cr_expect_null(names.named[1], "%zu", i);
		snapshot__close(old);
		snapshot__close(new);
	}
}

Test(share_names, places_without_a_build_id_are_not_said_to_lack_lines)
{
	struct snapshot *old = MAKE("/bin/p", "", named), *new = MAKE("/bin/p", "", unnamed);
	struct shared_names names;

	cr_assert_eq(names_share((const struct snapshot *const[]){ old, new }, &names), 0);
	cr_expect_null(names.named[1]);
	cr_expect_eq(names.unshared[1].place_nr, 0);
	snapshot__close(old);
	snapshot__close(new);
}

Test(share_names, two_forms_of_a_name_without_a_line_become_the_second_one)
{
	static const struct short_block symbol[] = { { 5, { { .offset = 0x10, .function = "f" } } } };
	static const struct short_block other[] = { { 5, { { .offset = 0x10, .function = "f(int)" } } } };
	struct snapshot *old = MAKE("/bin/p", "abcd", symbol), *new = MAKE("/bin/p", "abcd", other);
	struct shared_names names;

	cr_expect_eq(changed_bytes(old, new, KEY_FUNCTION, &names), 0);
	cr_expect_null(names.named[1]);
	snapshot__close(names.named[0]);
	snapshot__close(old);
	snapshot__close(new);
}

Test(share_names, places_of_one_snapshot_alone_are_counted)
{
	static const struct short_block more[] = {
		{ 100, { { .offset = 0x20 }, { .offset = 0x30 } } },
		{ 7, { { .offset = 0x77 }, { .offset = 0x78 } } },
	};
	struct snapshot *old = MAKE("/bin/p", "abcd", named), *new = MAKE("/bin/p", "abcd", more);
	const struct snapshot *const both[] = { old, new };
	struct shared_names names;

	cr_assert_eq(names_share(both, &names), 0);
	cr_expect_eq(names.unshared[0].place_nr, 0);
	cr_expect_eq(names.unshared[1].place_nr, 2);
	cr_expect_str_eq(names.unshared[1].path, "/bin/p");
	snapshot__close(names.named[1]);
	snapshot__close(old);
	snapshot__close(new);
}

/* The instruction at an exact address is not the one before a return address. */
Test(share_names, an_exact_address_is_another_place)
{
	static const struct short_block exact[] = { { 5, { { .offset = 0x20, .flags = SNAP_FRAME_EXACT } } } };
	struct snapshot *old = MAKE("/bin/p", "abcd", exact), *new = MAKE("/bin/p", "abcd", named);
	const struct snapshot *const both[] = { old, new };
	struct shared_names names;

	cr_assert_eq(names_share(both, &names), 0);
	cr_expect_null(names.named[0]);
	cr_expect_null(names.named[1]);
	snapshot__close(old);
	snapshot__close(new);
}

/* A file can say that 100 calls were inlined at a place. */
Test(share_names, a_chain_that_is_too_long_is_left_alone)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	uint32_t object = add_object(builder, "/bin/p", "abcd"), frame[100];
	struct snapshot *old = MAKE("/bin/p", "abcd", unnamed), *new;
	struct snap_trace trace = { .size = 1 };
	struct shared_names names;

	for (uint32_t i = 0; i < 100; i++)
		frame[i] = make_frame(builder, &(struct short_frame){ "a.c", i + 1, "f", 0x20, i < 99 ? SNAP_FRAME_INLINE : 0 },
				      "/bin/p", object);
	cr_assert_eq(snapshot_builder__traceback(builder, frame, 100, 100, 0, &trace.traceback), 0);
	cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &new), 0);
	cr_assert_eq(names_share((const struct snapshot *const[]){ old, new }, &names), 0);
	cr_expect_null(names.named[0]);
	cr_expect_eq(names.unshared[0].place_nr, 4);
	snapshot__close(old);
	snapshot__close(new);
}
