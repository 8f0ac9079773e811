// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>

#include "render/fleet.h"
#include "render/json_parts.h"

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

static int set_trend_row(json_t *object, const struct fleet_answer *answer, size_t at)
{
	const struct trend_row *row = &answer->trend->row[at];
	int err = set_group(object, answer, row->group);

	err = err ?: json_set(object, "slope", json_real(row->slope));
	err = err ?: json_set(object, "growth", json_real(row->growth));
	err = err ?: json_set_int(object, "first", row->first);
	err = err ?: json_set_int(object, "last", row->last);
	return err ?: json_set_uint(object, "processes", row->processes);
}

static int set_leak_row(json_t *object, const struct fleet_answer *answer, size_t at)
{
	const struct leak_row *row = &answer->leaks->row[at];
	int err = set_group(object, answer, row->group);

	err = err ?: json_set_uint(object, "hosts", row->hosts);
	err = err ?: json_set_uint(object, "hosts_growing", row->hosts_growing);
	err = err ?: json_set_uint(object, "processes", row->processes);
	err = err ?: json_set_uint(object, "processes_growing", row->processes_growing);
	err = err ?: json_set_int(object, "growth", row->growth);
	return err ?: json_set(object, "slope", json_real(row->slope));
}

static int set_leaks_head(json_t *object, const struct fleet_answer *answer)
{
	int err = json_set_uint(object, "processes_short", answer->leaks->processes_short);

	err = err ?: json_set_uint(object, "processes_in_gaps", answer->leaks->processes_in_gaps);
	return err ?: json_set_uint(object, "hosts_unjudged", answer->leaks->hosts_unjudged);
}

/* ---- answers -------------------------------------------------------------------------------- */

static int hosts_json(FILE *out, const struct fleet_answer *answer)
{
	const struct list list = { "allocsnap.fleet.hosts/2", "hosts", answer->hosts->row_nr, set_host_row, NULL };

	return put_list(out, answer, &list);
}

static int trend_json(FILE *out, const struct fleet_answer *answer)
{
	const struct list list = { "allocsnap.fleet.trend/2", "trends", answer->trend->row_nr, set_trend_row,
				   NULL };

	return put_list(out, answer, &list);
}

static int leaks_json(FILE *out, const struct fleet_answer *answer)
{
	const struct list list = { "allocsnap.fleet.leaks/2", "leaks", answer->leaks->row_nr, set_leak_row,
				   set_leaks_head };

	return put_list(out, answer, &list);
}

const struct fleet_renderer fleet_json = { hosts_json, trend_json, leaks_json };
