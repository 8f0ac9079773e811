// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Compact files: what they leave out, and that nothing else changes by it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine.h"
#include "snapshot_sample.h"

#define SECOND_NS 1000000000ull
#define COMPACT (&(struct snapshot_save_options){ .compact = true })
#define SITES 5
#define BLOCKS 3000

/* A snapshot in memory, as read from a file. */
struct read {
	struct sample sample;
	struct snapshot *snapshot;
	const struct snapshot_tables *t;
};

static struct read read_back(const struct snapshot *snapshot, const struct snapshot_save_options *options)
{
	struct read read = { .sample = sample_serialize(snapshot, options) };
	struct reason why = { "" };

	read.snapshot = snapshot__open_memory(read.sample.bytes, read.sample.len, &why);
	cr_assert(read.snapshot, "%s", why.text);
	read.t = snapshot__tables(read.snapshot);
	return read;
}

static void read_release(struct read *read)
{
	snapshot__close(read->snapshot);
	sample_release(&read->sample);
}

static bool has_section(const struct sample *sample, uint32_t type)
{
	const struct snap_header *header = (const struct snap_header *)sample->bytes;
	const struct snap_section *section = (const struct snap_section *)(header + 1);

	for (uint32_t i = 0; i < header->section_nr; i++)
		if (section[i].type == type)
			return true;
	return false;
}

static uint32_t site(struct snapshot_builder *builder, uint32_t lineno)
{
	struct snap_frame frame = { .lineno = lineno };
	uint32_t id, traceback;

	cr_assert_eq(snapshot_builder__string(builder, "a.c", &frame.filename), 0);
	cr_assert_eq(snapshot_builder__frame(builder, &frame, &id), 0);
	cr_assert_eq(snapshot_builder__traceback(builder, &id, 1, 1, 0, &traceback), 0);
	return traceback;
}

/* Blocks of few sizes and places, at random; birth_ns: within so much. */
static struct snapshot *random_snapshot(unsigned int columns, uint64_t birth_ns, uint64_t gap_ns)
{
	struct snapshot_builder *builder = snapshot_builder__new(columns);
	uint32_t traceback[SITES];

	cr_assert(builder);
	for (uint32_t i = 0; i < SITES; i++)
		traceback[i] = site(builder, i + 1);
	cr_assert_eq(snapshot_builder__metadata(builder, "monotonic_ns", "100000000000"), 0);
	if (gap_ns)
		cr_assert_eq(snapshot_builder__gap(builder, gap_ns, gap_ns + 1), 0);
	for (unsigned int i = 0; i < BLOCKS; i++) {
		const struct snap_trace trace = {
			.size = 16 << random() % 4,
			.traceback = traceback[random() % SITES],
			.domain = random() % 2,
			.birth_ns = birth_ns ? ((uint64_t)random() << 31 | random()) % birth_ns : 0,
			.address = 0x1000 + 64 * i,
			.thread = 1 + random() % 3,
			.weight = columns & SNAP_WITH_WEIGHT ? 1 + random() % 7 / 3. : 1,
		};

		cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	}
	return sample_finish(builder);
}

/* ---- parts that stay the same ------------------------------------------------------------ */

static void expect_same_interval(const struct interval *a, const struct interval *b, const char *what)
{
	cr_expect(a->low == b->low && a->high == b->high, "%s: another interval", what);
}

static void expect_same_statistics(const struct statistics *a, const struct statistics *b, const char *what)
{
	cr_expect(!memcmp(&a->total, &b->total, sizeof(a->total)), "%s: another total", what);
	cr_assert_eq(a->statistic_nr, b->statistic_nr, "%s: %zu rows, not %zu", what,
		     b->statistic_nr, a->statistic_nr);
	cr_expect_eq(!a->total_estimate, !b->total_estimate);
	for (size_t i = 0; i < a->statistic_nr; i++) {
		const struct statistic *x = &a->statistic[i], *y = &b->statistic[i];

		cr_expect(!memcmp(&x->cost, &y->cost, sizeof(x->cost)), "%s: row %zu", what, i);
		cr_expect(!x->key || !strcmp(x->key, y->key), "%s: row %zu: %s", what, i, y->key);
		cr_expect(!x->nframe || x->frame->lineno == y->frame->lineno, "%s: row %zu", what, i);
		if (x->estimate)
			expect_same_interval(&x->estimate->size, &y->estimate->size, what);
	}
}

static void expect_same_answers(const struct snapshot *a, const struct snapshot *b)
{
	static const enum key_type keys[] = { KEY_LINENO, KEY_FILENAME, KEY_TRACEBACK, KEY_FUNCTION,
					      KEY_DOMAIN, KEY_SIZE_CLASS };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		struct engine_options options = { .key_type = keys[i] };
		struct statistics *of_a, *of_b;

		cr_assert_eq(snapshot_statistics(a, &options, &of_a, NULL), 0);
		cr_assert_eq(snapshot_statistics(b, &options, &of_b, NULL), 0);
		expect_same_statistics(of_a, of_b, key_type_name(keys[i]));
		statistics_free(of_a);
		statistics_free(of_b);
	}
}

