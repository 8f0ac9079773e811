// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/fleet.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/terminal.h"
#include "base/units.h"
#include "render/clean.h"
#include "render/formats.h"
#include "render/json_parts.h"
#include "render/leak_answer.h"
#include "render/readable_name.h"
#include "render/statistic_text.h"

static size_t rows_shown(const struct fleet_answer *answer, size_t nr)
{
	return answer->report->top && answer->report->top < nr ? answer->report->top : nr;
}

/* Writes how many rows were not shown. */
static void put_more(struct emitter *out, const struct fleet_answer *answer, size_t nr)
{
	size_t shown = rows_shown(answer, nr);

	if (shown < nr)
		emit_line(out, "… and %zu more", nr - shown);
}

/* The first members of JSON. */
static void emit_fleet_head(struct emitter *out, const struct fleet_answer *answer, const char *schema)
{
	emit_origin(out, answer->report, schema);
	emit_caveats(out, answer->report);
}

/* ---- groups --------------------------------------------------------------------------------- */

/*
 * "src/cart.c:31 in cart_new": the key as tracemalloc writes it, then more details if the key is a line. NULL: no
 * memory.
 */
static char *group_text(const struct fleet_answer *answer, uint32_t group)
{
	const struct statistic *key = &answer->groups->key[group];
	bool is_line = answer->report->statistics->key_type == KEY_LINENO;
	char *text = group_name(answer->report, key);
	char *extra = is_line ? frame_extra(answer->report->names, key->frame) : strdup("");
	char *whole = NULL;

	if (text && extra && asprintf(&whole, "%s%s%s", text, *extra ? " " : "", extra) < 0)
		whole = NULL;
	free(text);
	free(extra);
	return whole;
}

/* "COLUMNS  GROUP", and the stack below if stacks are the keys. */
static void put_group_row(struct emitter *out, const struct fleet_answer *answer, const char *columns, uint32_t group)
{
	const struct report *report = answer->report;

	emit_place(out, report->width, TONE_PLAIN, columns, group_text(answer, group));
	if (report->statistics->key_type == KEY_TRACEBACK)
		put_group_stack(out, report, NULL, &answer->groups->key[group]);
}

/* ---- hosts ---------------------------------------------------------------------------------- */

/* Returns the columns that a cleaned name takes, 1,000 at most. */
static int name_width(const char *name)
{
	char clean[1001];
	int width = 0;

	for (const char *at = clean_text(clean, sizeof(clean), name); *at; at++)
		width += (*at & 0xc0) != 0x80;
	return width;
}

static int host_width(const struct fleet_answer *answer, size_t nr)
{
	int most = strlen("host");

	for (size_t i = 0; i < nr; i++) {
		int width = name_width(answer->host[answer->hosts->row[i].max_host]);

		most = width > most ? width : most;
	}
	return most;
}

#define FEW_PERCENT 5

/*
 * Whether a few hosts have far more than the others. A group that most hosts lack does not count: every host that has
 * it is an outlier, which only shows that these hosts are of another kind.
 */
static bool stands_out(const struct fleet_answer *answer, const struct host_row *row)
{
	return row->outliers && (row->outliers == 1 ||
				 row->outliers * 100ull <= answer->report->cohort->hosts * FEW_PERCENT);
}

static size_t count_standing_out(const struct fleet_answer *answer)
{
	size_t nr = 0;

	for (size_t i = 0; i < answer->hosts->row_nr; i++)
		nr += stands_out(answer, &answer->hosts->row[i]);
	return nr;
}

static void put_host_head(struct emitter *out, const struct fleet_answer *answer, int width)
{
	size_t nr = count_standing_out(answer);

	put_cohorts(out, answer->report);
	if (nr)
		emit_line(out, "! %zu of %zu groups, of which a few hosts have far more than the others", nr,
			  answer->hosts->row_nr);
	emit_toned_line(out, TONE_HEAD, "  %10s %10s %10s on %-*s %8s %6s", "median", "p95", "most", width, "host",
			"outliers", "hosts");
}

static void put_host_row(struct emitter *out, const struct fleet_answer *answer, const struct host_row *row, int width)
{
	const char *name = answer->host[row->max_host];
	char median[SIZE_TEXT_MAX], p95[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX], outliers[16] = "", *columns;

	if (row->outliers)
		snprintf(outliers, sizeof(outliers), "%" PRIu32, row->outliers);
	if (asprintf(&columns, "%c %10s %10s %10s on %s%*s %8s %6" PRIu32 "  ", stands_out(answer, row) ? '!' : ' ',
		     size_text(median, row->median, false), size_text(p95, row->p95, false),
		     size_text(max, row->max, false), name, width - name_width(name), "", outliers,
		     row->hosts) < 0) {
		emit_err(out, -ENOMEM);
		return;
	}
	put_group_row(out, answer, columns, row->group);
	free(columns);
}

