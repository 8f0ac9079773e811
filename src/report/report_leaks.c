// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/report_leaks.h"

#include <errno.h>

#include "engine/leak_runtime.h"
#include "render/json_parts.h"
#include "render/leak_answer.h"
#include "report/adding.h"
#include "report/packed_json.h"
#include "report/report_layout.h"

#define LINES_MAX 200 /* first those that leak, may leak or grow; a reader has no time for more */

struct adding_leaks {
	struct adding adding;
	const struct leaks *leaks;
	size_t line_nr; /* so far */
};

/* ---- lines ------------------------------------------------------------------------------------------------------ */

/* The traceback from which most of the line's leak comes: it shows the line, and is kept as it is. */
static void emit_line_traceback(struct adding_leaks *job, struct emitter *out, const struct leak_line *line)
{
	struct report_data *data = job->adding.data;
	uint32_t traceback;
	int err = adding_find_traceback(&job->adding, leak_line_caller(job->leaks, line)->traceback, &traceback);

	emit_err(out, err);
	if (err)
		return;
	data->traceback[traceback].is_kept = true;
	emit_uint(out, "traceback", traceback);
}

static void emit_report_line(struct adding_leaks *job, struct emitter *out, const struct leak_line *line)
{
	job->line_nr++;
	emit_object(out, NULL);
	emit_judgement(out, &job->leaks->window, &line->verdict, line->is_summed ? line->site_nr : 0);
	emit_uint(out, "tracebacks", line->site_nr);
	emit_uint(out, "callers", line->caller_nr);
	emit_line_traceback(job, out, line);
	emit_end(out);
}

/* The node of the call that all lines have in common. bundle->caller counts from the oldest frame. */
static void emit_common_node(struct adding_leaks *job, struct emitter *out, const struct leak_bundle *bundle)
{
	const struct leak_caller *caller = leak_line_caller(job->leaks, &job->leaks->line[bundle->first]);
	uint32_t nframe = job->adding.tables->traceback[caller->traceback].nframe, traceback, node;
	struct report_data *data = job->adding.data;
	int err;

	if (bundle->caller >= nframe)
		return;
	err = adding_find_traceback(&job->adding, caller->traceback, &traceback);
	emit_err(out, err);
	if (err)
		return;
	node = data->traceback[traceback].node;
	for (uint32_t up = nframe - 1 - bundle->caller; up && node; up--)
		node = data->node[node].parent;
	emit_uint(out, "caller", node);
}

static void emit_report_bundle(struct adding_leaks *job, struct emitter *out, const struct leak_bundle *bundle)
{
	emit_object(out, NULL);
	emit_leak_bundle(out, job->leaks, bundle);
	emit_common_node(job, out, bundle);
	emit_list(out, "lines");
	for (size_t i = 0; i < bundle->nr && !out->err && job->line_nr < LINES_MAX; i++)
		emit_report_line(job, out, &job->leaks->line[bundle->first + i]);
	emit_end(out);
	emit_end(out);
}

/* ---- the judgement -------------------------------------------------------------------------------------------- */

static void emit_report_bundles(struct adding_leaks *job, struct emitter *out, size_t shown)
{
	size_t lines = 0;

	emit_list(out, "rows");
	for (size_t i = 0; i < shown && !out->err; i++) {
		const struct leak_bundle *bundle = &job->leaks->bundle[i];

		if (job->leaks->line[bundle->first].verdict.kind <= LEAK_GROWS)
			lines += bundle->nr;
		if (job->line_nr < LINES_MAX)
			emit_report_bundle(job, out, bundle);
	}
	emit_end(out);
	if (lines > job->line_nr)
		emit_uint(out, "more_lines", lines - job->line_nr);
}

static void emit_verdicts(struct report_data *data, struct emitter *out, const struct report_judgement *judgement,
			  const struct engine_options *options, struct reason *why)
{
	const struct leaks *leaks = judgement->leaks;
	enum leak_unjudged unjudged = leaks_find_unjudged(leaks);
	const struct leak_blind blind = leaks_find_blind(leaks);
	struct adding_leaks job = { .leaks = leaks };
	char text[LEAK_UNJUDGED_MAX], nothing[LEAKS_NOTHING_MAX];
	const struct leak_answer answer = {
		.leaks = leaks,
		.unjudged = leak_unjudged_text(text, unjudged, leaks),
		.is_void = leak_unjudged_is_void(unjudged),
		.shows_all = true,
	};

	emit_leak_facts(out, &answer);
	emit_uint(out, "begin_ns", judgement->begin_ns);
	if (leaks_untraced_growth(leaks) > 0)
		emit_uint(out, "untraced", leaks_untraced_growth(leaks));
	if (!leaks->kind_nr[LEAK_SURE] && !leaks->kind_nr[LEAK_LIKELY] && !answer.unjudged)
		emit_text(out, "nothing", leaks_nothing_text(nothing, &blind));
	if (!out->err)
		emit_err(out, adding_init(&job.adding, data, leaks->last, options, 0, why));
	emit_report_bundles(&job, out, out->err ? 0 : leaks_shown(&answer));
	adding_release(&job.adding);
}

int report_add_leaks(struct report_data *data, const struct report_judgement *judgement,
		     const struct engine_options *options, struct reason *why)
{
	struct emitter out = emit_to(NULL, true);

	if (judgement->leaks) {
		emit_verdicts(data, &out, judgement, options, why);
	} else {
		emit_bool(&out, "judged", false);
		emit_text(&out, "unjudged", judgement->unjudged);
		emit_list(&out, "rows");
		emit_end(&out);
	}
	if (judgement->left_out_nr)
		emit_uint(&out, "left_out", judgement->left_out_nr);
	return emit_value_of(&out, &data->leaks);
}

/* ---- in the file ---------------------------------------------------------------------------------------------- */

/* An id of the data becomes a number of the file. */
static int renumber(json_t *object, const char *key, const uint32_t *number)
{
	json_t *id = json_object_get(object, key);

	return id ? json_set(object, key, json_count(number[json_integer_value(id)])) : 0;
}

static json_t *numbered_leaks(const struct report_data *data, const struct report_layout *layout)
{
	json_t *leaks = json_whole_copy(data->leaks), *row, *line;
	size_t i, k;
	int err = leaks ? 0 : -ENOMEM;

	json_array_foreach(json_object_get(leaks, "rows"), i, row) {
		err = err ?: renumber(row, "caller", layout->node);
		json_array_foreach(json_object_get(row, "lines"), k, line)
			err = err ?: renumber(line, "traceback", layout->traceback);
	}
	return json_unless(err, leaks);
}

void report_write_leaks(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	if (!data->leaks)
		return;
	packed_json__text(json, ",\"leaks\":");
	packed_json__value(json, numbered_leaks(data, layout), 0);
}
