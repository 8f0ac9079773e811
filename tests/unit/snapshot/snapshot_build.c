// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "snapshot.h"
#include "snapshot/snapshot_identity.h"
#include "snapshot_sample.h"

/* A snapshot that a builder wrote, read back. */
struct read_back {
	struct snapshot *snapshot;
	const struct snapshot_tables *t;
	void *bytes;
	size_t len;
};

static struct read_back read_back(struct snapshot_builder *builder)
{
	struct read_back got = { 0 };
	struct reason why = { "" };

	cr_assert_eq(snapshot_builder__serialize(builder, &got.bytes, &got.len), 0);
	snapshot_builder__free(builder);
	got.snapshot = snapshot__open_memory(got.bytes, got.len, &why);
	cr_assert(got.snapshot, "%s", why.text);
	got.t = snapshot__tables(got.snapshot);
	return got;
}

static void release(struct read_back *got)
{
	snapshot__close(got->snapshot);
	free(got->bytes);
}

static void expect_string(const struct read_back *got, uint32_t id, const char *want)
{
	cr_expect_str_eq(snapshot__string(got->snapshot, id), want);
}

Test(snapshot_build, keeps_frames)
{
	struct read_back got = read_back(sample_builder(SNAP_WITH_ALL));
	const struct snap_frame *frame = got.t->frame;

	cr_assert_eq(got.t->object_nr, 3);
	expect_string(&got, got.t->object[1].path, "/lib/libc.so");
	expect_string(&got, got.t->object[1].build_id, "0a1b");
	expect_string(&got, got.t->object[2].path, "/bin/app");
	cr_expect_eq(got.t->object[2].build_id, 0);
	cr_assert_eq(got.t->frame_nr, 4);
	expect_string(&got, frame[1].filename, "main.c");
	expect_string(&got, frame[1].function, "main");
	cr_expect(frame[1].lineno == 7 && frame[1].object == 2 && frame[1].offset == 0x1170);
	expect_string(&got, frame[2].function, "malloc");
	cr_expect(frame[2].lineno == 0 && frame[2].object == 1 && frame[2].flags == 0);
	cr_expect_eq(frame[3].flags, SNAP_FRAME_INLINE);
	release(&got);
}

Test(snapshot_build, keeps_tracebacks)
{
	struct read_back got = read_back(sample_builder(SNAP_WITH_ALL));
	const struct snap_traceback *traceback = got.t->traceback;
	const uint32_t frames[] = { 2, 3, 1, 2, 1 };

	cr_assert_eq(got.t->traceback_nr, 3);
	cr_assert_eq(got.t->traceback_frame_nr, ARRAY_SIZE(frames));
	cr_expect_arr_eq(got.t->traceback_frame, frames, sizeof(frames));
	cr_expect(traceback[1].first == 0 && traceback[1].nframe == 3);
	cr_expect(traceback[1].total_nframe == 3 && traceback[1].flags == 0);
	cr_expect(traceback[2].first == 3 && traceback[2].nframe == 2);
	cr_expect(traceback[2].total_nframe == 9);
	cr_expect_eq(traceback[2].flags, SNAP_TRACEBACK_LIMITED);
	release(&got);
}

Test(snapshot_build, keeps_traces)
{
	struct read_back got = read_back(sample_builder(SNAP_WITH_ALL));
	const uint64_t size[] = { 100, 200, 300, 0 }, birth_ns[] = { 11, 12, 13, 14 };
	const uint64_t address[] = { 0x1000, 0x2000, 0x3000, 0x4000 };
	const uint32_t traceback[] = { 1, 2, 1, 0 }, domain[] = { 0, 1, 0, 0 };
	const uint32_t thread[] = { 41, 42, 41, 43 };

	cr_assert_eq(got.t->trace_nr, 4);
	cr_expect_arr_eq(got.t->trace_size, size, sizeof(size));
	cr_expect_arr_eq(got.t->trace_traceback, traceback, sizeof(traceback));
	cr_expect_arr_eq(got.t->trace_domain, domain, sizeof(domain));
	cr_expect_arr_eq(got.t->trace_birth_ns, birth_ns, sizeof(birth_ns));
	cr_expect_arr_eq(got.t->trace_address, address, sizeof(address));
	cr_expect_arr_eq(got.t->trace_thread, thread, sizeof(thread));
	release(&got);
}

