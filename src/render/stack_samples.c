// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/stack_samples.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/idmap.h"
#include "engine/frame.h"
#include "engine/selector.h"
#include "engine/trace_source.h"
#include "render/formats.h"
#include "snapshot.h"

/* The traces of one traceback, domain and thread. */
struct class {
	uint32_t traceback, domain, thread;
};

#define NO_DOMAIN UINT32_MAX /* of what was allocated: it is not known by domain */

struct class_sum {
	struct class class;
	struct cost live, allocated;
	double beyond_bytes, beyond_blocks; /* what samples stand for in addition */
};

struct class_sums {
	const struct report *report;
	const struct snapshot *snapshot;
	const struct snapshot_tables *tables;
	bool by_label;
	struct source source;
	struct selector selector;
	struct class_sum *sum;
	size_t sum_nr, sum_alloc;
	struct idmap ids;
	struct frame_view *frame; /* of the current sample */
	size_t frame_alloc;
};

/* The engine answered for live blocks of this snapshot by traceback, and all of its rows are wanted. */
static bool has_traces(const struct report *report)
{
	const struct statistics *statistics = report->statistics;

	return report->engine && report->snapshot_nr == 1 && !report->cohort_nr && !statistics->is_diff &&
	       statistics->key_type == KEY_TRACEBACK && statistics->measure == MEASURE_LIVE &&
	       report_rows(report) == statistics->statistic_nr;
}

bool stack_samples_have_allocated(const struct report *report)
{
	struct engine_options options;

	if (!has_traces(report) || !snapshot__tables(report->snapshot[0])->churn)
		return false;
	options = *report->engine;
	options.measure = MEASURE_ALLOCATED;
	return !engine_options_check(&options, NULL);
}

/* ---- sums ------------------------------------------------------------------------------------------- */

static bool same_class(uint32_t id, const void *key, const void *table)
{
	const struct class *a = &((const struct class_sum *)table)[id].class, *b = key;

	return a->traceback == b->traceback && a->domain == b->domain && a->thread == b->thread;
}

static int find_sum(struct class_sums *sums, const struct class *class, struct class_sum **ret)
{
	uint64_t hash = hash_bytes(class, sizeof(*class), 0);
	uint32_t id = idmap_find(&sums->ids, hash, same_class, class, sums->sum);
	int err = 0;

	if (id == IDMAP_NONE) {
		if (sums->sum_nr >= IDMAP_NONE)
			return -ENOMEM;
		id = sums->sum_nr;
		err = array_push(sums, sum, (struct class_sum){ .class = *class }) ?: idmap_add(&sums->ids, hash, id);
	}
	*ret = &sums->sum[id];
	return err;
}

static int add_live_trace(struct class_sums *sums, uint64_t at)
{
	const struct snap_trace trace = snapshot__trace(sums->snapshot, at);
	const struct class class = {
		.traceback = trace.traceback,
		.domain = sums->by_label ? trace.domain : 0,
		.thread = sums->by_label ? trace.thread : 0,
	};
	struct class_sum *sum;
	int err = find_sum(sums, &class, &sum);

	if (err)
		return err;
	sum->live.count++;
	sum->live.size += trace.size; /* the engine has checked that the sum of all fits */
	sum->beyond_bytes += trace.size * (trace.weight - 1);
	sum->beyond_blocks += trace.weight - 1;
	return 0;
}

static int add_live(struct class_sums *sums)
{
	int err = 0;

	for (uint64_t i = 0; i < sums->tables->trace_nr && !err; i++)
		if (selector_takes(&sums->selector, i))
			err = add_live_trace(sums, i);
	return err;
}

static int add_churned_traceback(struct class_sums *sums, uint32_t traceback)
{
	const struct snap_churn *churn = &sums->tables->churn[traceback];
	const struct class class = { .traceback = traceback, .domain = sums->by_label ? NO_DOMAIN : 0 };
	struct class_sum *sum;
	int err;

	if (!churn->allocations || !selector_takes_traceback(&sums->selector, traceback))
		return 0;
	if (churn->allocated_bytes > INT64_MAX || churn->allocations > INT64_MAX)
		return -ERANGE;
	err = find_sum(sums, &class, &sum);
	if (!err)
		sum->allocated = (struct cost){ churn->allocated_bytes, churn->allocations };
	return err;
}