static void emit_host_row(struct emitter *out, const struct fleet_answer *answer, const struct host_row *row)
{
	emit_object(out, NULL);
	emit_group(out, answer->report, &answer->groups->key[row->group]);
	emit_int(out, "median", row->median);
	emit_int(out, "p95", row->p95);
	emit_int(out, "max", row->max);
	emit_int(out, "mad", row->mad);
	emit_int(out, "sum", row->sum);
	emit_text(out, "max_host", answer->host[row->max_host]);
	emit_uint(out, "hosts", row->hosts);
	emit_uint(out, "outliers", row->outliers);
	emit_real(out, "score", row->score);
	emit_end(out);
}

static void emit_hosts(struct emitter *out, const struct fleet_answer *answer)
{
	size_t shown = rows_shown(answer, answer->hosts->row_nr);
	int width = host_width(answer, shown);

	emit_fleet_head(out, answer, "allocsnap.fleet.hosts/2");
	put_host_head(out, answer, width);
	emit_rows(out, "hosts");
	for (size_t i = 0; i < shown && !out->err; i++) {
		emit_host_row(out, answer, &answer->hosts->row[i]);
		if (emits_text(out))
			put_host_row(out, answer, &answer->hosts->row[i], width);
	}
	emit_end(out);
	put_more(out, answer, answer->hosts->row_nr);
}

/* ---- leaks: which are shown ------------------------------------------------------------------ */

/* How many bundles of leaks may be shown, without a limit. */
static size_t fleet_leaks_listed(const struct fleet_answer *answer)
{
	const struct fleet_leaks *leaks = answer->leaks;
	size_t nr = 0;

	while (nr < leaks->bundle_nr && (answer->shows_all || leaks->bundle[nr].kind <= LEAK_GROWS))
		nr++;
	return nr;
}

/* The hints about the leaks that are shown (engine/leak_runtime.h): bits. */
static unsigned int fleet_leaks_hints(const struct fleet_answer *answer)
{
	const struct fleet_leaks *leaks = answer->leaks;
	size_t listed = fleet_leaks_listed(answer), top = answer->report->top;
	unsigned int hints = 0;

	for (size_t i = 0; i < listed && (!top || i < top); i++)
		for (size_t k = 0; k < leaks->bundle[i].nr; k++)
			hints |= leaks->row[leaks->bundle[i].first + k].hints;
	return hints;
}

/* ---- leaks: what could not be judged --------------------------------------------------------- */

#define UNJUDGED_PROCESS_MAX 160

static const struct {
	const char *name, *text;
} unjudged_words[FLEET_UNJUDGED_NR] = {
	[FLEET_JUDGED] = { "judged", "" },
	[FLEET_UNJUDGED_GAPS] = { "gaps", "with gaps in the recording" },
	[FLEET_UNJUDGED_UNTRACED] = { "untraced", "with growth that no traced block explains" },
	[FLEET_UNJUDGED_SAMPLES] = { "samples", "with too few samples" },
	[FLEET_UNJUDGED_SNAPSHOTS] = { "snapshots", "with fewer than four snapshots" },
	[FLEET_UNJUDGED_PAGES] = { "pages", "of which pages show what grew" },
	[FLEET_UNJUDGED_GARBAGE] = { "garbage", "of Go, which has hardly collected garbage" },
	[FLEET_UNJUDGED_DROPPED] = { "dropped", "with too many dropped blocks" },
	[FLEET_UNJUDGED_UNBORN] = { "unborn", "without births" },
	[FLEET_UNJUDGED_DOUBTED] = { "doubted", "whose own sampler is wrong" },
	[FLEET_UNJUDGED_UNCOLLECTED] = { "uncollected", "whose Java has collected its whole heap too seldom" },
	[FLEET_UNJUDGED_UNTIMED] = { "untimed", "that do not say when they were recorded" },
	[FLEET_UNJUDGED_PARTS] = { "parts", "with filtered snapshots only" },
	[FLEET_UNJUDGED_GONE] = { "gone", "without files" },
	[FLEET_UNJUDGED_CHANGED] = { "changed", "with files that are unreadable or not what was indexed" },
};

