// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "render/json_parts.h"
#include "render/leak_answer.h"
#include "snapshot.h"

/* Impossible weights have impossible sums, which are left out. */
static int set_real(json_t *object, const char *key, double value)
{
	return isfinite(value) ? json_set(object, key, json_real(value)) : 0;
}

static int set_verdict(json_t *object, const struct leak_verdict *verdict)
{
	const struct {
		const char *key;
		uint64_t value;
	} number[] = {
		{ "since_ns", verdict->since_ns },   { "last_ns", verdict->last_ns },
		{ "horizon_ns", verdict->horizon_ns }, { "survivors", verdict->survivors },
		{ "freed", verdict->freed },	     { "late", verdict->late },
		{ "early", verdict->early },	     { "periods", verdict->periods },
		{ "span", verdict->span },
	};
	int err = json_set_text(object, "verdict", leak_kind_name(verdict->kind));

	err = err ?: set_real(object, "bytes_per_s", verdict->bytes_per_s);
	err = err ?: set_real(object, "least_bytes_per_s", verdict->least_bytes_per_s);
	err = err ?: set_real(object, "blocks_per_s", verdict->blocks_per_s);
	err = err ?: set_real(object, "bytes", verdict->bytes);
	err = err ?: set_real(object, "allocated", verdict->allocated);
	err = err ?: set_real(object, "live", verdict->live);
	for (size_t i = 0; i < ARRAY_SIZE(number) && !err; i++)
		err = json_set_uint(object, number[i].key, number[i].value);
	return err;
}

static json_t *doubts_json(unsigned int doubts)
{
	static const struct {
		enum leak_doubt doubt;
		const char *name;
	} names[] = {
		{ LEAK_DOUBT_FEW, "few" },   { LEAK_DOUBT_BURSTS, "bursts" }, { LEAK_DOUBT_SLOWING, "slowing" },
		{ LEAK_DOUBT_GAPS, "gaps" }, { LEAK_DOUBT_BATCH, "batch" },   { LEAK_DOUBT_SNAPSHOTS, "snapshots" },
	};
	json_t *array = json_array();
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (doubts & names[i].doubt && json_array_append_new(array, json_string(names[i].name)))
			err = -ENOMEM;
	return json_unless(err, array);
}

int leak_set_judgement(json_t *object, const struct leak_window *window, const struct leak_verdict *verdict,
		       uint32_t summed)
{
	char *reason = leak_reason_text(window, verdict, summed);
	int err = reason ? set_verdict(object, verdict) : -ENOMEM;

	if (verdict->kind <= LEAK_LIKELY)
		err = err ?: json_set(object, "doubts", doubts_json(verdict->doubts));
	err = err ?: json_set_text(object, "reason", reason);
	free(reason);
	return err;
}

static json_t *caller_json(const struct leak_window *window, const struct leak_place_caller *caller)
{
	json_t *object = json_object();
	int err = leak_set_judgement(object, window, &caller->verdict, 0);

	err = err ?: json_set_uint(object, "tracebacks", caller->site_nr);
	err = err ?: json_set_uint(object, "domain", caller->domain);
	err = err ?: json_set(object, "traceback", json_frames(caller->frame, caller->nframe));
	return json_unless(err, object);
}

static json_t *callers_json(const struct leak_window *window, const struct leak_place *place)
{
	json_t *array = json_array();
	int err = 0;

	for (size_t i = 0; i < place->caller_nr && !err; i++)
		if (json_array_append_new(array, caller_json(window, &place->caller[i])))
			err = -ENOMEM;
	return json_unless(err, array);
}

int leak_set_place(json_t *object, const struct leak_window *window, const struct leak_place *place)
{
	int err = json_set(object, "traceback", json_frames(place->caller->frame, place->caller->nframe));

	if (place->all_nr > 1)
		err = err ?: json_set(object, "callers", callers_json(window, place));
	return err;
}

static json_t *line_json(const struct leak_answer *answer, const struct leak_line *line)
{
	const struct leaks *leaks = answer->leaks;
	json_t *object = json_object();
	struct leak_place place;
	int err = leak_place_read(leaks, line, line->caller_nr, &place);

	err = err ?: leak_set_judgement(object, &leaks->window, &line->verdict, line->is_summed ? line->site_nr : 0);
	err = err ?: json_set_uint(object, "tracebacks", line->site_nr);
	err = err ?: leak_set_place(object, &leaks->window, &place);
	leak_place_release(&place);
	return json_unless(err, object);
}

