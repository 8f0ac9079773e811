// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "top/answer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "base/reason.h"
#include "render.h"
#include "render/caveats.h"
#include "render/facts.h"
#include "render/leak_answer.h"
#include "render/readable_name.h"
#include "render/statistic_text.h"
#include "snapshot.h"

/* ---- texts that tell rows apart ---- */

/* Frames of a line are equal whatever else they have, as in the engine. */
static void put_frame_identity(FILE *out, const struct frame_view *frame)
{
	if (frame->lineno)
		fprintf(out, "%s:%" PRIu32 "\n", frame->filename, frame->lineno);
	else
		fprintf(out, "%s\t%s\t%s\t%" PRIx64 "\n", frame->filename, frame->function ?: "", frame->object ?: "",
			frame->offset);
}

/* As key texts of the engine. */
static void put_function_identity(FILE *out, const struct frame_view *frame)
{
	if (frame->function)
		fputs(frame->function, out);
	else if (frame->object)
		fprintf(out, "<unknown> in %s", frame->object);
	else
		fputs("<unknown>", out);
}

static void put_identity(FILE *out, enum key_type key_type, const struct frame_view *frame, uint32_t nframe)
{
	const struct frame_view *own = &frame[nframe - 1];

	if (key_type == KEY_LINENO)
		put_frame_identity(out, own);
	else if (key_type == KEY_FILENAME)
		fputs(own->filename, out);
	else if (key_type == KEY_FUNCTION)
		put_function_identity(out, own);
	else if (key_type == KEY_OBJECT)
		fputs(own->object ?: "<unknown>", out);
	for (uint32_t i = 0; i < nframe && key_type == KEY_TRACEBACK; i++) {
		put_frame_identity(out, &frame[i]);
		fprintf(out, "%s\n", frame[i].function ?: "");
	}
}

/*
 * A text that tells rows apart by this key: of a row with these frames, oldest first, or with this key. The caller
 * frees it. NULL: no memory.
 */