/* " (shopd.4711 on web-4)"; growth that is untraced has lines of its own, which name a process. */
static const char *unjudged_process(char text[UNJUDGED_PROCESS_MAX], const struct fleet_leaks *leaks, int unjudged)
{
	const struct fleet_snapshot *first = leaks->unjudged[unjudged];

	*text = '\0';
	if (unjudged != FLEET_UNJUDGED_UNTRACED)
		snprintf(text, UNJUDGED_PROCESS_MAX, " (%s%.32s.%" PRId64 " on %.64s)", leaks->unjudged_nr[unjudged] == 1 ? "" : "one is ",
			 first->comm, first->pid, first->host);
	return text;
}

/* "2 of 5 processes: 1 with gaps in the recording, 1 without files"; NULL: all were judged. */
#define FLEET_UNJUDGED_MAX 1024
static const char *fleet_unjudged_text(char text[FLEET_UNJUDGED_MAX], const struct fleet_leaks *leaks)
{
	uint32_t nr = fleet_leaks_unjudged(leaks);
	const char *between = ": ";
	char process[UNJUDGED_PROCESS_MAX];
	size_t len;

	if (!nr)
		return NULL;
	len = snprintf(text, FLEET_UNJUDGED_MAX, "%" PRIu32 " of %" PRIu32 " process%s", nr, leaks->process_nr,
		       leaks->process_nr == 1 ? "" : "es");
	for (int i = FLEET_JUDGED + 1; i < FLEET_UNJUDGED_NR && len < FLEET_UNJUDGED_MAX; i++) {
		if (!leaks->unjudged_nr[i])
			continue;
		len += snprintf(text + len, FLEET_UNJUDGED_MAX - len, "%s%" PRIu32 " %s%s", between, leaks->unjudged_nr[i],
				unjudged_words[i].text, unjudged_process(process, leaks, i));
		between = ", ";
	}
	return text;
}

static void emit_process(struct emitter *out, const struct fleet_snapshot *snapshot)
{
	emit_text(out, "host", snapshot->host);
	emit_int(out, "pid", snapshot->pid);
	emit_text(out, "comm", snapshot->comm);
}

#define UNTRACED_SHOWN 5

/* "    in 2 processes (most in shopd.4711 on web-4) 94 % of RSS's growth, 59.6 MiB, is in no traced block: Go's heap" */
static void emit_untraced(struct emitter *out, const struct fleet_untraced *untraced, bool is_shown)
{
	bool is_one = untraced->process_nr == 1;
	char text[LEAK_UNJUDGED_MAX];

	emit_object(out, NULL);
	emit_uint(out, "processes", untraced->process_nr);
	emit_real(out, "bytes", untraced->growth.bytes);
	emit_real(out, "anonymous", untraced->growth.anonymous_bytes);
	emit_text(out, "reason", untraced_words(&untraced->growth));
	emit_object(out, "most");
	emit_process(out, untraced->most);
	emit_end(out);
	emit_end(out);
	if (is_shown)
		emit_line(out, "    in %" PRIu32 " process%s (%s%s.%" PRId64 " on %s) %s", untraced->process_nr,
			  is_one ? "" : "es", is_one ? "" : "most in ", untraced->most->comm, untraced->most->pid,
			  untraced->most->host, untraced_text(text, &untraced->growth));
}

static void emit_all_untraced(struct emitter *out, const struct fleet_leaks *leaks)
{
	size_t nr = leaks->untraced_nr;

	if (!nr)
		return;
	emit_list(out, "untraced");
	for (size_t i = 0; i < nr; i++)
		emit_untraced(out, &leaks->untraced[i], i < UNTRACED_SHOWN);
	emit_end(out);
	if (nr > UNTRACED_SHOWN)
		emit_line(out, "    … and %zu more kinds of growth that is in no traced block", nr - UNTRACED_SHOWN);
}

static void emit_unjudged(struct emitter *out, const struct fleet_leaks *leaks, const char *unjudged)
{
	if (unjudged)
		emit_toned_line(out, TONE_ALARM, "cannot be judged: %s", unjudged);
	emit_bool(out, "judged", !unjudged);
	emit_text(out, "unjudged", unjudged);
	emit_object(out, "processes");
	for (int i = 0; i < FLEET_UNJUDGED_NR; i++)
		if (leaks->unjudged_nr[i])
			emit_uint(out, unjudged_words[i].name, leaks->unjudged_nr[i]);
	emit_end(out);
	emit_all_untraced(out, leaks);
	if (leaks->gone_nr)
		emit_uint(out, "gone_snapshots", leaks->gone_nr);
}