Test(snapshot_build, keeps_probes_counters_and_metadata)
{
	struct read_back got = read_back(sample_builder(SNAP_WITH_ALL));

	cr_assert_eq(got.t->probe_nr, 1);
	cr_expect(got.t->probe->object == 1 && got.t->probe->offset == 0x98);
	cr_expect_eq(got.t->probe->placement, 3);
	expect_string(&got, got.t->probe->function, "malloc");
	expect_string(&got, got.t->probe->instruction, "push %rbp");
	cr_assert_eq(got.t->counter_nr, 2);
	cr_expect_eq(got.t->counter[0].kind, SNAP_COUNTED);
	cr_expect_eq(got.t->counter[1].kind, SNAP_LOST);
	cr_expect_eq(snapshot__counter(got.snapshot, "allocations"), 17);
	cr_expect_eq(snapshot__counter(got.snapshot, "blocks_dropped"), 3);
	cr_expect_eq(snapshot__counter(got.snapshot, "pid"), 0);
	cr_expect_str_eq(snapshot__metadata(got.snapshot, "comm"), "app");
	cr_expect_null(snapshot__metadata(got.snapshot, "allocations"));
	cr_expect_null(snapshot__metadata(got.snapshot, ""));
	release(&got);
}

Test(snapshot_build, replaces_earlier_values)
{
	struct snapshot_builder *builder = sample_builder(0);
	struct read_back got;

	cr_assert_eq(snapshot_builder__metadata(builder, "pid", "12"), 0);
	cr_assert_eq(snapshot_builder__metadata(builder, "comm", NULL), 0);
	cr_assert_eq(snapshot_builder__counter(builder, SNAP_LOST, "allocations", UINT64_MAX), 0);
	got = read_back(builder);
	cr_expect(got.t->metadata_nr == 2 && got.t->counter_nr == 2);
	cr_expect_str_eq(snapshot__metadata(got.snapshot, "pid"), "12");
	cr_expect_str_eq(snapshot__metadata(got.snapshot, "comm"), "");
	cr_expect_eq(snapshot__counter(got.snapshot, "allocations"), UINT64_MAX);
	cr_expect_eq(got.t->counter[0].kind, SNAP_LOST);
	release(&got);
}

static const struct {
	const char *text;
	uint64_t number; /* 77: not one */
} numbers[] = {
	{ "0", 0 }, { "4711", 4711 }, { "18446744073709551615", UINT64_MAX },
	{ "18446744073709551616", 77 }, { "", 77 }, { "-1", 77 }, { " 1", 77 }, { "1 ", 77 },
	{ "0x10", 77 }, { "1.5", 77 }, { NULL, 77 },
};

Test(snapshot_build, parses_metadata_numbers)
{
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		struct snapshot_builder *builder = snapshot_builder__new(0);
		struct read_back got;

		if (numbers[i].text)
			snapshot_builder__metadata(builder, "n", numbers[i].text);
		got = read_back(builder);
		cr_expect_eq(snapshot__metadata_u64(got.snapshot, "n", 77), numbers[i].number,
			     "'%s'", numbers[i].text ?: "absent");
		release(&got);
	}
}

static const struct {
	unsigned int columns;
	bool domain, birth, address, thread;
} columns[] = {
	{ 0, false, false, false, false },
	{ SNAP_WITH_DOMAIN, true, false, false, false },
	{ SNAP_WITH_BIRTH, false, true, false, false },
	{ SNAP_WITH_ADDRESS, false, false, true, false },
	{ SNAP_WITH_THREAD, false, false, false, true },
	{ SNAP_WITH_ALL, true, true, true, true },
};

Test(snapshot_build, writes_only_the_requested_columns)
{
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		struct read_back got = read_back(sample_builder(columns[i].columns));

		cr_expect_eq(got.t->trace_nr, 4, "columns %u", columns[i].columns);
		cr_expect(!!got.t->trace_domain == columns[i].domain &&
			  !!got.t->trace_birth_ns == columns[i].birth &&
			  !!got.t->trace_address == columns[i].address &&
			  !!got.t->trace_thread == columns[i].thread,
			  "columns %u", columns[i].columns);
		release(&got);
	}
}

