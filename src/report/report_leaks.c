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
static int set_line_traceback(struct adding_leaks *job, json_t *object, const struct leak_line *line)
{
	struct report_data *data = job->adding.data;
	uint32_t traceback;
	int err = adding_find_traceback(&job->adding, leak_line_caller(job->leaks, line)->traceback, &traceback);

	if (err)
		return err;
	data->traceback[traceback].is_kept = true;
	return json_set_uint(object, "traceback", traceback);
}

static json_t *report_line_json(struct adding_leaks *job, const struct leak_line *line)
{
	json_t *object = json_object();
	int err = leak_set_judgement(object, &job->leaks->window, &line->verdict, line->is_summed ? line->site_nr : 0);

	job->line_nr++;
	err = err ?: json_set_uint(object, "tracebacks", line->site_nr) ?:
	      json_set_uint(object, "callers", line->caller_nr);
	return json_unless(err ?: set_line_traceback(job, object, line), object);
}

/* The node of the call that all lines have in common. bundle->caller counts from the oldest frame. */
static int set_common_node(struct adding_leaks *job, json_t *object, const struct leak_bundle *bundle)
{
	const struct leak_caller *caller = leak_line_caller(job->leaks, &job->leaks->line[bundle->first]);
	uint32_t nframe = job->adding.tables->traceback[caller->traceback].nframe, traceback, node;
	struct report_data *data = job->adding.data;
	int err;

	if (bundle->caller >= nframe)
		return 0;
	err = adding_find_traceback(&job->adding, caller->traceback, &traceback);
	if (err)
		return err;
	node = data->traceback[traceback].node;
	for (uint32_t up = nframe - 1 - bundle->caller; up && node; up--)
		node = data->node[node].parent;
	return json_set_uint(object, "caller", node);
}

static json_t *report_bundle_json(struct adding_leaks *job, const struct leak_bundle *bundle)
{
	json_t *object = json_object(), *lines = json_array();
	int err = leak_set_bundle(object, job->leaks, bundle) ?: set_common_node(job, object, bundle);

	for (size_t i = 0; i < bundle->nr && !err && job->line_nr < LINES_MAX; i++)
		if (json_array_append_new(lines, report_line_json(job, &job->leaks->line[bundle->first + i])))
			err = -ENOMEM;
	err = json_set(object, "lines", json_unless(err, lines));
	return json_unless(err, object);
}

/* ---- the judgement -------------------------------------------------------------------------------------------- */

static int set_rows(struct adding_leaks *job, json_t *object, size_t shown)
{
	json_t *rows = json_array();
	size_t lines = 0;
	int err = 0;

	for (size_t i = 0; i < shown && !err; i++) {
		const struct leak_bundle *bundle = &job->leaks->bundle[i];

		if (job->leaks->line[bundle->first].verdict.kind <= LEAK_GROWS)
			lines += bundle->nr;
		if (job->line_nr < LINES_MAX && json_array_append_new(rows, report_bundle_json(job, bundle)))
			err = -ENOMEM;
	}
	err = json_set(object, "rows", json_unless(err, rows));
	return err ?: lines > job->line_nr ? json_set_uint(object, "more_lines", lines - job->line_nr) : 0;
}

static int set_verdicts(struct report_data *data, json_t *object, const struct report_judgement *judgement,
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
	int err = leaks_set_facts(object, &answer) ?: json_set_uint(object, "begin_ns", judgement->begin_ns);

	if (leaks_untraced_growth(leaks) > 0)
		err = err ?: json_set_uint(object, "untraced", leaks_untraced_growth(leaks));
	if (!leaks->kind_nr[LEAK_SURE] && !leaks->kind_nr[LEAK_LIKELY] && !answer.unjudged)
		err = err ?: json_set_text(object, "nothing", leaks_nothing_text(nothing, &blind));
	err = err ?: adding_init(&job.adding, data, leaks->last, options, 0, why) ?:
	      set_rows(&job, object, leaks_shown(&answer));
	adding_release(&job.adding);
	return err;
}

int report_add_leaks(struct report_data *data, const struct report_judgement *judgement,
		     const struct engine_options *options, struct reason *why)
{
	json_t *object = json_object();
	int err;

	if (judgement->leaks)
		err = set_verdicts(data, object, judgement, options, why);
	else
		err = json_set(object, "judged", json_false()) ?: json_set_text(object, "unjudged", judgement->unjudged) ?:
		      json_set(object, "rows", json_array());
	if (judgement->left_out_nr)
		err = err ?: json_set_uint(object, "left_out", judgement->left_out_nr);
	data->leaks = json_unless(err, object);
	return err;
}

/* ---- in the file ---------------------------------------------------------------------------------------------- */

/* An id of the data becomes a number of the file. */
static int renumber(json_t *object, const char *key, const uint32_t *number)
{
	json_t *id = json_object_get(object, key);

	return id ? json_set_uint(object, key, number[json_integer_value(id)]) : 0;
}

static json_t *numbered_leaks(const struct report_data *data, const struct report_layout *layout)
{
	json_t *leaks = json_deep_copy(data->leaks), *row, *line;
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