static int add_allocated(struct class_sums *sums)
{
	int err = 0;

	for (uint32_t i = 0; i < sums->tables->traceback_nr && !err; i++)
		err = add_churned_traceback(sums, i);
	return err;
}

/*
 * Rounds what the samples stand for. A fraction that one sum loses the next one gets, so that the sum of all is the
 * rounded sum, as in the report's total.
 */
static void round_sums(struct class_sums *sums)
{
	double bytes = 0, blocks = 0;

	for (size_t i = 0; i < sums->sum_nr; i++) {
		struct class_sum *sum = &sums->sum[i];
		double bytes_before = bytes, blocks_before = blocks;

		bytes += sum->beyond_bytes;
		blocks += sum->beyond_blocks;
		sum->live.size += llround(bytes) - llround(bytes_before);
		sum->live.count += llround(blocks) - llround(blocks_before);
	}
}

/* ---- visits ----------------------------------------------------------------------------------------- */

static int visit_sum(struct class_sums *sums, const struct class_sum *sum, const struct stack_visit *visit)
{
	struct frame_span span = source_frames(&sums->source, sum->class.traceback);
	bool has_domain = sums->by_label && sums->tables->trace_domain && sum->class.domain != NO_DOMAIN;
	struct stack_sample sample = {
		.nframe = span.nframe,
		.live = sum->live,
		.allocated = sum->allocated,
		.has_domain = has_domain,
		.domain = has_domain ? snapshot__domain_name(sums->snapshot, sum->class.domain) : NULL,
		.domain_id = sum->class.domain,
		.thread = sum->class.thread,
	};
	int err = array_reserve(&sums->frame, &sums->frame_alloc, span.nframe);

	if (err)
		return err;
	for (uint32_t i = 0; i < span.nframe; i++)
		sums->frame[i] = frame_read(sums->snapshot, span.frame[span.nframe - 1 - i], KEY_TRACEBACK);
	sample.frame = sums->frame;
	return visit->visit(visit->what, &sample);
}

static int visit_sums(struct class_sums *sums, const struct stack_visit *visit)
{
	int err = 0;

	for (size_t i = 0; i < sums->sum_nr && !err; i++)
		err = visit_sum(sums, &sums->sum[i], visit);
	return err;
}

static int visit_traces(const struct report *report, const struct stack_visit *visit)
{
	struct class_sums sums = {
		.report = report,
		.snapshot = report->snapshot[0],
		.tables = snapshot__tables(report->snapshot[0]),
		.by_label = visit->by_label,
	};
	int err = source_init(&sums.source, sums.snapshot, report->engine) ?:
		  selector_init(&sums.selector, &sums.source, NULL) ?: add_live(&sums);

	if (!err && stack_samples_have_allocated(report))
		err = add_allocated(&sums);
	if (!err) {
		round_sums(&sums);
		err = visit_sums(&sums, visit);
	}
	selector_release(&sums.selector);
	source_release(&sums.source);
	idmap_release(&sums.ids);
	free(sums.sum);
	free(sums.frame);
	return err;
}

static int visit_rows(const struct report *report, const struct stack_visit *visit)
{
	const struct statistics *statistics = report->statistics;
	size_t shown = report_rows(report);
	int err = 0;

	for (size_t i = 0; i < shown && !err; i++) {
		const struct statistic *statistic = &statistics->statistic[i];
		const struct stack_sample sample = {
			.frame = statistic->frame,
			.nframe = statistic->nframe,
			.key = statistic->key,
			.live = statistics->is_diff ? statistic->diff : statistic->cost,
		};

		err = visit->visit(visit->what, &sample);
	}
	return err;
}

int stack_samples_visit(const struct report *report, const struct stack_visit *visit)
{
	return has_traces(report) ? visit_traces(report, visit) : visit_rows(report, visit);
}