static char *top_identity(enum key_type key_type, const struct frame_view *frame, uint32_t nframe, const char *key)
{
	char *text = NULL;
	size_t len;
	FILE *out;

	if (key)
		return strdup(key);
	out = open_memstream(&text, &len);
	if (!out)
		return NULL;
	if (nframe)
		put_identity(out, key_type, frame, nframe);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

/* ---- the tracebacks of an opened row ---- */

#define TRACEBACKS_SHOWN 50

__attribute__((format(printf, 2, 3))) static int add_opened_line(struct top_answer *answer, const char *fmt, ...)
{
	va_list args;
	char *line;
	int err;

	va_start(args, fmt);
	if (vasprintf(&line, fmt, args) < 0)
		line = NULL;
	va_end(args);
	err = line ? array_push(answer, line, line) : -ENOMEM;
	if (err)
		free(line);
	return err;
}

static int add_traceback(struct top_answer *answer, const struct readable_names *names,
			 const struct statistic *statistic)
{
	char costs[COST_TEXT_MAX];
	int err = answer->line_nr ? add_opened_line(answer, "%s", "") : 0;

	cost_text(costs, &statistic->cost, NULL, statistic->estimate);
	err = err ?: add_opened_line(answer, "%s", costs);
	for (uint32_t i = statistic->nframe; i-- > 0 && !err;) {
		size_t tail_at;
		char *text = frame_text(names, &statistic->frame[i], &tail_at);

		err = text ? add_opened_line(answer, "    %s", text) : -ENOMEM;
		free(text);
	}
	return err;
}

/* Whether a traceback belongs to the row. Rows of classes were filtered for already. */
static bool is_of_row(const struct top_question *question, const struct statistic *statistic, bool *ret_no_memory)
{
	/* a row by line is of the most recent frame; the head of a traceback may be its oldest one */
	const struct frame_view *own = statistic->frame + (statistic->nframe ? statistic->nframe - 1 : 0);
	bool is_traceback = question->key_type == KEY_TRACEBACK, is_same;
	char *identity;

	if (question->key_type == KEY_DOMAIN || question->key_type == KEY_THREAD || question->key_type == KEY_PROCESS)
		return true;
	identity = top_identity(question->key_type, is_traceback ? statistic->frame : own,
				is_traceback ? statistic->nframe : !!statistic->nframe, NULL);
	is_same = identity && !strcmp(identity, question->open);
	*ret_no_memory |= !identity;
	free(identity);
	return is_same;
}

static int add_tracebacks(struct top_answer *answer, const struct top_question *question,
			  const struct statistics *statistics)
{
	const struct statistic **chosen = calloc(statistics->statistic_nr + 1, sizeof(*chosen));
	size_t nr = 0, more = 0;
	bool no_memory = !chosen;
	struct readable_names names = {};
	int err = 0;

	for (size_t i = 0; i < statistics->statistic_nr && !no_memory; i++) {
		if (!is_of_row(question, &statistics->statistic[i], &no_memory))
			continue;
		if (nr == TRACEBACKS_SHOWN)
			more++;
		else
			chosen[nr++] = &statistics->statistic[i];
	}
	for (size_t i = 0; i < nr && !err; i++)
		err = readable_names_add(&names, chosen[i], 1, KEY_TRACEBACK);
	for (size_t i = 0; i < nr && !err; i++)
		err = add_traceback(answer, &names, chosen[i]);
	if (more && !err)
		err = add_opened_line(answer, "%s", "") ?: add_opened_line(answer, "%zu more tracebacks", more);
	if (!nr && !err)
		err = add_opened_line(answer, "%s", "no live blocks now");
	readable_names_release(&names);
	free(chosen);
	return no_memory ? -ENOMEM : err;
}

/* Only the blocks of the row's domain or thread. *ret is NULL if all blocks may take part. */
static int filter_row(const struct top_question *question, const struct snapshot *newest, struct snapshot **ret,
		      struct reason *why)
{
	struct filter filter = { .inclusive = true, .has_domain = true };
	struct engine_options options = *question->engine;

	*ret = NULL;
	options.select = (struct selection){};
	if (question->key_type == KEY_DOMAIN) {
		filter.domain = strtoul(question->open, NULL, 10);
		options.select.filter = &filter;
		options.select.filter_nr = 1;
	} else if (question->key_type == KEY_THREAD) {
		options.select.thread = strtoul(question->open, NULL, 10);
	} else {
		return 0;
	}
	return snapshot_filter_traces(newest, &options, ret, why);
}

int top_answer_open(struct top_answer *answer, const struct top_question *question, const struct snapshot *newest,
		    struct reason *why)
{
	struct engine_options options = *question->engine;
	struct statistics *statistics = NULL;
	struct snapshot *part = NULL;
	int err;

	answer->opened = strdup(question->open);
	if (!answer->opened)
		return -ENOMEM;
	if (question->key_type == KEY_AGE || question->key_type == KEY_SIZE_CLASS)
		return add_opened_line(answer, "tracebacks belong to lines, functions, files, objects, threads and domains: g groups "
				"by these");
	if (question->key_type == KEY_THREAD && !strcmp(question->open, "0"))
		return add_opened_line(answer, "the thread is not known");
	options.key_type = KEY_TRACEBACK;
	err = filter_row(question, newest, &part, why);
	err = err ?: snapshot_statistics(part ?: newest, &options, &statistics, why);
	err = err ?: add_tracebacks(answer, question, statistics);
	statistics_free(statistics);
	snapshot__close(part);
	return err;
}

/* ---- facts ---------------------------------------------------------------------------------- */

static uint64_t sum_losses(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < tables->counter_nr; i++)
		if (tables->counter[i].kind == SNAP_LOST)
			sum += tables->counter[i].value;
	return sum;
}

/* Facts about the process of a snapshot. */
static struct top_process top_process_of(const struct snapshot *snapshot)
{
	struct snapshot_facts facts = snapshot_facts(snapshot);
	struct top_process process = {
		.pid = snapshot__metadata_u64(snapshot, "pid", 0),
		.bytes = facts.current_bytes,
		.blocks = facts.blocks,
		.peak_bytes = facts.peak_bytes,
		.rss_bytes = snapshot__metadata_u64(snapshot, "rss_bytes", 0),
		.cpu_ns = snapshot__metadata_u64(snapshot, "cpu_ns", UINT64_MAX),
		.cost_ns = snapshot__metadata_u64(snapshot, "cost_ns", UINT64_MAX),
		.recorded_ns = snapshot_recorded_ns(snapshot),
		.lost = sum_losses(snapshot),
		.is_estimated = facts.is_estimated,
	};

	process.cost_is_known = process.cpu_ns != UINT64_MAX && process.cost_ns != UINT64_MAX && process.recorded_ns;
	snprintf(process.comm, sizeof(process.comm), "%s", snapshot__metadata(snapshot, "comm") ?: "<unknown>");
	return process;
}

/* Nothing is left out for want of memory. */
static int copy_text(char **ret, const char *text)
{
	*ret = text && *text ? strdup(text) : NULL;
	return text && *text && !*ret ? -ENOMEM : 0;
}

static int copy_time(char **ret, const struct snapshot *snapshot)
{
	uint64_t wall_ns = snapshot__metadata_u64(snapshot, "wall_ns", 0);
	time_t seconds = wall_ns / SECOND_NS;
	char text[64];
	struct tm tm;

	if (!wall_ns || !gmtime_r(&seconds, &tm))
		return 0;
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm);
	return copy_text(ret, text);
}

static int copy_losses(char **ret, const struct snapshot *snapshot)
{
	*ret = losses_line(snapshot);
	return *ret ? 0 : -errno;
}