static void expect_same_gap_blocks(const struct snapshot *a, const struct snapshot *b)
{
	struct engine_options options = {};
	struct cost of_a, of_b;

	cr_assert_eq(snapshot_gap_blocks(a, &options, &of_a, NULL), 0);
	cr_assert_eq(snapshot_gap_blocks(b, &options, &of_b, NULL), 0);
	cr_expect(of_a.count == of_b.count && of_a.size == of_b.size,
		  "%zd blocks from before the gap, not %zd", (ssize_t)of_b.count, (ssize_t)of_a.count);
}

Test(snapshot_compact, gives_the_same_answers)
{
	static const struct {
		unsigned int columns;
		uint64_t birth_ns, gap_ns;
		bool is_merged;
	} cases[] = {
		{ SNAP_WITH_ALL, 9 * SECOND_NS, 0, true },
		{ SNAP_WITH_ALL, 9 * SECOND_NS, 4 * SECOND_NS + 17, true },
		{ SNAP_WITH_ALL, 90000 * SECOND_NS, 4 * SECOND_NS + 17, false },
		{ SNAP_WITH_ALL | SNAP_WITH_WEIGHT, 9 * SECOND_NS, 4 * SECOND_NS + 17, false },
		{ 0, 0, 0, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct snapshot *snapshot = random_snapshot(cases[i].columns, cases[i].birth_ns, cases[i].gap_ns);
		struct read whole = read_back(snapshot, NULL), compact = read_back(snapshot, COMPACT);

		cr_expect_eq(has_section(&compact.sample, SNAP_TRACE_COUNT), cases[i].is_merged, "case %zu", i);
		cr_expect(compact.sample.len < whole.sample.len, "case %zu", i);
		cr_expect_eq(compact.t->trace_nr, BLOCKS);
		expect_same_answers(whole.snapshot, compact.snapshot);
		expect_same_gap_blocks(whole.snapshot, compact.snapshot);
		read_release(&whole);
		read_release(&compact);
		snapshot__close(snapshot);
	}
}

/* ---- parts that are left out ------------------------------------------------------------- */

Test(snapshot_compact, has_no_addresses_and_threads)
{
	struct snapshot *snapshot = random_snapshot(SNAP_WITH_ALL, 9 * SECOND_NS, 0);
	struct read compact = read_back(snapshot, COMPACT);

	cr_expect(!compact.t->trace_address && !compact.t->trace_thread);
	cr_expect(compact.t->trace_birth_ns && compact.t->trace_domain);
	read_release(&compact);
	snapshot__close(snapshot);
}

Test(snapshot_compact, rounds_births_to_seconds)
{
	static const struct {
		uint64_t birth_ns, then_ns;
	} cases[] = {
		{ 0, 0 }, /* not known */
		{ 1, SECOND_NS },
		{ SECOND_NS, SECOND_NS },
		{ 2 * SECOND_NS - 1, SECOND_NS },
		{ 5 * SECOND_NS + 499999999, 5 * SECOND_NS }, /* the gap is at 5.5 s */
		{ 5 * SECOND_NS + 500000000, 6 * SECOND_NS },
		{ 6 * SECOND_NS + 500000000, 6 * SECOND_NS },
		{ UINT64_MAX, UINT32_MAX * SECOND_NS },
	};
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_BIRTH);
	struct snapshot *snapshot;
	struct read compact;

	cr_assert(builder);
	cr_assert_eq(snapshot_builder__gap(builder, 1, 2), 0);
	cr_assert_eq(snapshot_builder__gap(builder, 5 * SECOND_NS + 500000000, 6 * SECOND_NS), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_assert_eq(snapshot_builder__trace(builder, &(struct snap_trace){
				     .size = i, .birth_ns = cases[i].birth_ns }), 0);
	snapshot = sample_finish(builder);
	compact = read_back(snapshot, COMPACT);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(snapshot__trace(compact.snapshot, i).birth_ns, cases[i].then_ns, "case %zu", i);
	read_release(&compact);
	snapshot__close(snapshot);
}

/* Nothing that is not known comes back; and once more changes nothing. */
Test(snapshot_compact, stays_compact)
{
	struct snapshot *snapshot = random_snapshot(SNAP_WITH_ALL, 9 * SECOND_NS, 0), *all;
	struct read once = read_back(snapshot, COMPACT), again = read_back(once.snapshot, NULL), copied;

	cr_expect(once.sample.len == again.sample.len &&
		  !memcmp(once.sample.bytes, again.sample.bytes, once.sample.len));
	cr_assert_eq(snapshot__select(once.snapshot, NULL, &all), 0);
	copied = read_back(all, NULL);
	cr_expect(has_section(&copied.sample, SNAP_TRACE_COUNT));
	expect_same_answers(snapshot, copied.snapshot);
	snapshot__close(all);
	read_release(&copied);
	read_release(&again);
	read_release(&once);
	snapshot__close(snapshot);
}

Test(snapshot_compact, may_be_compressed)
{
	struct snapshot *snapshot = random_snapshot(SNAP_WITH_ALL, 9 * SECOND_NS, 0);
	const struct snapshot_save_options both = { .compact = true, .compress = true };
	struct read plain = read_back(snapshot, COMPACT), packed = read_back(snapshot, &both);

	cr_expect(packed.sample.len < plain.sample.len);
	expect_same_answers(snapshot, packed.snapshot);
	read_release(&plain);
	read_release(&packed);
	snapshot__close(snapshot);
}

Test(snapshot_compact, may_be_empty)
{
	struct snapshot *snapshot = sample_finish(snapshot_builder__new(SNAP_WITH_ALL));
	struct read compact = read_back(snapshot, COMPACT);

	cr_expect_eq(compact.t->trace_nr, 0);
	read_release(&compact);
	snapshot__close(snapshot);
}

/* ---- refused files ----------------------------------------------------------------------- */

static struct sample compact_sample(void)
{
	struct snapshot *snapshot = random_snapshot(SNAP_WITH_ALL, 9 * SECOND_NS, 0);
	struct sample sample = sample_serialize(snapshot, COMPACT);

	snapshot__close(snapshot);
	return sample;
}

/* A value into the first row of a section. */
static void poke_row(struct sample *sample, uint32_t type, uint64_t value, size_t width)
{
	sample_poke(sample, sample->bytes + sample_section(sample, type)->offset, value, width);
	sample_seal(sample);
}

Test(snapshot_compact, without_a_trace_is_damaged)
{
	struct sample sample = compact_sample();

	poke_row(&sample, SNAP_TRACE_COUNT, 0, 4);
	sample_expect_refused(&sample, "a count of 0", EBADMSG, "section trace counts: row 0: no trace");
	sample_release(&sample);
}

Test(snapshot_compact, with_too_many_traces_is_damaged)
{
	struct sample sample = compact_sample();

	poke_row(&sample, SNAP_TRACE_COUNT, UINT32_MAX, 4);
	sample_expect_refused(&sample, "4 G traces", EBADMSG, "traces are too many for a file of");
	sample_release(&sample);
}

Test(snapshot_compact, with_columns_of_different_lengths_is_damaged)
{
	static const uint32_t types[] = { SNAP_TRACE_COUNT, SNAP_TRACE_BIRTH_SECOND, SNAP_TRACE_TRACEBACK };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct sample sample = compact_sample();
		struct snap_section *section = sample_section(&sample, types[i]);
		uint64_t end = section->offset + section->size;

		sample_poke(&sample, &section->count, section->count - 1, 8);
		sample_poke(&sample, &section->size, section->size - 4, 8);
		sample_poke(&sample, sample.bytes + end - 4, 0, 4);
		sample_seal(&sample);
		sample_expect_refused(&sample, "one row less", EBADMSG, " rows for ");
		sample_release(&sample);
	}
}

