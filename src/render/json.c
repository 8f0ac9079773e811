// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>

#include "engine.h"
#include "render/domains.h"
#include "render/formats.h"
#include "render/json_parts.h"
#include "snapshot.h"

static int set_cost(json_t *object, const struct cost *cost, const struct cost *diff)
{
	int err = json_set_int(object, "size", cost->size);

	err = err ?: json_set_int(object, "count", cost->count);
	if (diff) {
		err = err ?: json_set_int(object, "size_diff", diff->size);
		err = err ?: json_set_int(object, "count_diff", diff->count);
	}
	return err;
}

static json_t *statistic_json(const struct report *report, const struct statistic *statistic)
{
	bool is_diff = report->statistics->is_diff;
	json_t *object = json_object();
	int err = json_set_text(object, "key", statistic->key);

	err = err ?: json_set_text(object, "name", statistic_domain_name(report, statistic));
	err = err ?: json_set(object, "traceback", json_frames(statistic->frame, statistic->nframe));
	err = err ?: set_cost(object, &statistic->cost, is_diff ? &statistic->diff : NULL);
	return json_unless(err, object);
}

static json_t *total_json(const struct statistics *statistics)
{
	const struct cost *diff = statistics->is_diff ? &statistics->total_diff : NULL;
	json_t *object = json_object();

	return json_unless(set_cost(object, &statistics->total, diff), object);
}

static json_t *warnings_json(const struct report *report)
{
	json_t *array = json_array();
	int err = 0;

	for (size_t i = 0; i < report->warning_nr && !err; i++)
		if (json_array_append_new(array, json_clean_string(report->warning[i])))
			err = -ENOMEM;
	return json_unless(err, array);
}

static uint64_t loss_sum(const struct report *report, const char *name)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < report->snapshot_nr; i++)
		if (__builtin_add_overflow(sum, snapshot__counter(report->snapshot[i], name), &sum))
			return UINT64_MAX;
	return sum;
}

static int set_losses(json_t *losses, const struct report *report, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	int err = 0;

	for (uint32_t i = 0; i < tables->counter_nr && !err; i++) {
		const struct snap_counter *loss = &tables->counter[i];
		const char *name = snapshot__string(snapshot, loss->name);

		if (loss->kind == SNAP_LOST && loss->value)
			err = json_set_uint(losses, name, loss_sum(report, name));
	}
	return err;
}

/* What is not zero. For a diff the sums of both snapshots: either's gaps bend a difference. */
static json_t *losses_json(const struct report *report)
{
	json_t *losses = json_object();
	int err = 0;

	for (size_t i = 0; i < report->snapshot_nr && !err; i++)
		err = set_losses(losses, report, report->snapshot[i]);
	return json_unless(err, losses);
}

/* All but the statistics, which may be many. */
static json_t *head_json(const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	const char *schema = statistics->is_diff ? "allocsnap.diff/1" : "allocsnap.stats/1";
	json_t *head = json_object();
	int err = json_set_text(head, "schema", schema);

	err = err ?: json_set_text(head, "key_type", key_type_name(statistics->key_type));
	if (statistics->measure)
		err = err ?: json_set_text(head, "measure", measure_name(statistics->measure));
	err = err ?: json_set(head, "cumulative", json_boolean(statistics->cumulative));
	err = err ?: json_set(head, "total", total_json(statistics));
	err = err ?: json_set(head, "warnings", warnings_json(report));
	err = err ?: json_set(head, "losses", losses_json(report));
	return json_unless(err, head);
}

int json_report(FILE *out, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	size_t shown = report_rows(report);
	int err;

	putc('{', out);
	err = json_put(out, head_json(report), JSON_EMBED);
	fputs(",\"statistics\":[", out);
	for (size_t i = 0; i < shown && !err; i++) {
		if (i)
			putc(',', out);
		err = json_put(out, statistic_json(report, &statistics->statistic[i]), 0);
	}
	if (!err && fputs("]}\n", out) < 0)
		err = -errno ?: -EIO;
	return err;
}
