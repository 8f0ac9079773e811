// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/terminal.h"
#include "base/units.h"
#include "render/clean.h"
#include "render/cohorts.h"
#include "render/statistic_text.h"
#include "render/fit_row.h"
#include "render/fleet.h"
#include "render/formats.h"
#include "render/leak_answer.h"
#include "render/leak_rows.h"
#include "render/readable_name.h"

static size_t rows_shown(const struct fleet_answer *answer, size_t nr)
{
	return answer->report->top && answer->report->top < nr ? answer->report->top : nr;
}

/* Writes how many rows were not shown. */
static int put_more(FILE *out, const struct fleet_answer *answer, size_t nr)
{
	size_t shown = rows_shown(answer, nr);

	return shown < nr ? put_line(out, "… and %zu more", nr - shown) : 0;
}

/* ---- groups --------------------------------------------------------------------------------- */

static char *key_text(const struct fleet_answer *answer, const struct statistic *key)
{
	const char *name = statistic_domain_name(answer->report, key);
	char *text;

	if (!name)
		return statistic_name(answer->report->names, key, answer->report->statistics->key_type);
	return asprintf(&text, "%s (%s)", key->key, name) < 0 ? NULL : text;
}

/*
 * "src/cart.c:31 in cart_new": the key as tracemalloc writes it, then more details if the key is a line. NULL: no
 * memory.
 */
static char *group_text(const struct fleet_answer *answer, uint32_t group)
{
	const struct statistic *key = &answer->groups->key[group];
	bool is_line = answer->report->statistics->key_type == KEY_LINENO;
	char *text = key_text(answer, key);
	char *extra = is_line ? frame_extra(answer->report->names, key->frame) : strdup("");
	char *whole = NULL;

	if (text && extra && asprintf(&whole, "%s%s%s", text, *extra ? " " : "", extra) < 0)
		whole = NULL;
	free(text);
	free(extra);
	return whole;
}

/* Returns the columns that a cleaned name takes. */
static int name_width(const char *name)
{
	char *clean = clean_copy(name);
	int width = 0;

	for (const char *at = clean; at && *at; at++)
		width += (*at & 0xc0) != 0x80;
	free(clean);
	return width;
}

#define GROUP_LEAST 32 /* columns that the name of a group gets behind others */

/* Whether a narrow terminal would show nothing of the group's name behind these columns. */
static bool is_too_narrow(const struct fleet_answer *answer, const char *columns)
{
	return answer->report->width && name_width(columns) + GROUP_LEAST > (int)answer->report->width;
}

/* Takes over the text. */
static int put_below_columns(FILE *out, const struct fleet_answer *answer, const char *columns, char *text)
{
	size_t len = strlen(columns);
	int err;

	while (len && columns[len - 1] == ' ')
		len--;
	err = put_line(out, "%.*s", (int)len, columns);
	if (!err)
		return put_row(out, answer->report->width, "    ", text, strlen(text), ROW_FUNCTION);
	free(text);
	return err;
}

/* Takes over the text; NULL: no memory. */
static int put_behind_columns(FILE *out, const struct fleet_answer *answer, const char *columns, char *text)
{
	char *row = NULL;

	if (text && asprintf(&row, "%s%s", columns, text) < 0)
		row = NULL;
	free(text);
	return put_row(out, answer->report->width, "", row, row ? strlen(row) : 0, ROW_FUNCTION);
}

/* Writes "COLUMNS  GROUP", and the stack below if stacks are the keys. */
static int put_group_row(FILE *out, const struct fleet_answer *answer, const char *columns, uint32_t group)
{
	bool is_stack = answer->report->statistics->key_type == KEY_TRACEBACK;
	char *text = group_text(answer, group);
	int err;

	if (text && is_too_narrow(answer, columns))
		err = put_below_columns(out, answer, columns, text);
	else
		err = put_behind_columns(out, answer, columns, text);
	if (!err && is_stack)
		err = text_put_stack(out, answer->report, NULL, &answer->groups->key[group]);
	return err;
}

/* ---- hosts ---------------------------------------------------------------------------------- */

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

