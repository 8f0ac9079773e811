// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <math.h>

#include "render/fleet.h"
#include "render/json_parts.h"
#include "render/leak_answer.h"

/* One answer: its names, and functions that make its members. */
struct list {
	const char *schema, *name;
	size_t nr;
	int (*set_row)(json_t *object, const struct fleet_answer *answer, size_t at);
	int (*set_head)(json_t *object, const struct fleet_answer *answer); /* NULL: the head has no more members */
};

static int set_group(json_t *object, const struct fleet_answer *answer, uint32_t group)
{
	return json_set_group(object, answer->report, &answer->groups->key[group]);
}

static json_t *fleet_head_json(const struct fleet_answer *answer, const struct list *list)
{
	json_t *head = json_object();
	int err = json_set_origin(head, answer->report, list->schema);

	err = err ?: json_set_caveats(head, answer->report);
	if (!err && list->set_head)
		err = list->set_head(head, answer);
	return json_unless(err, head);
}

static json_t *row_json(const struct fleet_answer *answer, const struct list *list, size_t at)
{
	json_t *object = json_object();

	return json_unless(list->set_row(object, answer, at), object);
}

/* Writes row by row, because there may be many. */
static int put_list(FILE *out, const struct fleet_answer *answer, const struct list *list)
{
	size_t top = answer->report->top;
	int err;

	putc('{', out);
	err = json_put(out, fleet_head_json(answer, list), JSON_EMBED);
	fprintf(out, ",\"%s\":[", list->name);
	for (size_t i = 0; i < list->nr && (!top || i < top) && !err; i++) {
		if (i)
			putc(',', out);
		err = json_put(out, row_json(answer, list, i), 0);
	}
	if (!err && fputs("]}\n", out) < 0)
		err = -errno ?: -EIO;
	return err;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int set_host_row(json_t *object, const struct fleet_answer *answer, size_t at)
{
	const struct host_row *row = &answer->hosts->row[at];
	int err = set_group(object, answer, row->group);

	err = err ?: json_set_int(object, "median", row->median);
	err = err ?: json_set_int(object, "p95", row->p95);
	err = err ?: json_set_int(object, "max", row->max);
	err = err ?: json_set_int(object, "mad", row->mad);
	err = err ?: json_set_int(object, "sum", row->sum);
	err = err ?: json_set_text(object, "max_host", answer->host[row->max_host]);
	err = err ?: json_set_uint(object, "hosts", row->hosts);
	err = err ?: json_set_uint(object, "outliers", row->outliers);
	return err ?: json_set(object, "score", json_real(row->score));
}

/* Impossible weights have impossible sums, which are left out. */
static int set_rate(json_t *object, const char *key, double bytes_per_s)
{
	return isfinite(bytes_per_s) ? json_set(object, key, json_real(bytes_per_s)) : 0;
}

static int set_process(json_t *object, const struct fleet_snapshot *snapshot)
{
	return json_set_text(object, "host", snapshot->host) ?: json_set_int(object, "pid", snapshot->pid) ?:
	       json_set_text(object, "comm", snapshot->comm);
}

static json_t *line_verdict_json(const struct line_verdict *line)
{
	json_t *object = json_object();
	int err = set_process(object, line->snapshot);

	err = err ?: json_set_uint(object, "observed_ns", line->window.span_ns);
	err = err ?: json_set_uint(object, "snapshots", line->window.snapshot_nr);
	err = err ?: leak_set_judgement(object, &line->window, &line->verdict, line->summed);
	if (line->place.caller_nr)
		err = err ?: leak_set_place(object, &line->window, &line->place);
	return json_unless(err, object);
}

static json_t *leak_row_json(const struct fleet_answer *answer, const struct fleet_leak *row)
{
	json_t *object = json_object();
	int err = set_group(object, answer, row->group);

	err = err ?: json_set_text(object, "verdict", leak_kind_name(row->kind));
	err = err ?: set_rate(object, "bytes_per_s", row->bytes_per_s);
	err = err ?: set_rate(object, "least_bytes_per_s", row->least_bytes_per_s);
	err = err ?: set_rate(object, "sure_bytes_per_s", row->sure_bytes_per_s);
	err = err ?: json_set_uint(object, "hosts", row->hosts);
	err = err ?: json_set_uint(object, "processes", row->processes);
	err = err ?: json_set_uint(object, "verdict_hosts", row->kind_hosts);
	err = err ?: json_set_uint(object, "verdict_processes", row->kind_processes);
	err = err ?: json_set(object, "most", line_verdict_json(&row->most));
	return json_unless(err, object);
}

static int set_leak_bundle(json_t *object, const struct fleet_answer *answer, size_t at)
{
	const struct fleet_leak_bundle *bundle = &answer->leaks->bundle[at];
	const struct fleet_leak *row = &answer->leaks->row[bundle->first];
	json_t *lines = json_array();
	int err = json_set_text(object, "verdict", leak_kind_name(bundle->kind));

	err = err ?: set_rate(object, "bytes_per_s", bundle->bytes_per_s);
	err = err ?: set_rate(object, "least_bytes_per_s", bundle->least_bytes_per_s);
	err = err ?: set_rate(object, "sure_bytes_per_s", bundle->sure_bytes_per_s);
	for (size_t i = 0; i < bundle->nr && !err; i++)
		if (json_array_append_new(lines, leak_row_json(answer, &row[i])))
			err = -ENOMEM;
	return json_set(object, "lines", json_unless(err, lines)) ?: err;
}

static json_t *unjudged_json(const struct fleet_leaks *leaks)
{
	json_t *object = json_object();
	int err = 0;

	for (int i = 0; i < FLEET_UNJUDGED_NR && !err; i++)
		if (leaks->unjudged_nr[i])
			err = json_set_uint(object, fleet_unjudged_name(i), leaks->unjudged_nr[i]);
	return json_unless(err, object);
}

static json_t *untraced_json(const struct fleet_leaks *leaks)
{
	json_t *array = json_array();
	int err = 0;

	for (size_t i = 0; i < leaks->untraced_nr && !err; i++) {
		const struct fleet_untraced *untraced = &leaks->untraced[i];
		json_t *object = json_object(), *most = json_object();

		err = json_set_uint(object, "processes", untraced->process_nr);
		err = err ?: json_set(object, "bytes", json_real(untraced->growth.bytes));
		err = err ?: json_set(object, "anonymous", json_real(untraced->growth.anonymous_bytes));
		err = err ?: json_set_text(object, "reason", untraced_words(&untraced->growth));
		err = json_set(object, "most", json_unless(set_process(most, untraced->most), most)) ?: err;
		if (json_array_append_new(array, json_unless(err, object)))
			err = -ENOMEM;
	}
	return json_unless(err, array);
}

static json_t *fleet_kinds_json(const struct fleet_leaks *leaks)
{
	json_t *object = json_object();
	int err = 0;

	for (int i = 0; i < LEAK_KIND_NR && !err; i++)
		err = json_set_uint(object, leak_kind_name(i), leaks->kind_nr[i]);
	return json_unless(err, object);
}

static int set_leaks_head(json_t *object, const struct fleet_answer *answer)
{
	char text[FLEET_UNJUDGED_MAX];
	const char *unjudged = fleet_unjudged_text(text, answer->leaks);
	int err = json_set(object, "judged", json_boolean(!unjudged));

	err = err ?: json_set_text(object, "unjudged", unjudged);
	err = err ?: json_set(object, "processes", unjudged_json(answer->leaks));
	if (answer->leaks->untraced_nr)
		err = err ?: json_set(object, "untraced", untraced_json(answer->leaks));
	if (answer->leaks->gone_nr)
		err = err ?: json_set_uint(object, "gone_snapshots", answer->leaks->gone_nr);
	err = err ?: json_set(object, "lines", fleet_kinds_json(answer->leaks));
	return err ?: leak_set_hints(object, fleet_leaks_hints(answer));
}

/* ---- answers -------------------------------------------------------------------------------- */

static int hosts_json(FILE *out, const struct fleet_answer *answer)
{
	const struct list list = { "allocsnap.fleet.hosts/2", "hosts", answer->hosts->row_nr, set_host_row, NULL };

	return put_list(out, answer, &list);
}

static int leaks_json(FILE *out, const struct fleet_answer *answer)
{
	const struct list list = { "allocsnap.fleet.leaks/5", "leaks", fleet_leaks_listed(answer), set_leak_bundle,
				   set_leaks_head };

	return put_list(out, answer, &list);
}

const struct fleet_renderer fleet_json = { hosts_json, leaks_json };
