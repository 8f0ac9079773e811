// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * DHAT's JSON, version 2. Its viewer insists on times, peaks and lifetimes, which a snapshot does not have: the peak is
 * the time of the snapshot, and lifetimes are 0. The head of the file says so, and the viewer shows it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "render/facts.h"
#include "render/formats.h"
#include "render/json_parts.h"
#include "render/stack_samples.h"
#include "render/statistic_text.h"
#include "snapshot.h"

struct dhat_writer {
	FILE *out;
	struct strpool frames; /* the id is the index in the frame table; 0 is "[root]" */
	size_t point_nr;
	bool has_allocated;
};

/* "0xADDRESS: FUNCTION (FILE:LINE)", the form that the viewer takes apart. */
static char *dhat_frame(const struct frame_view *frame)
{
	const char *slash = frame->object ? strrchr(frame->object, '/') : NULL;
	char *name = frame_name(NULL, frame), *text = NULL;

	if (name && frame->lineno && asprintf(&text, "0x%" PRIX64 ": %s (%s:%" PRIu32 ")", frame->offset, name,
					      frame->filename, frame->lineno) < 0)
		text = NULL;
	if (name && !frame->lineno && asprintf(&text, "0x%" PRIX64 ": %s (in %s)", frame->offset, name,
					       slash ? slash + 1 : frame->object ?: "?") < 0)
		text = NULL;
	free(name);
	return text;
}

/* Writes the id of a frame's text, and frees the text. */
static int put_frame_id(struct dhat_writer *writer, char *text, bool is_first)
{
	uint32_t id;
	int err = text ? strpool_add(&writer->frames, text, strlen(text), &id) : -ENOMEM;

	free(text);
	if (!err)
		fprintf(writer->out, "%s%" PRIu32, is_first ? "" : ",", id);
	return err;
}

static int put_program_point(void *what, const struct stack_sample *sample)
{
	struct dhat_writer *writer = what;
	const struct cost *live = &sample->live;
	struct cost total = writer->has_allocated ? sample->allocated : *live;
	int err = 0;

	if (total.size < live->size || total.count < live->count) /* an estimate; the viewer insists on it */
		total = *live;
	fprintf(writer->out, "%s\n{\"tb\":%" PRId64 ",\"tbk\":%" PRId64 ",\"tl\":0", writer->point_nr++ ? "," : "",
		total.size, total.count);
	fprintf(writer->out, ",\"mb\":%" PRId64 ",\"mbk\":%" PRId64, live->size, live->count);
	fprintf(writer->out, ",\"gb\":%" PRId64 ",\"gbk\":%" PRId64, live->size, live->count);
	fprintf(writer->out, ",\"eb\":%" PRId64 ",\"ebk\":%" PRId64 ",\"fs\":[", live->size, live->count);
	if (sample->key)
		err = put_frame_id(writer, strdup(sample->key), true);
	for (uint32_t i = sample->nframe; i-- && !err;)
		err = put_frame_id(writer, dhat_frame(&sample->frame[i]), i + 1 == sample->nframe);
	if (!err && fputs("]}", writer->out) < 0)
		err = -errno ?: -EIO;
	return err;
}

/* Says what was recorded, and what its numbers are not. The viewer shows it as the command. */
static char *describe_recording(const struct dhat_writer *writer, const struct report *report)
{
	const struct snapshot *snapshot = report->snapshot_nr == 1 && !report->cohort_nr ? report->snapshot[0] : NULL;
	const char *command = snapshot ? snapshot__metadata(snapshot, "cmdline") ?: snapshot__metadata(snapshot, "comm") :
					 NULL;
	bool is_sampled = report->statistics->total_estimate;
	char *text;

	if (asprintf(&text, "%s (a snapshot of allocsnap: %s; t-gmax and t-end are the snapshot, lifetimes are not "
		     "known%s)", command ?: "?", writer->has_allocated ? "At t-end are the live blocks" :
		     "all columns are the live blocks", is_sampled ? "; sampled: all numbers are estimates" : "") < 0)
		return NULL;
	return text;
}

static json_t *dhat_head(const struct dhat_writer *writer, const struct report *report)
{
	const struct snapshot *snapshot = report->snapshot_nr == 1 ? report->snapshot[0] : NULL;
	uint64_t end_us = snapshot ? snapshot_recorded_ns(snapshot) / 1000 : 0;
	char *command = describe_recording(writer, report);
	json_t *head = json_pack("{s:i,s:s,s:s,s:b,s:b,s:s,s:s,s:i}", "dhatFileVersion", 2, "mode", "heap", "verb",
				 "Allocated", "bklt", 1, "bkacc", 0, "tu", "us", "Mtu", "s", "tuth", 500);
	int err = command ? json_set_text(head, "cmd", command) : -ENOMEM;

	err = err ?: json_set_uint(head, "pid", snapshot ? snapshot__metadata_u64(snapshot, "pid", 0) : 0);
	err = err ?: json_set_uint(head, "tg", end_us);
	err = err ?: json_set_uint(head, "te", end_us);
	free(command);
	return json_unless(err, head);
}

static int put_frame_table(struct dhat_writer *writer)
{
	int err = 0;

	fputs("],\"ftbl\":[\"[root]\"", writer->out);
	for (uint32_t i = 1; i < writer->frames.start_nr && !err; i++) {
		fputs(",\n", writer->out);
		err = json_put(writer->out, json_clean_string(strpool_get(&writer->frames, i)), JSON_ENCODE_ANY);
	}
	if (!err && fputs("]}\n", writer->out) < 0)
		err = -errno ?: -EIO;
	return err;
}

int dhat_put_report(FILE *out, const struct report *report)
{
	struct dhat_writer writer = { .out = out, .has_allocated = stack_samples_have_allocated(report) };
	const struct stack_visit visit = { put_program_point, &writer, .by_label = false };
	uint32_t root;
	int err = strpool_add(&writer.frames, "", 0, &root);

	putc('{', out);
	err = err ?: json_put(out, dhat_head(&writer, report), JSON_EMBED);
	fputs(",\"pps\":[", out);
	err = err ?: stack_samples_visit(report, &visit);
	err = err ?: put_frame_table(&writer);
	strpool_release(&writer.frames);
	return err;
}