static void emit_fleet_leaks_head(struct emitter *out, const struct fleet_answer *answer)
{
	const struct fleet_leaks *leaks = answer->leaks;
	char text[FLEET_UNJUDGED_MAX], nothing[LEAKS_NOTHING_MAX];
	const char *unjudged = fleet_unjudged_text(text, leaks);

	emit_fleet_head(out, answer, "allocsnap.fleet.leaks/5");
	emit_unjudged(out, leaks, unjudged);
	put_cohorts(out, answer->report);
	if (out->is_json || leaks->row_nr || !unjudged)
		emit_leak_kinds(out, leaks->kind_nr);
	if (out->is_json)
		emit_leak_hints(out, fleet_leaks_hints(answer));
	if (!leaks->kind_nr[LEAK_SURE] && !leaks->kind_nr[LEAK_LIKELY] && leaks->blind.span_ns && !unjudged)
		emit_line(out, "%s%s", leaks_nothing_text(nothing, &leaks->blind),
			  leaks->process_nr == 1 ? "" : " (of the process that shows least)");
}

/* ---- leaks: a row ---------------------------------------------------------------------------- */

/*
 * "in 2 of 5 processes, most in shopd.4711 on web-4, 160 KiB/min, all the time"; the caller frees it. NULL: no memory.
 */
static char *where_text(const struct fleet_leak *leak, size_t line_nr)
{
	const struct line_verdict *most = &leak->most;
	char rates[LEAK_RATES_MAX], since_room[LEAK_SINCE_MAX], *text = NULL;
	const char *since = leak_since_text(since_room, &most->window, most->verdict.since_ns);
	bool has_rate = leak->kind <= LEAK_GROWS, is_one = line_nr == 1;

	leak_rates_text(rates, most->verdict.bytes_per_s, most->verdict.least_bytes_per_s);
	if (asprintf(&text, "in %" PRIu32 " of %" PRIu32 " process%s%s %s.%" PRId64 " on %s%s%s%s%s", leak->kind_processes,
		     leak->processes, leak->processes == 1 ? "" : "es", leak->kind_processes == 1 ? ":" : ", most in",
		     most->snapshot->comm, most->snapshot->pid, most->snapshot->host, has_rate && is_one ? ", " : "",
		     has_rate && is_one ? rates : "", has_rate ? ", " : "", has_rate ? since : "") < 0)
		return NULL;
	return text;
}

static struct leak_row_line fleet_row_line(const struct fleet_answer *answer, const struct fleet_leak *leak)
{
	const struct line_verdict *most = &leak->most;

	return (struct leak_row_line){
		.own = answer->groups->key[leak->group].frame, .place = most->place.caller_nr ? &most->place : NULL,
		.verdict = &most->verdict, .summed = most->summed, .bytes_per_s = leak->bytes_per_s,
	};
}

static void put_leak(struct emitter *out, const struct fleet_answer *answer, const struct fleet_leak_bundle *bundle)
{
	const struct fleet_leak *first = &answer->leaks->row[bundle->first];
	const struct leak_row_style style = { .names = answer->report->names, .width = answer->report->width };
	struct leak_row_line *line = calloc(bundle->nr, sizeof(*line));
	char extent[64 + LEAK_RATE_MAX], surely[LEAK_RATE_MAX], *where = where_text(first, bundle->nr);
	bool is_part = bundle->sure_bytes_per_s > 0 && bundle->sure_bytes_per_s < bundle->bytes_per_s;
	const struct leak_row row = {
		.kind = bundle->kind, .bytes_per_s = bundle->bytes_per_s, .least_bytes_per_s = bundle->least_bytes_per_s,
		.extent = extent, .where = where, .common = leak_place_frame(&first->most.place, first->most.common),
		.window = &first->most.window, .line = line, .line_nr = bundle->nr,
	};

	snprintf(extent, sizeof(extent), "%s%son %" PRIu32 " of %" PRIu32 " host%s",
		 is_part ? leak_rate_text(surely, bundle->sure_bytes_per_s) : "", is_part ? " of it surely, " : "",
		 first->kind_hosts, first->hosts, first->hosts == 1 ? "" : "s");
	for (size_t i = 0; line && i < bundle->nr; i++)
		line[i] = fleet_row_line(answer, &first[i]);
	if (line && where)
		emit_leak_row(out, &style, &row);
	else
		emit_err(out, -ENOMEM);
	free(where);
	free(line);
}

static void emit_rates(struct emitter *out, double bytes_per_s, double least_bytes_per_s, double sure_bytes_per_s)
{
	emit_real(out, "bytes_per_s", bytes_per_s);
	emit_real(out, "least_bytes_per_s", least_bytes_per_s);
	emit_real(out, "sure_bytes_per_s", sure_bytes_per_s);
}

