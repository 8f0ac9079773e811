// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "engine/frame.h"
#include "engine/selector.h"
#include "engine/trace_source.h"
#include "formats/byte_buffer.h"
#include "formats/otlp.h"
#include "render/clean.h"
#include "render/facts.h"
#include "render/formats.h"
#include "render/pprof_profile.h"
#include "snapshot.h"

#define VALUE_NR 4
#define LABEL_PREFIX "label."

/*
 * A sample has what was allocated beside what is live, and domain and thread of the blocks, if the report is one of the
 * live blocks of one snapshot by traceback. Of any other report each row is a sample.
 */
struct stack_sample {
	const struct frame_view *frame; /* oldest first */
	uint32_t nframe;
	const char *key; /* if not NULL, the group's name: it has no frames */
	/* If the report is not of traces, `live` is the row: its measure, or its growth. */
	struct cost live;
	struct cost allocated; /* in a sample of its own */
	bool has_domain;
	const char *domain; /* name, or NULL: none */
	uint32_t domain_id, thread; /* a thread of 0 is not known */
};

struct pprof_writer {
	struct pprof_profile profile;
	const struct report *report;
	bool has_allocated; /* samples have `allocated` */
	struct pprof_label *label; /* labels of every sample, and at the end labels of one */
	size_t label_nr, label_alloc;
};

/* ---- kinds of reports --------------------------------------------------------------------------------- */

/* The engine answered for live blocks of this snapshot by traceback, and all of its rows are wanted. */
static bool has_traces(const struct report *report)
{
	const struct statistics *statistics = report->statistics;

	return report->engine && report->snapshot_nr == 1 && !report->cohort_nr && !statistics->is_diff &&
	       statistics->key_type == KEY_TRACEBACK && statistics->measure == MEASURE_LIVE &&
	       report_rows(report) == statistics->statistic_nr;
}

/* Whether samples have `allocated`. */
static bool has_allocated(const struct report *report)
{
	struct engine_options options;

	if (!has_traces(report) || !snapshot__tables(report->snapshot[0])->churn)
		return false;
	options = *report->engine;
	options.measure = MEASURE_ALLOCATED;
	return !engine_options_check(&options, NULL);
}

/* ---- types of values -------------------------------------------------------------------------------- */

/* In the order of Go's heap profiles, because some viewers show the last type only. */
static const char *const value_names[MEASURE_NR][2] = {
	[MEASURE_LIVE] = { "inuse_objects", "inuse_space" },
	[MEASURE_ALLOCATED] = { "alloc_objects", "alloc_space" },
	[MEASURE_TEMPORARY] = { "temporary_objects", "temporary_space" },
};

static void put_value_types(struct pprof_writer *writer, enum measure measure)
{
	profile_put_type(&writer->profile, PPROF_SAMPLE_TYPE, value_names[measure][0], "count");
	profile_put_type(&writer->profile, PPROF_SAMPLE_TYPE, value_names[measure][1], "bytes");
}

static void put_types(struct pprof_writer *writer)
{
	struct pprof_profile *profile = &writer->profile;
	enum measure measure = writer->report->statistics->measure;

	if (writer->has_allocated)
		put_value_types(writer, MEASURE_ALLOCATED);
	put_value_types(writer, measure);
	protobuf_put_number(&profile->body, PPROF_DEFAULT_SAMPLE_TYPE, profile_string(profile, value_names[measure][1]));
}

/* ---- about the whole -------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3)))
static void put_comment(struct pprof_writer *writer, const char *fmt, ...)
{
	struct pprof_profile *profile = &writer->profile;
	va_list args;
	char *line;

	va_start(args, fmt);
	line = clean_vformat(fmt, args);
	va_end(args);
	if (!line)
		profile->body.err = profile->body.err ?: -ENOMEM;
	protobuf_put_number(&profile->body, PPROF_COMMENT, profile_string(profile, line));
	free(line);
}

/* Puts the line of losses_line() or loss_list_line(), if there is one, and frees it. */
static void comment_losses(struct pprof_writer *writer, char *line)
{
	if (line)
		put_comment(writer, "%s", line);
	else if (errno)
		writer->profile.body.err = -errno;
	free(line);
}

static void comment_snapshot(struct pprof_writer *writer, const struct snapshot *snapshot)
{
	char rate[RATE_TEXT_MAX], gaps[GAPS_TEXT_MAX];

	if (snapshot__metadata(snapshot, "comm"))
		put_comment(writer, "%s (%s) on %s", snapshot__metadata(snapshot, "comm"),
			    snapshot__metadata(snapshot, "pid") ?: "?", snapshot__metadata(snapshot, "host") ?: "?");
	if (*rate_text(rate, snapshot))
		put_comment(writer, "sampled, %s; values are estimates of the whole", rate);
	if (snapshot__metadata_u64(snapshot, "gap_count", snapshot__tables(snapshot)->gap_nr))
		put_comment(writer, "%s", gaps_text(gaps, snapshot));
	comment_losses(writer, losses_line(snapshot));
}