/* Sets the index of the caller that all lines share, in the first line's traceback, most recent call first. */
static int set_shared_caller(json_t *object, const struct leaks *leaks, const struct leak_bundle *bundle)
{
	struct frame_view *frame;
	uint32_t nframe;
	int err;

	if (bundle->caller == UINT32_MAX)
		return 0;
	err = leak_caller_frames(leaks, leak_line_caller(leaks, &leaks->line[bundle->first]), &frame, &nframe);
	if (err)
		return err;
	free(frame);
	return json_set_uint(object, "caller", bundle->caller < nframe ? nframe - 1 - bundle->caller : 0);
}

int leak_set_bundle(json_t *object, const struct leaks *leaks, const struct leak_bundle *bundle)
{
	int err = json_set_text(object, "verdict", leak_kind_name(leaks->line[bundle->first].verdict.kind));

	err = err ?: set_real(object, "bytes_per_s", bundle->bytes_per_s);
	err = err ?: set_real(object, "least_bytes_per_s", bundle->least_bytes_per_s);
	return err ?: json_set_uint(object, "since_ns", bundle->since_ns);
}

static json_t *bundle_json(const struct leak_answer *answer, const struct leak_bundle *bundle)
{
	const struct leaks *leaks = answer->leaks;
	json_t *object = json_object(), *lines = json_array();
	int err = leak_set_bundle(object, leaks, bundle) ?: set_shared_caller(object, leaks, bundle);

	for (size_t i = 0; i < bundle->nr && !err; i++)
		if (json_array_append_new(lines, line_json(answer, &leaks->line[bundle->first + i])))
			err = -ENOMEM;
	err = json_set(object, "lines", json_unless(err, lines));
	return json_unless(err, object);
}

static json_t *kinds_json(const struct leaks *leaks)
{
	json_t *object = json_object();
	int err = 0;

	for (int i = 0; i < LEAK_KIND_NR && !err; i++)
		err = json_set_uint(object, leak_kind_name(i), leaks->kind_nr[i]);
	return json_unless(err, object);
}

static json_t *growth_json(const struct leaks *leaks)
{
	json_t *object = json_object();
	int err = json_set_uint(object, "time_ns", leaks->growth.time_ns);

	if (leaks->rss_growth.time_ns)
		err = err ?: json_set_int(object, "rss", leaks->rss_bytes);
	if (leaks->rss_growth.time_ns && leaks->rss_growth.time_ns != leaks->growth.time_ns)
		err = err ?: json_set_uint(object, "rss_time_ns", leaks->rss_growth.time_ns);
	err = err ?: set_real(object, "traced", leaks->growth.block_bytes);
	if (leaks->growth.mapped_bytes)
		err = err ?: set_real(object, "mapped", leaks->growth.mapped_bytes);
	err = err ?: set_real(object, "leaks", leaks_sure_growth(leaks));
	return json_unless(err, object);
}

int leaks_set_facts(json_t *object, const struct leak_answer *answer)
{
	const struct leaks *leaks = answer->leaks;
	int err = json_set(object, "judged", json_boolean(!answer->unjudged));

	err = err ?: json_set_text(object, "unjudged", answer->unjudged);
	err = err ?: json_set_uint(object, "observed_ns", leaks->window.span_ns);
	err = err ?: json_set_uint(object, "snapshots", leaks->window.snapshot_nr);
	err = err ?: json_set_uint(object, "gaps_ns", leaks->window.gaps_ns);
	if (snapshot__tables(leaks->last)->trace_weight)
		err = err ?: json_set(object, "sampling", json_sampling(leaks->last));
	err = err ?: json_set(object, "growth", growth_json(leaks));
	err = err ?: json_set(object, "lines", kinds_json(leaks));
	return err ?: leak_set_hints(object, leak_answer_hints(answer));
}

static json_t *leaks_head_json(const struct leak_answer *answer)
{
	static const char *const facts[] = { "host", "comm", "exe" };
	const struct leaks *leaks = answer->leaks;
	json_t *head = json_object();
	int err = json_set_text(head, "schema", "allocsnap.leaks/1");

	for (size_t i = 0; i < ARRAY_SIZE(facts) && !err; i++)
		err = json_set_text(head, facts[i], snapshot__metadata(leaks->last, facts[i]));
	if (snapshot__metadata(leaks->last, "pid"))
		err = err ?: json_set_uint(head, "pid", snapshot__metadata_u64(leaks->last, "pid", 0));
	return json_unless(err ?: leaks_set_facts(head, answer), head);
}

int leaks_put_json(FILE *out, const struct leak_answer *answer)
{
	size_t shown = leaks_shown(answer);
	int err;

	putc('{', out);
	err = json_put(out, leaks_head_json(answer), JSON_EMBED);
	fputs(",\"leaks\":[", out);
	for (size_t i = 0; i < shown && !err; i++) {
		if (i)
			putc(',', out);
		err = json_put(out, bundle_json(answer, &answer->leaks->bundle[i]), 0);
	}
	if (!err && fputs("]}\n", out) < 0)
		err = -errno ?: -EIO;
	return err;
}
