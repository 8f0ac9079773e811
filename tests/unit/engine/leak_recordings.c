// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whole recordings through the rule for leaks: which tracebacks are the same in all snapshots, and which blocks count. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "engine/leak_report.h"
#include "snapshot.h"

#define SEC 1000000000ull
#define BEGIN_NS (50 * SEC)
#define SNAPSHOTS 12

/* A flow of blocks: one each `every` seconds, freed after `life`. */
struct flow {
	const char *function;
	uint64_t offset;
	double every, life;
	uint32_t domain;
	double from, until; /* when blocks are born; until 0: to the end */
	uint64_t made_code; /* the address in code made at run time that calls it; 0: none does */
	const char *by;	    /* instead of function, by way of std::construct */
	uint64_t via;	    /* the address in that */
};

/* Unnamed frames are places in files; named ones also have a function, a line and an inlined call. */
struct program {
	const struct flow *flow;
	size_t flow_nr;
	uint32_t named_from; /* snapshots before it have no names */
	double unborn;	     /* so many blocks have no birth */
	uint32_t first;	     /* number of the first snapshot that is judged */
};

static uint32_t frame_of(struct snapshot_builder *builder, const char *function, uint64_t offset, uint32_t lineno,
			 uint32_t flags)
{
	struct snap_object object = {};
	struct snap_frame frame = { .offset = offset, .lineno = lineno, .flags = flags };
	uint32_t id;

	cr_assert_eq(snapshot_builder__string(builder, "/bin/shop", &object.path), 0);
	cr_assert_eq(snapshot_builder__object(builder, &object, &frame.object), 0);
	cr_assert_eq(snapshot_builder__string(builder, lineno ? "shop.c" : "/bin/shop", &frame.filename), 0);
	cr_assert_eq(snapshot_builder__string(builder, function, &frame.function), 0);
	cr_assert_eq(snapshot_builder__frame(builder, &frame, &id), 0);
	return id;
}

static uint32_t made_frame(struct snapshot_builder *builder, uint64_t address)
{
	struct snap_frame frame = { .offset = address };
	uint32_t id;

	cr_assert_eq(snapshot_builder__string(builder, "[anonymous code]", &frame.filename), 0);
	cr_assert_eq(snapshot_builder__frame(builder, &frame, &id), 0);
	return id;
}

static uint32_t traceback_of(struct snapshot_builder *builder, const struct flow *flow, bool is_named)
{
	uint32_t frame[6], nr = 0, id;

	if (is_named)
		frame[nr++] = frame_of(builder, "inlined", flow->offset, 7, SNAP_FRAME_INLINE);
	if (!flow->by)
		frame[nr++] = frame_of(builder, is_named ? flow->function : NULL, flow->offset, is_named ? flow->offset : 0, 0);
	if (flow->made_code)
		frame[nr++] = made_frame(builder, flow->made_code);
	if (flow->by) {
		frame[nr++] = frame_of(builder, "std::construct", flow->via, 9, 0);
		frame[nr++] = frame_of(builder, flow->by, 0x900 + *flow->by, 20, 0);
	}
	frame[nr++] = frame_of(builder, is_named ? "main" : NULL, 0x1000, is_named ? 1 : 0, 0);
	cr_assert_eq(snapshot_builder__traceback(builder, frame, nr, nr, 0, &id), 0);
	return id;
}

static void add_flow(struct snapshot_builder *builder, const struct flow *flow, uint32_t traceback, double now)
{
	double until = flow->until && flow->until < now ? flow->until : now;

	for (double born = flow->from; born <= until; born += flow->every) {
		struct snap_trace trace = {
			.size = 100, .traceback = traceback, .domain = flow->domain, .birth_ns = BEGIN_NS + born * SEC,
		};

		if (born + flow->life > now)
			cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	}
}