static void put_comments(struct pprof_writer *writer)
{
	const struct report *report = writer->report;

	put_comment(writer, "allocsnap " ALLOCSNAP_VERSION);
	if (!report->cohort_nr && report->snapshot_nr == 1)
		comment_snapshot(writer, report->snapshot[0]);
	for (size_t i = 0; i < report->cohort_nr; i++)
		put_comment(writer, "%" PRIu32 " snapshots of %" PRIu32 " processes on %" PRIu32 " hosts",
			    report->cohort[i].snapshots, report->cohort[i].processes, report->cohort[i].hosts);
	comment_losses(writer, loss_list_line(report->loss, report->loss_nr));
	for (size_t i = 0; i < report->warning_nr; i++)
		put_comment(writer, "%s", report->warning[i]);
}

static void put_times(struct pprof_writer *writer, const struct snapshot *snapshot)
{
	struct byte_buffer *body = &writer->profile.body;
	uint64_t period = snapshot__metadata_u64(snapshot, "sample_bytes", 0);

	protobuf_put_number(body, PPROF_TIME_NANOS, snapshot__metadata_u64(snapshot, "wall_ns", 0));
	protobuf_put_number(body, PPROF_DURATION_NANOS, snapshot_recorded_ns(snapshot));
	profile_put_type(&writer->profile, PPROF_PERIOD_TYPE, "space", "bytes");
	protobuf_put_number(body, PPROF_PERIOD, period ?: 1);
}

/* ---- labels ----------------------------------------------------------------------------------------- */

static void add_label(struct pprof_writer *writer, const char *key, const char *value)
{
	struct pprof_profile *profile = &writer->profile;
	const struct pprof_label label = { profile_string(profile, key), profile_string(profile, value) };

	if (value && *value && array_push(writer, label, label))
		profile->body.err = -ENOMEM;
}

static void add_process_labels(struct pprof_writer *writer, const struct snapshot *snapshot)
{
	static const char *const key[] = { "comm", "pid", "host", "container_id" };
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	for (size_t i = 0; i < ARRAY_SIZE(key); i++)
		add_label(writer, key[i], snapshot__metadata(snapshot, key[i]));
	for (uint32_t i = 0; i < tables->metadata_nr; i++) {
		const char *name = snapshot__string(snapshot, tables->metadata[i].key);

		if (!strncmp(name, LABEL_PREFIX, strlen(LABEL_PREFIX)))
			add_label(writer, name + strlen(LABEL_PREFIX),
				  snapshot__string(snapshot, tables->metadata[i].value));
	}
}

static void add_block_labels(struct pprof_writer *writer, const struct stack_sample *sample)
{
	char number[16];

	snprintf(number, sizeof(number), "%" PRIu32, sample->domain_id);
	if (sample->has_domain)
		add_label(writer, "domain", sample->domain ?: number);
	snprintf(number, sizeof(number), "%" PRIu32, sample->thread);
	if (sample->thread)
		add_label(writer, "thread", number);
}

/* ---- samples ---------------------------------------------------------------------------------------- */

static int put_sample(struct pprof_writer *writer, const struct stack_sample *sample)
{
	const int64_t value[VALUE_NR] = { sample->allocated.count, sample->allocated.size, sample->live.count,
					  sample->live.size };
	size_t first = writer->has_allocated ? 0 : 2, label_nr = writer->label_nr;

	for (size_t i = 0; i < VALUE_NR; i++)
		if (value[i] < 0)
			return -EINVAL; /* a difference */
	if (sample->key)
		profile_add_text(&writer->profile, sample->key);
	for (uint32_t i = sample->nframe; i--;)
		profile_add_frame(&writer->profile, &sample->frame[i]);
	add_block_labels(writer, sample);
	profile_end_sample(&writer->profile, value + first, VALUE_NR - first, writer->label, writer->label_nr);
	writer->label_nr = label_nr;
	return writer->profile.body.err;
}

/* ---- sums by traceback, domain and thread ------------------------------------------------------------- */

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
	const struct snapshot *snapshot;
	const struct snapshot_tables *tables;
	struct source source;
	struct selector selector;
	struct class_sum *sum;
	size_t sum_nr, sum_alloc;
	struct idmap ids;
	struct frame_view *frame; /* of the current sample */
	size_t frame_alloc;
};

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
		.domain = trace.domain,
		.thread = trace.thread,
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
	const struct class class = { .traceback = traceback, .domain = NO_DOMAIN };
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