Test(snapshot_compact, with_two_birth_columns_is_damaged)
{
	struct sample sample = compact_sample();
	struct snap_section *section = sample_section(&sample, SNAP_TRACE_DOMAIN);

	/* Two columns of one width: only what they are called is another. */
	sample_poke(&sample, &section->type, SNAP_TRACE_BIRTH, 4);
	sample_poke(&sample, &section->count, section->size / 8, 8);
	sample_poke(&sample, &section->size, section->size / 8 * 8, 8);
	sample_seal(&sample);
	sample_expect_refused(&sample, "births twice", EBADMSG,
			      "section trace births: it is there beside trace birth seconds");
	sample_release(&sample);
}

Test(snapshot_compact, without_sizes_is_damaged)
{
	struct sample sample = compact_sample();

	sample_drop(&sample, SNAP_TRACE_SIZE);
	sample_drop(&sample, SNAP_TRACE_TRACEBACK);
	sample_seal(&sample);
	sample_expect_refused(&sample, "no sizes", EBADMSG, " rows for 0 sizes");
	sample_release(&sample);
}

/* Our writers make no such file; its contents are kept all the same. */
Test(snapshot_compact, with_threads_is_saved_as_a_full_snapshot)
{
	struct sample sample = compact_sample();
	struct reason why = { "" };
	struct snapshot *snapshot;
	struct read again;

	sample_poke(&sample, &sample_section(&sample, SNAP_TRACE_DOMAIN)->type, SNAP_TRACE_THREAD, 4);
	sample_seal(&sample);
	snapshot = snapshot__open_memory(sample.bytes, sample.len, &why);
	cr_assert(snapshot, "%s", why.text);
	again = read_back(snapshot, NULL);
	cr_expect(again.t->trace_thread && again.t->trace_nr == BLOCKS);
	cr_expect(!has_section(&again.sample, SNAP_TRACE_COUNT));
	read_release(&again);
	snapshot__close(snapshot);
	sample_release(&sample);
}