static void emit_most(struct emitter *out, const struct line_verdict *most)
{
	emit_object(out, "most");
	emit_process(out, most->snapshot);
	emit_uint(out, "observed_ns", most->window.span_ns);
	emit_uint(out, "snapshots", most->window.snapshot_nr);
	emit_judgement(out, &most->window, &most->verdict, most->summed);
	if (most->place.caller_nr)
		emit_leak_place(out, &most->window, &most->place);
	emit_end(out);
}

static void emit_leak_line(struct emitter *out, const struct fleet_answer *answer, const struct fleet_leak *row)
{
	emit_object(out, NULL);
	emit_group(out, answer->report, &answer->groups->key[row->group]);
	emit_text(out, "verdict", leak_kind_name(row->kind));
	emit_rates(out, row->bytes_per_s, row->least_bytes_per_s, row->sure_bytes_per_s);
	emit_uint(out, "hosts", row->hosts);
	emit_uint(out, "processes", row->processes);
	emit_uint(out, "verdict_hosts", row->kind_hosts);
	emit_uint(out, "verdict_processes", row->kind_processes);
	emit_most(out, &row->most);
	emit_end(out);
}

static void emit_leak(struct emitter *out, const struct fleet_answer *answer, const struct fleet_leak_bundle *bundle)
{
	emit_object(out, NULL);
	emit_text(out, "verdict", leak_kind_name(bundle->kind));
	emit_rates(out, bundle->bytes_per_s, bundle->least_bytes_per_s, bundle->sure_bytes_per_s);
	emit_list(out, "lines");
	for (size_t i = 0; i < bundle->nr; i++)
		emit_leak_line(out, answer, &answer->leaks->row[bundle->first + i]);
	emit_end(out);
	emit_end(out);
}

/* Lines that are not listed because they do not leak. */
static size_t count_unlisted(const struct fleet_leaks *leaks, size_t listed)
{
	return listed < leaks->bundle_nr ? leaks->row_nr - leaks->bundle[listed].first : 0;
}

static void emit_fleet_leaks(struct emitter *out, const struct fleet_answer *answer)
{
	size_t listed = fleet_leaks_listed(answer), shown = rows_shown(answer, listed);
	size_t unlisted = count_unlisted(answer->leaks, listed);

	emit_fleet_leaks_head(out, answer);
	emit_rows(out, "leaks");
	for (size_t i = 0; i < shown && !out->err; i++)
		(out->is_json ? emit_leak : put_leak)(out, answer, &answer->leaks->bundle[i]);
	emit_end(out);
	if (out->is_json)
		return;
	emit_leak_hints(out, fleet_leaks_hints(answer));
	put_more(out, answer, listed);
	if (unlisted)
		emit_line(out, "not shown: %zu line%s that do%s not leak; --all shows them with the reason", unlisted,
			  unlisted == 1 ? "" : "s", unlisted == 1 ? "es" : "");
}

/* ---- names ------------------------------------------------------------------------------------ */

/* The callers of lines, too, have names. */
static int add_place_names(struct readable_names *names, const struct fleet_answer *answer)
{
	size_t shown = answer->leaks ? rows_shown(answer, fleet_leaks_listed(answer)) : 0;
	int err = 0;

	for (size_t i = 0; i < shown && !err; i++) {
		const struct fleet_leak_bundle *bundle = &answer->leaks->bundle[i];

		for (size_t k = 0; k < bundle->nr && !err; k++)
			err = leak_place_add_names(names, &answer->leaks->row[bundle->first + k].most.place);
	}
	return err;
}

static int put_answer(FILE *file, const struct fleet_answer *answer, bool is_json,
		      void (*emit)(struct emitter *out, const struct fleet_answer *answer))
{
	struct emitter out = emit_to(file, is_json);
	struct report report = *answer->report;
	struct fleet_answer named = *answer;
	struct readable_names names = {};

	named.report = &report;
	if (!report.full_names && !is_json) {
		report.width = terminal_width(fileno(file));
		report.names = &names;
		emit_err(&out, readable_names_add(&names, answer->groups->key, answer->groups->key_nr,
						  report.statistics->key_type) ?: add_place_names(&names, answer));
	}
	emit(&out, &named);
	readable_names_release(&names);
	return emit_finish(&out);
}

int fleet_put_hosts(FILE *file, const struct fleet_answer *answer, bool is_json)
{
	return put_answer(file, answer, is_json, emit_hosts);
}

int fleet_put_leaks(FILE *file, const struct fleet_answer *answer, bool is_json)
{
	return put_answer(file, answer, is_json, emit_fleet_leaks);
}