static int put_class_sum(struct pprof_writer *writer, struct class_sums *sums, const struct class_sum *sum)
{
	struct frame_span span = source_frames(&sums->source, sum->class.traceback);
	bool has_domain = sums->tables->trace_domain && sum->class.domain != NO_DOMAIN;
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
	return put_sample(writer, &sample);
}

static int put_trace_samples(struct pprof_writer *writer)
{
	const struct report *report = writer->report;
	struct class_sums sums = {
		.snapshot = report->snapshot[0],
		.tables = snapshot__tables(report->snapshot[0]),
	};
	int err = source_init(&sums.source, sums.snapshot, report->engine) ?:
		  selector_init(&sums.selector, &sums.source, NULL) ?: add_live(&sums);

	if (!err && writer->has_allocated)
		err = add_allocated(&sums);
	if (!err)
		round_sums(&sums);
	for (size_t i = 0; i < sums.sum_nr && !err; i++)
		err = put_class_sum(writer, &sums, &sums.sum[i]);
	selector_release(&sums.selector);
	source_release(&sums.source);
	idmap_release(&sums.ids);
	free(sums.sum);
	free(sums.frame);
	return err;
}

static int put_row_samples(struct pprof_writer *writer)
{
	const struct statistics *statistics = writer->report->statistics;
	size_t shown = report_rows(writer->report);
	int err = 0;

	for (size_t i = 0; i < shown && !err; i++) {
		const struct statistic *statistic = &statistics->statistic[i];
		const struct stack_sample sample = {
			.frame = statistic->frame,
			.nframe = statistic->nframe,
			.key = statistic->key,
			.live = statistics->is_diff ? statistic->diff : statistic->cost,
		};

		err = put_sample(writer, &sample);
	}
	return err;
}

/*
 * Puts each sample. No value is negative if the report is no diff. Values of sampled recordings are estimates, which
 * are rounded so that their sums are the report's sums. Returns 0 or a negative errno.
 */
static int put_samples(struct pprof_writer *writer)
{
	return has_traces(writer->report) ? put_trace_samples(writer) : put_row_samples(writer);
}

/* ---- the whole -------------------------------------------------------------------------------------- */

/* Viewers take the first mapping for the program. */
static void put_program(struct pprof_writer *writer, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const char *exe = snapshot__metadata(snapshot, "exe");

	for (uint32_t i = 1; i < tables->object_nr && exe; i++) {
		const char *build_id = snapshot__string(snapshot, tables->object[i].build_id);

		if (strcmp(snapshot__string(snapshot, tables->object[i].path), exe))
			continue;
		profile_mapping(&writer->profile, exe, *build_id ? build_id : NULL);
		return;
	}
}

static int make_profile(struct pprof_writer *writer)
{
	const struct report *report = writer->report;
	const struct snapshot *snapshot = report->snapshot_nr == 1 && !report->cohort_nr ? report->snapshot[0] : NULL;
	int err;

	put_types(writer);
	put_comments(writer);
	if (snapshot) {
		put_times(writer, snapshot);
		put_program(writer, snapshot);
		add_process_labels(writer, snapshot);
	}
	err = put_samples(writer);
	return err ?: profile_finish(&writer->profile);
}

/* The bytes of the whole, not in gzip. */
static int make_bytes(const struct report *report, struct byte_buffer *ret)
{
	struct pprof_writer writer = { .report = report, .has_allocated = has_allocated(report) };
	int err = make_profile(&writer);

	*ret = writer.profile.body;
	writer.profile.body = (struct byte_buffer){};
	profile_release(&writer.profile);
	free(writer.label);
	return err;
}

static int write_bytes(FILE *out, const struct byte_buffer *bytes)
{
	return fwrite(bytes->byte, 1, bytes->byte_nr, out) == bytes->byte_nr && !fflush(out) ? 0 : -errno ?: -EIO;
}

int pprof_put_report(FILE *out, const struct report *report)
{
	struct byte_buffer bytes, packed = {};
	int err = make_bytes(report, &bytes);

	err = err ?: gzip_compress(bytes.byte, bytes.byte_nr, &packed) ?: write_bytes(out, &packed);
	buffer_release(&packed);
	buffer_release(&bytes);
	return err;
}

int otlp_put_report(FILE *out, const struct report *report)
{
	struct byte_buffer bytes, request = {};
	int err = make_bytes(report, &bytes);

	err = err ?: otlp_from_pprof(bytes.byte, bytes.byte_nr, NULL, &request) ?: write_bytes(out, &request);
	buffer_release(&request);
	buffer_release(&bytes);
	return err;
}