Test(snapshot_build, does_not_write_a_column_of_zero_domains)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_ALL);
	struct read_back got;

	cr_assert_eq(snapshot_builder__trace(builder, &(struct snap_trace){ .size = 1 }), 0);
	got = read_back(builder);
	cr_expect_null(got.t->trace_domain);
	cr_expect_not_null(got.t->trace_thread);
	release(&got);
}

Test(snapshot_build, makes_an_empty_snapshot)
{
	struct read_back got = read_back(snapshot_builder__new(SNAP_WITH_ALL));

	cr_expect(got.t->trace_nr == 0 && got.t->metadata_nr == 0 && got.t->counter_nr == 0);
	cr_expect(got.t->string_nr == 1 && got.t->object_nr == 1 && got.t->frame_nr == 1);
	cr_expect(got.t->traceback_nr == 1 && got.t->traceback_frame_nr == 0);
	expect_string(&got, 0, "");
	release(&got);
}

Test(snapshot_build, gives_equal_rows_equal_ids)
{
	struct snapshot_builder *b = sample_builder(0);
	struct snap_object object = { 0 };
	struct snap_frame frame = { 0 };
	uint32_t id, again;

	cr_expect(!snapshot_builder__string(b, NULL, &id) && id == 0);
	cr_expect(!snapshot_builder__string(b, "", &id) && id == 0);
	cr_expect(!snapshot_builder__string(b, "twice", &id));
	cr_expect(!snapshot_builder__string(b, "twice", &again) && id == again && id);
	cr_expect(!snapshot_builder__object(b, &object, &id) && id == 0);
	object.path = again;
	cr_expect(!snapshot_builder__object(b, &object, &id));
	cr_expect(!snapshot_builder__object(b, &object, &again) && id == again && id == 3);
	cr_expect(!snapshot_builder__frame(b, &frame, &id) && id == 4); /* a frame is not "none" */
	cr_expect(!snapshot_builder__frame(b, &frame, &again) && id == again);
	frame.offset = 9;
	cr_expect(!snapshot_builder__frame(b, &frame, &id));
	cr_expect(!snapshot_builder__frame(b, &frame, &again) && id == again && id == 5);
	frame.flags = SNAP_FRAME_INLINE;
	cr_expect(!snapshot_builder__frame(b, &frame, &again) && again == 6);
	snapshot_builder__free(b);
}

/* The sample has {2, 3, 1} of 3 as 1, and {2, 1} of 9, limited, as 2. */
static const struct {
	uint32_t frame[3];
	uint32_t nframe, total_nframe, flags;
	uint32_t id;
} tracebacks[] = {
	{ { 2, 3, 1 }, 3, 3, 0, 1 },
	{ { 2, 1 }, 2, 9, SNAP_TRACEBACK_LIMITED, 2 },
	{ { 0 }, 0, 0, 0, 0 },
	{ { 2, 1 }, 2, 8, SNAP_TRACEBACK_LIMITED, 3 },
	{ { 2, 1 }, 2, 9, 0, 4 },
	{ { 2, 1 }, 2, 0, 0, 5 },
	{ { 1, 2 }, 2, 0, 0, 6 },
	{ { 2 }, 1, 0, 0, 7 },
	{ { 0 }, 0, 5, SNAP_TRACEBACK_BROKEN, 8 },
	{ { 2, 3, 1 }, 3, 3, 0, 1 },
	{ { 2, 1 }, 2, 0, 0, 5 },
	{ { 0 }, 0, 5, SNAP_TRACEBACK_BROKEN, 8 },
	{ { 2, 3, 1 }, 3, 1, 0, 9 }, /* the recorder's word, not ours to judge */
};

Test(snapshot_build, gives_equal_tracebacks_equal_ids)
{
	struct snapshot_builder *builder = sample_builder(0);
	struct read_back got;

	for (size_t i = 0; i < ARRAY_SIZE(tracebacks); i++) {
		uint32_t id = UINT32_MAX;
		int err = snapshot_builder__traceback(builder, tracebacks[i].frame,
						      tracebacks[i].nframe,
						      tracebacks[i].total_nframe,
						      tracebacks[i].flags, &id);

		cr_expect_eq(err, 0, "row %zu: %d", i, err);
		cr_expect_eq(id, tracebacks[i].id, "row %zu: id %u", i, id);
	}
	got = read_back(builder);
	cr_expect_eq(got.t->traceback_nr, 10);
	release(&got);
}