static int put_host_head(FILE *out, const struct fleet_answer *answer, int width)
{
	size_t nr = count_standing_out(answer);
	int err = put_cohorts(out, answer->report);

	if (!err && nr)
		err = put_line(out, "! %zu of %zu groups, of which a few hosts have far more than the others", nr,
			       answer->hosts->row_nr);
	return err ?: put_toned_line(out, TONE_HEAD, "  %10s %10s %10s on %-*s %8s %6s", "median", "p95", "most", width, "host",
			       "outliers", "hosts");
}

static int put_host_row(FILE *out, const struct fleet_answer *answer, const struct host_row *row, int width)
{
	const char *name = answer->host[row->max_host];
	char median[SIZE_TEXT_MAX], p95[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX], outliers[16] = "";
	char *columns;
	int err = -ENOMEM;

	if (row->outliers)
		snprintf(outliers, sizeof(outliers), "%" PRIu32, row->outliers);
	if (asprintf(&columns, "%c %10s %10s %10s on %s%*s %8s %6" PRIu32 "  ", stands_out(answer, row) ? '!' : ' ',
		     size_text(median, row->median, false), size_text(p95, row->p95, false),
		     size_text(max, row->max, false), name, width - name_width(name), "", outliers,
		     row->hosts) < 0)
		return err;
	err = put_group_row(out, answer, columns, row->group);
	free(columns);
	return err;
}

static int hosts_text(FILE *out, const struct fleet_answer *answer)
{
	size_t shown = rows_shown(answer, answer->hosts->row_nr);
	int width = host_width(answer, shown);
	int err = put_host_head(out, answer, width);

	for (size_t i = 0; i < shown && !err; i++)
		err = put_host_row(out, answer, &answer->hosts->row[i], width);
	return err ?: put_more(out, answer, answer->hosts->row_nr);
}

/* ---- leaks ---------------------------------------------------------------------------------- */

#define UNTRACED_SHOWN 5

/* "    in 2 processes (most in shopd.4711 on web-4) 94 % of RSS's growth, 59.6 MiB, is in no traced block: Go's heap" */
static int put_growth_untraced(FILE *out, const struct fleet_leaks *leaks)
{
	size_t nr = leaks->untraced_nr, shown = nr < UNTRACED_SHOWN ? nr : UNTRACED_SHOWN;
	char text[LEAK_UNJUDGED_MAX];
	int err = 0;

	for (size_t i = 0; i < shown && !err; i++) {
		const struct fleet_untraced *untraced = &leaks->untraced[i];
		bool is_one = untraced->process_nr == 1;

		err = put_line(out, "    in %" PRIu32 " process%s (%s%s.%" PRId64 " on %s) %s", untraced->process_nr,
			       is_one ? "" : "es", is_one ? "" : "most in ", untraced->most->comm, untraced->most->pid,
			       untraced->most->host, untraced_text(text, &untraced->growth));
	}
	return err || shown == nr ? err : put_line(out, "    … and %zu more kinds of growth that is in no traced block", nr - shown);
}

static int put_fleet_leaks_head(FILE *out, const struct fleet_answer *answer)
{
	const struct fleet_leaks *leaks = answer->leaks;
	uint32_t sure = leaks->kind_nr[LEAK_SURE], likely = leaks->kind_nr[LEAK_LIKELY];
	char text[FLEET_UNJUDGED_MAX], nothing[LEAKS_NOTHING_MAX];
	const char *unjudged = fleet_unjudged_text(text, leaks);
	int err = unjudged ? put_toned_line(out, TONE_ALARM, "cannot be judged: %s", unjudged) : 0;

	err = err ?: put_growth_untraced(out, leaks) ?: put_cohorts(out, answer->report);
	if (!err && !leaks->row_nr && unjudged)
		return 0;
	err = err ?: put_line(out, "%" PRIu32 " line%s leak%s, %" PRIu32 " may", sure, sure == 1 ? "" : "s",
			      sure == 1 ? "s" : "", likely);
	if (err || sure || likely || !leaks->blind.span_ns || unjudged)
		return err;
	return put_line(out, "%s%s", leaks_nothing_text(nothing, &leaks->blind),
			leaks->process_nr == 1 ? "" : " (of the process that shows least)");
}

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

