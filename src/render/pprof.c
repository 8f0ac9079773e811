// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "formats/byte_buffer.h"
#include "render/clean.h"
#include "render/facts.h"
#include "render/formats.h"
#include "render/pprof_profile.h"
#include "render/stack_samples.h"
#include "snapshot.h"

#define VALUE_NR 4
#define LABEL_PREFIX "label."

struct pprof_writer {
	struct pprof_profile profile;
	const struct report *report;
	bool has_allocated;
	struct pprof_label *label; /* those of every sample, and at the end those of one */
	size_t label_nr, label_alloc;
};

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

/* Puts a line that may be missing, and frees it. */
static void put_comment_line(struct pprof_writer *writer, char *line)
{
	if (line)
		put_comment(writer, "%s", line);
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
	put_comment_line(writer, losses_line(snapshot));
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
	put_comment_line(writer, loss_list_line(report->loss, report->loss_nr));
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

static int put_sample(void *what, const struct stack_sample *sample)
{
	struct pprof_writer *writer = what;
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
	const struct stack_visit visit = { put_sample, writer, .by_label = true };
	int err;

	put_types(writer);
	put_comments(writer);
	if (snapshot) {
		put_times(writer, snapshot);
		put_program(writer, snapshot);
		add_process_labels(writer, snapshot);
	}
	err = stack_samples_visit(report, &visit);
	return err ?: profile_finish(&writer->profile);
}

int pprof_put_report(FILE *out, const struct report *report)
{
	struct pprof_writer writer = { .report = report, .has_allocated = stack_samples_have_allocated(report) };
	struct byte_buffer packed = {};
	int err = make_profile(&writer);

	if (!err)
		err = gzip_compress(writer.profile.body.byte, writer.profile.body.byte_nr, &packed);
	if (!err && (fwrite(packed.byte, 1, packed.byte_nr, out) != packed.byte_nr || fflush(out)))
		err = -errno ?: -EIO;
	buffer_release(&packed);
	profile_release(&writer.profile);
	free(writer.label);
	return err;
}