Test(snapshot_build, accepts_the_longest_traceback)
{
	struct snapshot_builder *builder = sample_builder(0);
	uint32_t *frame = calloc(SNAP_TRACEBACK_MAX + 1, sizeof(*frame));
	struct read_back got;
	uint32_t id = 99;

	for (uint32_t i = 0; i <= SNAP_TRACEBACK_MAX; i++)
		frame[i] = 1 + i % 3;
	cr_expect_eq(snapshot_builder__traceback(builder, frame, SNAP_TRACEBACK_MAX + 1, 0, 0, &id),
		     -EINVAL);
	cr_expect_eq(id, 99, "an output changed on failure");
	cr_expect_eq(snapshot_builder__traceback(builder, frame, SNAP_TRACEBACK_MAX, 0, 0, &id), 0);
	got = read_back(builder);
	cr_expect_eq(got.t->traceback[id].nframe, SNAP_TRACEBACK_MAX);
	cr_expect_arr_eq(got.t->traceback_frame + got.t->traceback[id].first, frame,
			 SNAP_TRACEBACK_MAX * sizeof(*frame));
	free(frame);
	release(&got);
}

/* The builder refuses values that the reader would refuse. */
Test(snapshot_build, refuses_objects_and_frames_out_of_range)
{
	struct snapshot_builder *b = sample_builder(0);
	uint32_t id = 99, not_hex;
	const struct snap_frame frame[] = {
		{ .filename = 999 }, { .function = 999 }, { .object = 3 }, { .flags = 32 },
		{ .reserved = 1 },
	};

	cr_assert_eq(snapshot_builder__string(b, "0A", &not_hex), 0);
	for (size_t i = 0; i < ARRAY_SIZE(frame); i++)
		cr_expect_eq(snapshot_builder__frame(b, &frame[i], &id), -EINVAL, "frame %zu", i);
	for (size_t i = 0; i < 3; i++) {
		struct snap_object object = { i ? 0 : 999, i == 1 ? 999 : i == 2 ? not_hex : 0 };

		cr_expect_eq(snapshot_builder__object(b, &object, &id), -EINVAL, "object %zu", i);
	}
	cr_expect_eq(id, 99, "an output changed on failure");
	snapshot_builder__free(b);
}

Test(snapshot_build, refuses_tracebacks_out_of_range)
{
	struct snapshot_builder *b = sample_builder(0);
	const uint32_t none = 0, far = 4, two[] = { 1, 1 };
	uint32_t id = 99;

	cr_expect_eq(snapshot_builder__traceback(b, &none, 1, 0, 0, &id), -EINVAL);
	cr_expect_eq(snapshot_builder__traceback(b, &far, 1, 0, 0, &id), -EINVAL);
	cr_expect_eq(snapshot_builder__traceback(b, two, 2, 2, 4, &id), -EINVAL);
	cr_expect_eq(snapshot_builder__trace(b, &(struct snap_trace){ .traceback = 3 }), -EINVAL);
	cr_expect_eq(id, 99, "an output changed on failure");
	snapshot_builder__free(b);
}