static int set_answer_facts(struct top_answer *answer, const struct snapshot *base, const struct snapshot *newest)
{
	char rate[RATE_TEXT_MAX], gaps[GAPS_TEXT_MAX];
	struct reason why;

	answer->process = top_process_of(newest);
	answer->now_ns = snapshot__metadata_u64(newest, "monotonic_ns", 0);
	if (base)
		answer->window_ns = answer->now_ns - snapshot__metadata_u64(base, "monotonic_ns", answer->now_ns);
	if (!base || !unrecorded_reason(base, newest, &why))
		why.text[0] = '\0';
	return copy_text(&answer->host, snapshot__metadata(newest, "host")) ?: copy_time(&answer->time, newest) ?:
	       copy_text(&answer->rate, rate_text(rate, newest)) ?: copy_losses(&answer->losses, newest) ?:
	       copy_text(&answer->gaps, snapshot__tables(newest)->gap_nr ? gaps_text(gaps, newest) : NULL) ?:
	       copy_text(&answer->unjudged_growth, why.text);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static uint64_t size_error(const struct statistic *statistic)
{
	const struct estimate *estimate = statistic->estimate;
	uint64_t below, above;

	if (!estimate || !estimate->has_intervals)
		return 0;
	below = statistic->cost.size - estimate->size.low;
	above = estimate->size.high - statistic->cost.size;
	return below > above ? below : above;
}

static char *row_name(const struct readable_names *names, const struct statistic *statistic,
		      const struct engine_options *options, const struct snapshot *newest, size_t *ret_tail)
{
	const struct frame_view *head = statistic->head ?: statistic->frame;
	enum key_type key_type = options->key_type;
	const char *domain;
	char *name;

	if (key_type == KEY_LINENO || key_type == KEY_TRACEBACK)
		return frame_text(names, head, ret_tail);
	if (key_type == KEY_FILENAME)
		name = strdup(head->filename);
	else
		name = statistic_name(names, statistic, key_type);
	if (name)
		*ret_tail = strlen(name);
	domain = key_type == KEY_DOMAIN ? snapshot__domain_name(newest, strtoul(statistic->key, NULL, 10)) : NULL;
	if (domain && name) {
		char *longer = NULL;

		if (asprintf(&longer, "%s (%s)", name, domain) < 0)
			longer = NULL;
		free(name);
		name = longer;
	}
	return name;
}

static void release_row(struct top_row *row)
{
	free(row->name);
	free(row->identity);
	free(row->reason);
}

static int add_answer_row(struct top_answer *answer, const struct readable_names *names, const struct statistic *statistic,
		   const struct engine_options *options, const struct snapshot *newest)
{
	struct top_row row = {
		.cost = statistic->cost,
		.diff = statistic->diff,
		.error_bytes = size_error(statistic),
		.kind = LEAK_KIND_NR,
	};
	bool is_traceback = options->key_type == KEY_TRACEBACK;
	const struct frame_view *head = statistic->head ?: statistic->frame;

	row.name = row_name(names, statistic, options, newest, &row.tail_at);
	row.identity = top_identity(options->key_type, is_traceback ? statistic->frame : head,
				    is_traceback ? statistic->nframe : !!statistic->nframe, statistic->key);
	if (row.name && row.identity && !array_push(answer, row, row))
		return 0;
	release_row(&row);
	return -ENOMEM;
}

static int add_answer_rows(struct top_answer *answer, const struct statistics *statistics,
		    const struct engine_options *options, const struct snapshot *newest)
{
	struct readable_names names = {};
	int err = readable_names_add(&names, statistics->statistic, statistics->statistic_nr, options->key_type);

	for (size_t i = 0; i < statistics->statistic_nr && !err; i++) {
		const struct statistic *statistic = &statistics->statistic[i];

		if (statistic->cost.count || statistic->diff.count || statistic->diff.size)
			err = add_answer_row(answer, &names, statistic, options, newest);
	}
	readable_names_release(&names);
	return err;
}

int top_answer_make(const struct top_question *question, const struct snapshot *base, const struct snapshot *newest,
		    struct top_answer **ret, struct reason *why)
{
	struct top_answer *answer = calloc(1, sizeof(*answer));
	struct engine_options options = *question->engine;
	struct statistics *statistics = NULL;
	int err;

	if (!answer)
		return -ENOMEM;
	options.key_type = answer->key_type = question->key_type;
	err = set_answer_facts(answer, base, newest);
	if (!err)
		err = base ? snapshot_compare(base, newest, &options, &statistics, why) :
			     snapshot_statistics(newest, &options, &statistics, why);
	if (!err) {
		answer->total = statistics->total;
		answer->total_diff = statistics->total_diff;
		answer->has_errors = answer->process.is_estimated && statistics->total_estimate &&
				     statistics->total_estimate->has_intervals;
		err = add_answer_rows(answer, statistics, &options, newest);
	}
	statistics_free(statistics);
	if (err)
		top_answer_free(answer);
	else
		*ret = answer;
	return err;
}

void top_answer_free(struct top_answer *answer)
{
	if (!answer)
		return;
	for (size_t i = 0; i < answer->row_nr; i++)
		release_row(&answer->row[i]);
	for (size_t i = 0; i < answer->line_nr; i++)
		free(answer->line[i]);
	free(answer->row);
	free(answer->line);
	free(answer->host);
	free(answer->time);
	free(answer->rate);
	free(answer->losses);
	free(answer->gaps);
	free(answer->unjudged_growth);
	free(answer->unjudged);
	free(answer->opened);
	free(answer);
}

/* ---- verdicts ------------------------------------------------------------------------------- */

/* The rows by their identity; of equal ones the first. */
struct answer_rows {
	struct top_answer *answer;
	struct idmap ids;
};

static bool is_row_of_identity(uint32_t id, const void *key, const void *table)
{
	const struct top_answer *answer = table;

	return !strcmp(answer->row[id].identity, key);
}

static struct top_row *find_answer_row(const struct answer_rows *rows, const char *identity)
{
	uint32_t at = idmap_find(&rows->ids, hash_bytes(identity, strlen(identity), 0), is_row_of_identity, identity,
				 rows->answer);

	return at == IDMAP_NONE ? NULL : &rows->answer->row[at];
}

static int index_answer_rows(struct answer_rows *rows, struct top_answer *answer)
{
	int err = 0;

	*rows = (struct answer_rows){ .answer = answer };
	for (size_t i = 0; i < answer->row_nr && !err; i++) {
		const char *identity = answer->row[i].identity;

		if (!find_answer_row(rows, identity))
			err = idmap_add(&rows->ids, hash_bytes(identity, strlen(identity), 0), i);
	}
	return err;
}

/* A row has the sum of the rates of all its lines, the verdict of the larger part, and the reason of a line of that. */
static int add_verdict(struct top_row *row, const struct leaks *leaks, const struct leak_line *line, double bytes_per_s)
{
	enum leak_kind kind = line->verdict.kind;

	row->leak_bytes_per_s += bytes_per_s;
	row->sure_bytes_per_s += kind == LEAK_SURE ? bytes_per_s : 0;
	if (row->kind < LEAK_KIND_NR)
		kind = 2 * row->sure_bytes_per_s >= row->leak_bytes_per_s ? LEAK_SURE : LEAK_LIKELY;
	if (kind == row->kind)
		return 0;
	row->kind = kind;
	free(row->reason);
	row->reason = leak_reason_text(&leaks->window, &line->verdict, line->is_summed ? line->site_nr : 0);
	return row->reason ? 0 : -ENOMEM;
}

static int mark_caller(const struct answer_rows *rows, const struct leaks *leaks, const struct leak_line *line,
		       const struct leak_caller *caller)
{
	struct frame_view *frame;
	struct top_row *row;
	uint32_t nframe;
	char *identity;

	if (leak_caller_frames(leaks, caller, &frame, &nframe))
		return -ENOMEM;
	identity = top_identity(rows->answer->key_type, frame, nframe, NULL);
	row = identity && *identity ? find_answer_row(rows, identity) : NULL;
	free(frame);
	free(identity);
	if (!identity)
		return -ENOMEM;
	return row ? add_verdict(row, leaks, line, caller->verdict.bytes_per_s) : 0;
}

static int mark_leaking_rows(struct top_answer *answer, const struct leaks *leaks)
{
	struct answer_rows rows;
	int err = index_answer_rows(&rows, answer);

	for (size_t i = 0; i < leaks->line_nr && !err; i++) {
		const struct leak_line *line = &leaks->line[i];

		for (size_t k = 0; k < line->caller_nr && line->verdict.kind <= LEAK_LIKELY && !err; k++)
			err = mark_caller(&rows, leaks, line, &leaks->caller[line->first + k]);
	}
	idmap_release(&rows.ids);
	return err;
}

int top_answer_judge(struct top_answer *answer, const struct leaks *leaks)
{
	enum leak_unjudged unjudged = leaks_find_unjudged(leaks);
	char text[LEAK_UNJUDGED_MAX];
	int err = copy_text(&answer->unjudged, leak_unjudged_text(text, unjudged, leaks));

	answer->is_judged = !leak_unjudged_is_void(unjudged);
	answer->judged_ns = leaks->window.span_ns;
	if (err || !answer->is_judged)
		return err;
	answer->sure_nr = leaks->kind_nr[LEAK_SURE];
	answer->likely_nr = leaks->kind_nr[LEAK_LIKELY];
	return mark_leaking_rows(answer, leaks);
}
