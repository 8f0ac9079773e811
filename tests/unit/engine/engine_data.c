// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine_data.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "snapshot.h"

static uint32_t add_string(struct snapshot_builder *builder, const char *text)
{
	uint32_t id;

	cr_assert_eq(snapshot_builder__string(builder, text, &id), 0);
	return id;
}

static uint32_t add_frame(struct snapshot_builder *builder, const struct data_frame *frame)
{
	struct snap_object object = {
		.path = add_string(builder, frame->object), .build_id = add_string(builder, frame->build_id),
	};
	struct snap_frame row = {
		.filename = add_string(builder, frame->filename),
		.lineno = frame->lineno,
		.function = add_string(builder, frame->function),
		.offset = frame->offset, .flags = frame->flags,
	};
	uint32_t id;

	if (frame->object)
		cr_assert_eq(snapshot_builder__object(builder, &object, &row.object), 0);
	cr_assert_eq(snapshot_builder__frame(builder, &row, &id), 0);
	return id;
}

static void add_trace(struct snapshot_builder *builder, const struct data_trace *trace)
{
	struct snap_trace row = {
		.size = trace->size,
		.birth_ns = trace->birth_ns,
		.domain = trace->domain,
		.thread = trace->thread,
		.address = trace->address,
		.weight = trace->weight,
	};
	uint32_t frame[DATA_FRAMES], nframe = 0;
	int err = 0;

	while (nframe < DATA_FRAMES && trace->frame[nframe].filename) {
		frame[nframe] = add_frame(builder, &trace->frame[nframe]);
		nframe++;
	}
	if (nframe)
		err = snapshot_builder__traceback(builder, frame, nframe, trace->total_nframe, 0,
						  &row.traceback);
	cr_assert_eq(err, 0);
	for (unsigned int i = 0; i < (trace->times ?: 1); i++)
		cr_assert_eq(snapshot_builder__trace(builder, &row), 0);
}

static unsigned int columns_of(const struct data_trace *trace, size_t nr)
{
	unsigned int columns = 0;

	for (size_t i = 0; i < nr; i++)
		columns |= (trace[i].domain ? SNAP_WITH_DOMAIN : 0) |
			   (trace[i].thread ? SNAP_WITH_THREAD : 0) |
			   (trace[i].address ? SNAP_WITH_ADDRESS | SNAP_WITH_BIRTH : 0) |
			   (trace[i].weight > 0 ? SNAP_WITH_WEIGHT : 0);
	return columns;
}

static struct data_snapshot finish(struct snapshot_builder *builder)
{
	struct data_snapshot data;
	struct reason why = {};
	size_t len;

	cr_assert_eq(snapshot_builder__serialize(builder, &data.bytes, &len), 0);
	snapshot_builder__free(builder);
	data.snapshot = snapshot__open_memory(data.bytes, len, &why);
	cr_assert(data.snapshot, "%s", why.text);
	return data;
}

struct data_snapshot data_snapshot(const struct data_trace *trace, size_t nr,
				   uint64_t monotonic_ns)
{
	unsigned int columns = columns_of(trace, nr) | (monotonic_ns ? SNAP_WITH_BIRTH : 0);
	struct snapshot_builder *builder = snapshot_builder__new(columns);
	char text[32];

	cr_assert(builder);
	for (size_t i = 0; i < nr; i++)
		add_trace(builder, &trace[i]);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)monotonic_ns);
	if (monotonic_ns)
		cr_assert_eq(snapshot_builder__metadata(builder, "monotonic_ns", text), 0);
	return finish(builder);
}

struct data_snapshot data_snapshot_with(const struct data_trace *trace, size_t nr,
					const char *const *metadata)
{
	struct snapshot_builder *builder = snapshot_builder__new(columns_of(trace, nr));

	cr_assert(builder);
	for (size_t i = 0; i < nr; i++)
		add_trace(builder, &trace[i]);
	for (; metadata[0]; metadata += 2)
		cr_assert_eq(snapshot_builder__metadata(builder, metadata[0], metadata[1]), 0);
	return finish(builder);
}

void data_release(struct data_snapshot *data)
{
	snapshot__close(data->snapshot);
	free(data->bytes);
}

const char *data_traceback_text(char text[512], const struct statistic *statistic)
{
	size_t len = 0;

	text[0] = '\0';
	if (statistic->key)
		snprintf(text, 512, "[%.500s]", statistic->key);
	for (uint32_t i = 0; i < statistic->nframe && len < 400; i++)
		len += snprintf(text + len, 512 - len, "%s%.60s:%u", i ? " " : "",
				statistic->frame[i].filename, statistic->frame[i].lineno);
	return text;
}

static void expect_row(const char *what, size_t i, const struct statistic *got,
		       const struct data_row *want)
{
	char text[512];

	data_traceback_text(text, got);
	cr_expect_str_eq(text, want->traceback, "%s, row %zu: %s, not %s", what, i, text,
			 want->traceback);
	cr_expect(got->cost.size == want->size && got->cost.count == want->count &&
			  got->diff.size == want->size_diff && got->diff.count == want->count_diff,
		  "%s, row %zu (%s): size %ld (%+ld), count %ld (%+ld)", what, i, text,
		  got->cost.size, got->diff.size, got->cost.count, got->diff.count);
}

void data_expect(const char *what, const struct snapshot *old, const struct snapshot *new,
		 const struct engine_options *options, const struct data_row *row, size_t nr)
{
	struct statistics *statistics = NULL;
	struct reason why = {};
	int err = old ? snapshot_compare(old, new, options, &statistics, &why) :
			snapshot_statistics(new, options, &statistics, &why);

	cr_assert_eq(err, 0, "%s: error %d, %s", what, err, why.text);
	cr_expect_eq(statistics->statistic_nr, nr, "%s: %zu rows, not %zu", what,
		     statistics->statistic_nr, nr);
	cr_expect_eq(statistics->key_type, options->key_type, "%s", what);
	cr_expect_eq(statistics->cumulative, options->cumulative, "%s", what);
	cr_expect_eq(statistics->is_diff, old != NULL, "%s", what);
	for (size_t i = 0; i < nr && i < statistics->statistic_nr; i++)
		expect_row(what, i, &statistics->statistic[i], &row[i]);
	statistics_free(statistics);
}