Test(snapshot_build, refuses_probes_counters_and_metadata_out_of_range)
{
	struct snapshot_builder *b = sample_builder(0);
	const struct snap_probe probe[] = {
		{ .object = 3 }, { .function = 999 }, { .instruction = 999 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(probe); i++)
		cr_expect_eq(snapshot_builder__probe(b, &probe[i]), -EINVAL, "probe %zu", i);
	cr_expect_eq(snapshot_builder__metadata(b, "", "x"), -EINVAL);
	cr_expect_eq(snapshot_builder__counter(b, SNAP_LOST, "", 1), -EINVAL);
	cr_expect_eq(snapshot_builder__counter(b, 3, "x", 1), -EINVAL);
	snapshot_builder__free(b);
}

/* Tables that grow many times over keep their ids. */
Test(snapshot_build, keeps_the_ids_of_many_rows)
{
	enum { MANY = 20000 };
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_ALL);
	struct read_back got;
	uint32_t id, path[3] = { 0, 1, 0 };
	char text[32];

	for (uint32_t i = 1; i <= 2 * MANY; i++) {
		struct snap_frame frame = { .lineno = (i - 1) % MANY + 1 };
		struct snap_trace trace = { .size = i, .thread = i, .birth_ns = i, .domain = i };

		snprintf(text, sizeof(text), "file%u.c", frame.lineno);
		cr_assert_eq(snapshot_builder__string(builder, text, &frame.filename), 0);
		cr_assert_eq(snapshot_builder__frame(builder, &frame, &id), 0);
		path[0] = path[2] = id;
		cr_assert_eq(snapshot_builder__traceback(builder, path, 3, 0, 0, &trace.traceback),
			     0);
		cr_assert(id == frame.lineno && trace.traceback == frame.lineno);
		cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	}
	got = read_back(builder);
	cr_expect(got.t->frame_nr == MANY + 1 && got.t->traceback_nr == MANY + 1);
	cr_expect_eq(got.t->trace_nr, 2 * MANY);
	expect_string(&got, got.t->frame[MANY].filename, "file20000.c");
	cr_expect_eq(got.t->trace_thread[2 * MANY - 1], 2 * MANY);
	release(&got);
}

/* The same content gives the same file, as snapshot.h promises. */
Test(snapshot_build, writes_the_same_file_for_the_same_content)
{
	struct sample a = sample_make(), b = sample_make();
	struct snap_header *header = sample_header(&a);
	struct snap_section *section = (struct snap_section *)(header + 1);
	size_t end = sizeof(*header) + header->section_nr * sizeof(*section);

	cr_assert_eq(a.len, b.len);
	cr_expect_arr_eq(a.bytes, b.bytes, a.len);
	cr_expect(!memcmp(header->magic, "ALOCSNAP", 8) && header->version == 1);
	cr_expect(header->header_size == 40 && header->file_size == a.len);
	cr_expect_eq(header->section_nr, SNAP_TRACE_THREAD); /* all but churn */
	for (uint32_t i = 0; i < header->section_nr; i++) {
		cr_expect(section[i].offset % 8 == 0 && section[i].offset - end < 8);
		end = section[i].offset + section[i].size;
	}
	sample_seal(&a);
	cr_expect_arr_eq(a.bytes, b.bytes, a.len, "the checksums are not those of snapshot.h");
	sample_release(&a);
	sample_release(&b);
}

/* Which block an address lies in. */