static int put_leak_lines(FILE *out, const struct fleet_answer *answer, const struct fleet_leak_bundle *bundle,
			  struct leak_row_line *line)
{
	const struct fleet_leak *first = &answer->leaks->row[bundle->first];
	const struct leak_row_style style = { .names = answer->report->names, .width = answer->report->width };
	char extent[64 + LEAK_RATE_MAX], surely[LEAK_RATE_MAX], *where = where_text(first, bundle->nr);
	bool is_part = bundle->sure_bytes_per_s > 0 && bundle->sure_bytes_per_s < bundle->bytes_per_s;
	const struct leak_row row = {
		.kind = bundle->kind, .bytes_per_s = bundle->bytes_per_s, .least_bytes_per_s = bundle->least_bytes_per_s,
		.extent = extent, .where = where, .common = leak_place_frame(&first->most.place, first->most.common),
		.window = &first->most.window, .line = line, .line_nr = bundle->nr,
	};
	int err = where ? 0 : -ENOMEM;

	snprintf(extent, sizeof(extent), "%s%son %" PRIu32 " of %" PRIu32 " host%s",
		 is_part ? leak_rate_text(surely, bundle->sure_bytes_per_s) : "", is_part ? " of it surely, " : "",
		 first->kind_hosts, first->hosts, first->hosts == 1 ? "" : "s");
	for (size_t i = 0; i < bundle->nr; i++)
		line[i] = fleet_row_line(answer, &first[i]);
	err = err ?: leak_row_put(out, &style, &row);
	free(where);
	return err;
}

static int put_leak(FILE *out, const struct fleet_answer *answer, const struct fleet_leak_bundle *bundle)
{
	struct leak_row_line *line = calloc(bundle->nr, sizeof(*line));
	int err = line ? put_leak_lines(out, answer, bundle, line) : -ENOMEM;

	free(line);
	return err;
}

/* Lines that are not listed because they do not leak. */
static size_t count_unlisted(const struct fleet_leaks *leaks, size_t listed)
{
	return listed < leaks->bundle_nr ? leaks->row_nr - leaks->bundle[listed].first : 0;
}

static int leaks_text(FILE *out, const struct fleet_answer *answer)
{
	const struct fleet_leaks *leaks = answer->leaks;
	size_t listed = fleet_leaks_listed(answer), shown = rows_shown(answer, listed);
	size_t unlisted = count_unlisted(leaks, listed);
	int err = put_fleet_leaks_head(out, answer);

	for (size_t i = 0; i < shown && !err; i++)
		err = put_leak(out, answer, &leaks->bundle[i]);
	err = err ?: leak_put_hints(out, fleet_leaks_hints(answer));
	err = err ?: put_more(out, answer, listed);
	if (!err && unlisted)
		err = put_line(out, "not shown: %zu line%s that do%s not leak; --all shows them with the reason",
			       unlisted, unlisted == 1 ? "" : "s", unlisted == 1 ? "es" : "");
	return err;
}

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

/* ---- names ------------------------------------------------------------------------------------ */

static int put_with_names(FILE *out, const struct fleet_answer *answer,
			  int (*put)(FILE *out, const struct fleet_answer *answer))
{
	enum key_type key_type = answer->report->statistics->key_type;
	struct report report = *answer->report;
	struct fleet_answer named = *answer;
	struct readable_names names = {};
	int err = 0;

	named.report = &report;
	if (!report.full_names) {
		report.width = terminal_width(fileno(out));
		report.names = &names;
		err = readable_names_add(&names, answer->groups->key, answer->groups->key_nr, key_type);
		err = err ?: add_place_names(&names, answer);
	}
	err = err ?: put(out, &named);
	readable_names_release(&names);
	return err;
}

static int put_hosts(FILE *out, const struct fleet_answer *answer)
{
	return put_with_names(out, answer, hosts_text);
}

static int put_leaks(FILE *out, const struct fleet_answer *answer)
{
	return put_with_names(out, answer, leaks_text);
}

const struct fleet_renderer fleet_text = { put_hosts, put_leaks };