static struct snapshot *open_moment(void *program_, uint32_t at, struct reason *why)
{
	const struct program *program = program_;
	uint32_t moment = program->first + at;
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_DOMAIN | SNAP_WITH_BIRTH);
	struct snap_trace unborn = { .size = 1 };
	struct snapshot *snapshot;

	(void)why;
	for (size_t i = 0; i < program->flow_nr; i++)
		add_flow(builder, &program->flow[i],
			 traceback_of(builder, &program->flow[i], moment >= program->named_from), (moment + 1) * 5);
	for (int i = 0; i < program->unborn; i++)
		cr_assert_eq(snapshot_builder__trace(builder, &unborn), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

static struct leaks *judge_program(const struct program *program)
{
	static uint64_t now_ns[SNAPSHOTS];
	uint32_t before = program->first;
	struct leak_recording recording = {
		.times = { .begin_ns = BEGIN_NS + before * 5 * SEC, .is_part = before, .now_ns = now_ns + before,
			   .snapshot_nr = SNAPSHOTS - before },
		.open = open_moment,
		.what = (void *)program,
	};
	const struct engine_options options = {};
	struct reason why = {};
	struct leaks *leaks;

	for (int i = 0; i < SNAPSHOTS; i++)
		now_ns[i] = BEGIN_NS + (i + 1) * 5 * SEC;
	cr_assert_eq(leaks_find(&recording, &options, &leaks, &why), 0, "%s", why.text);
	return leaks;
}

static const struct leak_caller *caller_of(const struct leaks *leaks, const char *function)
{
	for (size_t i = 0; i < leaks->line_nr; i++) {
		const struct leak_caller *caller = leak_line_caller(leaks, &leaks->line[i]);
		struct frame_view *frame;
		uint32_t nframe, total;
		bool is_it;

		cr_assert_eq(traceback_read(leaks->last, caller->traceback, &frame, &nframe, &total), 0);
		is_it = nframe > 1 && frame[1].function && !strcmp(frame[1].function, function);
		free(frame);
		if (is_it)
			return caller;
	}
	return NULL;
}

#define FOR_EVER 1e9

static const struct flow flows[] = {
	{ "leak", 0x2000, 0.5, FOR_EVER, 0 },
	{ "ring", 0x3000, 0.25, 12, 0 },
};

TestSuite(leak_recordings);

Test(leak_recordings, leaks_and_rings_are_told_apart)
{
	const struct program program = { flows, 2, 0, 0, 0 };
	struct leaks *leaks = judge_program(&program);

	cr_assert_eq(caller_of(leaks, "leak")->verdict.kind, LEAK_SURE);
	cr_assert_eq(caller_of(leaks, "ring")->verdict.kind, LEAK_FREED);
	cr_assert_eq(leaks->kind_nr[LEAK_SURE], 1);
	leaks_free(leaks);
}

static size_t callers_of_leak(const struct flow *flow, size_t nr)
{
	const struct program program = { flow, nr, 0, 0, 0 };
	struct leaks *leaks = judge_program(&program);
	struct leak_place place;
	size_t callers;

	cr_assert_eq(leaks->line_nr, 1);
	cr_assert_eq(leak_place_read(leaks, leaks->line, 9, &place), 0);
	callers = place.all_nr;
	cr_expect_eq(place.caller->nframe, 4);
	for (uint32_t i = 0; i < place.caller->nframe; i++)
		cr_expect_eq(place.caller->frame[i].is_library, i == 2, "frame %u", i);
	leak_place_release(&place);
	leaks_free(leaks);
	return callers;
}

/* A line that is called from two places in a library, which look the same, has the callers of the library. */
Test(leak_recordings, callers_are_the_programs_own)
{
	struct flow twins[] = {
		{ NULL, 0x2000, 0.5, FOR_EVER, .via = 0x100, .by = "serve" },
		{ NULL, 0x2000, 0.5, FOR_EVER, .via = 0x200, .by = "serve" },
	};

	cr_expect_eq(callers_of_leak(twins, 2), 1);
	twins[1].by = "answer";
	cr_expect_eq(callers_of_leak(twins, 2), 2);
	twins[1].via = 0x100;
	cr_expect_eq(callers_of_leak(twins, 2), 2);
}

Test(leak_recordings, names_that_come_later_change_nothing)
{
	const struct program named = { flows, 2, 0, 0, 0 }, later = { flows, 2, SNAPSHOTS - 1, 0, 0 };
	struct leaks *a = judge_program(&named), *b = judge_program(&later);
	const struct leak_verdict *before = &caller_of(a, "leak")->verdict, *after = &caller_of(b, "leak")->verdict;

	cr_assert_eq(after->kind, before->kind);
	cr_assert_eq(after->survivors, before->survivors);
	cr_assert_eq(after->freed, before->freed);
	cr_assert_eq(caller_of(b, "ring")->verdict.kind, LEAK_FREED, "its frees were seen");
	leaks_free(a);
	leaks_free(b);
}

Test(leak_recordings, domains_are_judged_by_themselves)
{
	static const struct flow apart[] = {
		{ "both", 0x2000, 0.5, FOR_EVER, 0 },
		{ "both", 0x2000, 0.1, 4, 1 },
	};
	const struct program program = { apart, 2, 0, 0, 0 };
	struct leaks *leaks = judge_program(&program);

	cr_assert_eq(leaks->kind_nr[LEAK_SURE], 1);
	cr_assert_eq(leaks->kind_nr[LEAK_FREED], 1);
	cr_assert_eq(leak_line_caller(leaks, &leaks->line[0])->domain, 0);
	leaks_free(leaks);
}

Test(leak_recordings, a_part_begins_anew)
{
	const struct program program = { flows, 2, 0, 0, 4 };
	struct leaks *leaks = judge_program(&program);
	const struct leak_verdict *verdict = &caller_of(leaks, "leak")->verdict;

	cr_assert_eq(leaks->window.span_ns, 40 * SEC);
	cr_assert_eq(leaks->window.snapshot_nr, 8);
	cr_assert_eq(verdict->kind, LEAK_SURE);
	cr_assert_eq(verdict->survivors, 71, "born from 20 s to 55 s");
	leaks_free(leaks);
}

/* Go's profile has them. A block of up to a second before may be of a compact file. */
Test(leak_recordings, blocks_from_before_are_live_and_no_evidence)
{
	static const struct flow older[] = {
		{ "table", 0x2000, 0.5, FOR_EVER, 0, -40, -2 },
		{ "leak", 0x3000, 0.5, FOR_EVER, 0, -20 },
	};
	const struct program program = { older, 2, 0, 0, 0 };
	struct leaks *leaks = judge_program(&program);
	const struct leak_verdict *verdict = &caller_of(leaks, "leak")->verdict;

	cr_assert_eq(leaks->line_nr, 1, "%zu lines", leaks->line_nr);
	cr_expect_eq(verdict->kind, LEAK_SURE);
	cr_expect_eq(verdict->live, 40 + 121, "%f are live", verdict->live);
	cr_expect_leq(verdict->survivors, 121 + 2);
	leaks_free(leaks);
}

Test(leak_recordings, blocks_without_a_birth_are_counted_apart)
{
	const struct program program = { flows, 1, 0, 9, 0 };
	struct leaks *leaks = judge_program(&program);

	cr_assert_eq(leaks->unborn, 9);
	cr_assert_eq(leaks->block_nr, 130);
	cr_assert_eq(leaks->line_nr, 1);
	leaks_free(leaks);
}

Test(leak_recordings, lines_that_leak_together_are_one)
{
	static const struct flow together[] = {
		{ "order", 0x2000, 0.5, FOR_EVER, 0 },
		{ "item", 0x2100, 0.5, FOR_EVER, 0 },
		{ "other", 0x2200, 0.9, FOR_EVER, 0 },
	};
	const struct program program = { together, 3, SNAPSHOTS, 0, 0 };
	struct leaks *leaks = judge_program(&program);

	cr_assert_eq(leaks->bundle_nr, 2);
	cr_assert_eq(leaks->bundle[0].nr, 2);
	cr_assert_eq(leaks->bundle[0].caller, 0, "main");
	cr_assert_float_eq(leaks->bundle[0].bytes_per_s, 2 * leaks->line[0].verdict.bytes_per_s, 1e-9);
	leaks_free(leaks);
}

Test(leak_recordings, few_blocks_of_many_callers_are_added_up)
{
	struct flow few[8];
	struct program program = { few, 8, 0, 0, 0 };
	struct leaks *leaks;

	/* each allocates twice, at times of its own; they share one line, the inlined call's */
	for (int i = 0; i < 8; i++)
		few[i] = (struct flow){ "few", 0x2000 + i, 31 + i, FOR_EVER, 0 };
	leaks = judge_program(&program);
	cr_assert_eq(leaks->line_nr, 1);
	cr_assert(leaks->line[0].is_summed);
	cr_assert_eq(leaks->line[0].verdict.kind, LEAK_LIKELY);
	cr_assert_eq(leaks->line[0].verdict.survivors, 16);
	cr_assert_eq(leaks->line[0].site_nr, 8);
	leaks_free(leaks);
}

/* One call that a compiler has made anew twice: each part by itself settled or is young. */
static const struct flow made_anew[] = {
	{ "keep", 0x2000, 0.5, FOR_EVER, 0, 0, 15, 0x70001000 },
	{ "keep", 0x2000, 0.5, FOR_EVER, 0, 15.5, 49, 0x70002000 },
	{ "keep", 0x2000, 0.5, FOR_EVER, 0, 49.5, 0, 0x70003000 },
};

Test(leak_recordings, code_that_is_made_anew_is_one_leak)
{
	const struct program program = { made_anew, 3, 0, 0, 0 };
	struct leaks *leaks = judge_program(&program);
	const struct leak_verdict *verdict = &leaks->line[0].verdict;

	cr_assert_eq(leaks->line_nr, 1);
	cr_assert_eq(verdict->kind, LEAK_SURE);
	cr_assert_eq(leaks->line[0].caller_nr, 1);
	cr_assert_eq(leaks->line[0].site_nr, 3);
	cr_assert_float_eq(verdict->bytes_per_s, 200, 5, "100 bytes twice a second: %f", verdict->bytes_per_s);
	cr_assert_lt(verdict->since_ns, 2 * SEC);
	leaks_free(leaks);
}

Test(leak_recordings, parts_of_code_that_is_not_made_anew_are_judged_apart)
{
	struct flow apart[3];
	const struct program program = { apart, 3, 0, 0, 0 };
	struct leaks *leaks;

	/* the same births, from three functions of a file */
	memcpy(apart, made_anew, sizeof(apart));
	for (int i = 0; i < 3; i++) {
		apart[i].made_code = 0;
		apart[i].offset += i;
	}
	leaks = judge_program(&program);
	for (size_t i = 0; i < leaks->line_nr; i++)
		cr_assert(!leaks->line[i].is_summed);
	cr_assert_gt(leaks->kind_nr[LEAK_SETTLED], 0);
	cr_assert_gt(leaks->kind_nr[LEAK_YOUNG], 0);
	leaks_free(leaks);
}

/* A warm-up, a ring and a second warm-up from made code: no part leaks, and together they are not sure to. */
Test(leak_recordings, warm_ups_of_made_code_do_not_leak)
{
	static const struct flow warm_ups[] = {
		{ "warm", 0x2000, 0.1, FOR_EVER, 0, 0, 8, 0x70001000 },
		{ "warm", 0x2000, 0.25, 12, 0, 0, 0, 0x70002000 },
		{ "warm", 0x2000, 0.5, FOR_EVER, 0, 46, 50, 0x70003000 },
	};
	const struct program program = { warm_ups, 3, 0, 0, 0 };
	struct leaks *leaks = judge_program(&program);

	cr_assert_eq(leaks->kind_nr[LEAK_SURE], 0);
	cr_assert_eq(leaks->kind_nr[LEAK_LIKELY], 0);
	cr_assert_eq(leaks->kind_nr[LEAK_FREED], 1);
	leaks_free(leaks);
}

/* The rate of a late leak counts for the time since it began. */
Test(leak_recordings, growth_of_a_late_leak_is_what_it_grew)
{
	static const struct flow late[] = {
		{ "old", 0x3000, 0.5, 4, 0, 0, 0, 0 },
		{ "late", 0x2000, 0.5, FOR_EVER, 0, 30, 0, 0 },
	};
	const struct program program = { late, 2, 0, 0, 0 };
	struct leaks *leaks = judge_program(&program);

	cr_assert_eq(leaks->kind_nr[LEAK_SURE], 1);
	cr_assert_float_eq(leaks_sure_growth(leaks), 61 * 100, 1e-9, "of 60 s, half a minute leaked");
	cr_assert_float_eq(leaks->growth.block_bytes, 61 * 100, 1e-9);
	leaks_free(leaks);
}

#define MANY 1002

/* Leaks of the same times: the leaks of the highest rates are one bundle, and the rest is not compared. */
Test(leak_recordings, a_thousand_lines_are_compared)
{
	static struct flow many[MANY];
	const struct program program = { many, MANY, SNAPSHOTS, 0, 0 };
	struct leaks *leaks;

	for (int i = 0; i < MANY; i++)
		many[i] = (struct flow){ "many", 0x2000 + i, 2, FOR_EVER, 0 };
	leaks = judge_program(&program);
	cr_assert_eq(leaks->line_nr, MANY);
	cr_assert_eq(leaks->kind_nr[LEAK_SURE], MANY);
	cr_assert_eq(leaks->bundle_nr, 3);
	cr_assert_eq(leaks->bundle[0].nr, 1000);
	cr_assert_eq(leaks->bundle[1].nr, 1);
	cr_assert_eq(leaks->bundle[2].first, MANY - 1);
	leaks_free(leaks);
}

/* Rings of the same times do not leak, and are never one. */
Test(leak_recordings, lines_that_do_not_leak_are_single)
{
	static const struct flow rings[] = { { "a", 0x2000, 0.25, 12, 0 }, { "b", 0x2100, 0.25, 12, 0 } };
	const struct program program = { rings, 2, SNAPSHOTS, 0, 0 };
	struct leaks *leaks = judge_program(&program);

	cr_assert_eq(leaks->kind_nr[LEAK_FREED], 2);
	cr_assert_eq(leaks->bundle_nr, 2);
	leaks_free(leaks);
}