static struct snapshot *snapshot_of(const struct snap_trace *trace, size_t nr)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_ALL);
	struct snapshot *snapshot;

	cr_assert(builder);
	for (size_t i = 0; i < nr; i++)
		cr_assert_eq(snapshot_builder__trace(builder, &trace[i]), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

static void expect_found(const struct snapshot *snapshot, uint64_t address, uint64_t size)
{
	uint64_t at;

	cr_assert_eq(snapshot__find_address(snapshot, address, &at), 0, "%#jx", (uintmax_t)address);
	cr_expect_eq(snapshot__trace(snapshot, at).size, size, "%#jx", (uintmax_t)address);
}

Test(snapshot_address, is_attributed_to_the_smallest_of_several_blocks)
{
	static const struct snap_trace trace[] = {
		{ .address = 0x1000, .size = 0x4000, .domain = 1 },
		{ .address = 0x1000, .size = 24, .domain = 0 },
		{ .address = 0x3000, .size = 100, .domain = 0 },
		{ .address = 0x2f00, .size = 0x300, .domain = 2 },
		{ .address = 0x9000, .size = 0 },
	};
	struct snapshot *snapshot = snapshot_of(trace, 5);
	uint64_t at;

	expect_found(snapshot, 0x1000, 24);
	expect_found(snapshot, 0x1017, 24);
	expect_found(snapshot, 0x1018, 0x4000);
	expect_found(snapshot, 0x3000, 100);
	expect_found(snapshot, 0x3064, 0x300);
	expect_found(snapshot, 0x4fff, 0x4000);
	expect_found(snapshot, 0x9000, 0);
	cr_expect_eq(snapshot__find_address(snapshot, 0x5000, &at), -ENOENT);
	cr_expect_eq(snapshot__find_address(snapshot, 0x9001, &at), -ENOENT);
	snapshot__close(snapshot);
}

static struct snapshot *snapshot_with(const char *const *metadata)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct snapshot *snapshot;

	for (; *metadata; metadata += 2)
		cr_assert_eq(snapshot_builder__metadata(builder, metadata[0], metadata[1]), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

static bool is_same_identity(const struct snapshot *a, const struct snapshot *b, enum identity_scope scope)
{
	char *of_a = snapshot_identity(a, scope), *of_b = snapshot_identity(b, scope);
	bool is_same = !strcmp(of_a, of_b);

	free(of_a);
	free(of_b);
	return is_same;
}

Test(snapshot_identity, has_scopes)
{
	static const struct {
		const char *key;
		bool is_same[3]; /* process, image, recording */
	} rows[] = {
		{ "comm", { true, true, true } },
		{ "recording_start_monotonic_ns", { true, true, false } },
		{ "exec_count", { true, false, false } },
		{ "start_time_ticks", { false, false, false } },
		{ "pid", { false, false, false } },
		{ "boot_id", { false, false, false } },
		{ "host", { false, false, false } },
	};
	struct snapshot *plain = snapshot_with((const char *const[]){ "pid", "1", NULL });

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct snapshot *other = snapshot_with((const char *const[]){ "pid", "1", rows[i].key, "2", NULL });

		for (int scope = 0; scope < 3; scope++)
			cr_expect_eq(is_same_identity(plain, other, scope), rows[i].is_same[scope], "%s, %d", rows[i].key,
				     scope);
		snapshot__close(other);
	}
	snapshot__close(plain);
}

/* The domain of a probe, and the domain's name. */

TestSuite(snapshot_domains, .timeout = 600);

static struct snapshot *make(unsigned int columns)
{
	struct snapshot_builder *builder = sample_builder(columns);
	struct snap_probe probe = { .offset = 0x10 };

	cr_assert_eq(snapshot_builder__probe(builder, &probe), 0);
	cr_assert_eq(snapshot_builder__probe_domain(builder, 16), 0);
	cr_assert_eq(snapshot_builder__domain_name(builder, 16, "pool"), 0);
	return sample_finish(builder);
}

static void expect(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);

	cr_assert(t->probe_nr == 2 && t->probe_domain);
	cr_expect(t->probe_domain[0] == 0 && t->probe_domain[1] == 16);
	cr_expect_str_eq(snapshot__domain_name(snapshot, 16), "pool");
	cr_expect_null(snapshot__domain_name(snapshot, 1));
}

Test(snapshot_domains, are_kept_in_a_file_and_in_a_part)
{
	struct snapshot *snapshot = make(SNAP_WITH_PROBE_DOMAIN), *part, *again;
	struct sample sample = sample_serialize(snapshot, NULL);

	expect(snapshot);
	again = snapshot__open_memory(sample.bytes, sample.len, NULL);
	cr_assert(again);
	expect(again);
	cr_assert_eq(snapshot__select(snapshot, (const uint8_t[4]){ 1 }, &part), 0);
	expect(part);
	snapshot__close(part);
	snapshot__close(again);
	snapshot__close(snapshot);
	sample_release(&sample);
}

Test(snapshot_domains, are_absent_unless_requested)
{
	struct snapshot *snapshot = make(0);

	cr_expect_null(snapshot__tables(snapshot)->probe_domain);
	snapshot__close(snapshot);
}

Test(snapshot_domains, without_a_probe_are_refused)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_PROBE_DOMAIN);

	cr_expect_eq(snapshot_builder__probe_domain(builder, 16), -EINVAL);
	snapshot_builder__free(builder);
}

Test(snapshot_domains, must_be_as_many_as_probes)
{
	struct snapshot *snapshot = make(SNAP_WITH_PROBE_DOMAIN);
	struct sample sample = sample_serialize(snapshot, NULL);
	struct snap_section *section = sample_section(&sample, SNAP_PROBE_DOMAIN);

	section->size -= sizeof(uint32_t);
	section->count--;
	memset(sample.bytes + section->offset + section->size, 0, sizeof(uint32_t));
	sample_seal(&sample);
	sample_expect_refused(&sample, "rows", EBADMSG, "section probe domains: 1 rows for 2 probes");
	sample_release(&sample);
	snapshot__close(snapshot);
}
