// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/leak_answer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/terminal.h"
#include "engine/estimate.h"
#include "render.h"
#include "render/facts.h"
#include "render/clean.h"
#include "render/json_parts.h"
#include "render/statistic_text.h"
#include "snapshot.h"

#define CALLERS_SHOWN 2 /* of the program's own, behind a line */

int leak_place_add_names(struct readable_names *names, const struct leak_place *place)
{
	int err = 0;

	for (size_t i = 0; i < place->caller_nr && !err; i++) {
		const struct statistic site = { .frame = place->caller[i].frame, .nframe = place->caller[i].nframe };

		err = readable_names_add(names, &site, 1, KEY_TRACEBACK);
	}
	return err;
}

/* ---- places --------------------------------------------------------------------------------- */

/* Frees both parts. */
static char *append_part(char *text, char *part)
{
	char *longer = NULL;

	if (text && part && asprintf(&longer, "%s ← %s", text, part) < 0)
		longer = NULL;
	free(text);
	free(part);
	return longer;
}

static char *frame_in_row(const struct leak_row_style *style, const struct frame_view *frame)
{
	size_t tail_at;
	char *text = frame_text(style->names, frame, &tail_at);

	return style->has_no_folders ? frame_without_folder(text, tail_at) : text;
}

/* Makes a text for a row with so many columns before it: without folders of files if it would be too wide. */
static char *make_fitting(const struct leak_row_style *style, size_t before,
			  char *(*make)(const struct leak_row_style *style, const void *what), const void *what)
{
	struct leak_row_style narrow = *style;
	char *text = make(style, what);

	if (!text || !style->width || before + text_columns(text) <= style->width)
		return text;
	free(text);
	narrow.has_no_folders = true;
	return make(&narrow, what);
}

static char *folded_text(uint32_t nr)
{
	char *text;

	return asprintf(&text, "+ %u library frame%s", nr, nr == 1 ? "" : "s") < 0 ? NULL : text;
}

static bool has_own_frame(const struct leak_place_caller *caller, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		if (!caller->frame[i].is_library)
			return true;
	return false;
}

/*
 * Appends " ← CALLER" for the callers of the line: the first ones that are the program's own, and how many of libraries
 * lie between, as in the page. If none is its own, the first ones. Takes over the text.
 */
static char *append_callers(const struct leak_row_style *style, char *text, const struct leak_place_caller *caller,
			    uint32_t nr)
{
	uint32_t callers = caller->nframe ? caller->nframe - 1 : 0, folded = 0, shown = 0;
	bool has_own = has_own_frame(caller, callers);

	for (uint32_t i = callers; i-- > 0 && shown < nr && text;) {
		if (has_own && caller->frame[i].is_library) {
			folded++;
			continue;
		}
		if (folded)
			text = append_part(text, folded_text(folded));
		text = append_part(text, frame_in_row(style, &caller->frame[i]));
		folded = 0;
		shown++;
	}
	return text;
}

/* "copy_name at src/name.c:31"; of a Java object with its class: "Shop.add at Shop.java:31 (byte[])" */
static char *own_text(const struct leak_row_style *style, const struct leak_row_line *line)
{
	const struct leak_place_caller *caller = line->place && line->place->caller_nr ? line->place->caller : NULL;
	char *place, *text;

	if (line->own)
		return frame_in_row(style, line->own);
	if (!caller || !caller->nframe)
		return strdup("<unknown>");
	place = frame_in_row(style, &caller->frame[caller->nframe - 1]);
	if (!caller->class || !place)
		return place;
	if (asprintf(&text, "%s (%s)", place, caller->class->function) < 0)
		text = NULL;
	free(place);
	return text;
}

/* "cart_new at src/cart.c:31 ← serve at src/serve.c:210" */
static char *line_text(const struct leak_row_style *style, const struct leak_row_line *line, uint32_t callers)
{
	char *text = own_text(style, line);

	if (!line->place || !line->place->caller_nr)
		return text;
	return append_callers(style, text, line->place->caller, callers);
}

static char *together_text(const struct leak_row_style *style, const struct leak_row *row)
{
	char *name, *text = NULL;

	if (!row->common)
		return strdup("lines that leak together");
	name = row->common->function ? frame_function(style->names, row->common) : frame_name(NULL, row->common);
	if (!name || asprintf(&text, "lines that leak together, below %s", name) < 0)
		text = NULL;
	free(name);
	return text;
}

/* Whether the line's callers are listed below it. */
static bool lists_callers(const struct leak_row_line *line)
{
	return line->place && line->place->all_nr > 1;
}

static char *row_place(const struct leak_row_style *style, const void *row_)
{
	const struct leak_row *row = row_;

	if (row->line_nr > 1)
		return together_text(style, row);
	return line_text(style, row->line, lists_callers(row->line) ? 0 : CALLERS_SHOWN);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static enum tone verdict_tone(enum leak_kind kind)
{
	return kind == LEAK_SURE ? TONE_ALARM : kind == LEAK_LIKELY ? TONE_GROWTH : TONE_PLAIN;
}

static void emit_row_head(struct emitter *out, const struct leak_row_style *style, const struct leak_row *row)
{
	bool has_rate = row->kind <= LEAK_GROWS;
	char rates[LEAK_RATES_MAX], columns[LEAK_RATES_MAX + 192];

	leak_rates_text(rates, row->bytes_per_s, row->least_bytes_per_s);
	snprintf(columns, sizeof(columns), "%-8s%s%s%s%s  ", leak_kind_word(row->kind), has_rate ? "  " : "",
		 has_rate ? rates : "", row->extent ? "  " : "", row->extent ?: "");
	emit_place(out, style->width, verdict_tone(row->kind), columns,
		   make_fitting(style, strlen(columns), row_place, row));
}

/* ---- what stands below a row ---------------------------------------------------------------- */

static void emit_row_frames(struct emitter *out, const struct leak_row_style *style,
			    const struct leak_place_caller *caller)
{
	for (uint32_t i = caller->nframe; i-- > 0 && emits_text(out);) {
		size_t tail_at;
		char *text = frame_text(style->names, &caller->frame[i], &tail_at);

		emit_err(out, put_row(out->file, style->width, "            ", text, tail_at, ROW_FUNCTION));
	}
}

/* The whole traceback of the first caller, if whole tracebacks are shown. */
static void emit_first_traceback(struct emitter *out, const struct leak_row_style *style,
				 const struct leak_row_line *line)
{
	if (style->is_verbose && line->place && line->place->caller_nr)
		emit_row_frames(out, style, line->place->caller);
}

static char *shown_callers(const struct leak_row_style *style, const void *caller)
{
	return append_callers(style, strdup(""), caller, CALLERS_SHOWN);
}

/* A caller, of several. */
static void emit_caller(struct emitter *out, const struct leak_row_style *style, const struct leak_window *window,
			const struct leak_place_caller *caller)
{
	const struct leak_verdict *verdict = &caller->verdict;
	char rates[LEAK_RATES_MAX], since_text[LEAK_SINCE_MAX], columns[LEAK_RATES_MAX + LEAK_SINCE_MAX + 8], *callers;

	leak_rates_text(rates, verdict->bytes_per_s, verdict->least_bytes_per_s);
	snprintf(columns, sizeof(columns), "    %s  %s ", rates,
		 leak_since_text(since_text, window, verdict->since_ns));
	callers = make_fitting(style, strlen(columns), shown_callers, caller);
	if (callers && !*callers) {
		free(callers);
		callers = strdup(" ← <unknown>");
	}
	emit_row_of(out, style->width, TONE_PLAIN, columns, callers);
	emit_judgement(out, window, verdict, 0);
	if (style->is_verbose)
		emit_row_frames(out, style, caller);
}

static void emit_callers(struct emitter *out, const struct leak_row_style *style, const struct leak_row *row)
{
	const struct leak_place *place = row->line->place;
	size_t shown = place->caller_nr;

	if (!style->shows_callers && shown > LEAK_CALLER_ROWS)
		shown = LEAK_CALLER_ROWS;
	for (size_t i = 0; i < shown; i++)
		emit_caller(out, style, row->window, &place->caller[i]);
	if (shown < place->all_nr)
		emit_line(out, "    … and %zu more callers%s", place->all_nr - shown, style->more_callers ?: "");
}

static char *member_text(const struct leak_row_style *style, const void *line)
{
	return line_text(style, line, CALLERS_SHOWN);
}

/* Lines that leak together, and the reason for the first one. */
static void emit_members(struct emitter *out, const struct leak_row_style *style, const struct leak_row *row)
{
	for (size_t i = 0; i < row->line_nr; i++) {
		const struct leak_row_line *line = &row->line[i];
		char rate[LEAK_RATE_MAX], columns[LEAK_RATE_MAX + 8];

		snprintf(columns, sizeof(columns), "    %s  ", leak_rate_text(rate, line->bytes_per_s));
		emit_row_of(out, style->width, TONE_PLAIN, columns,
			    make_fitting(style, strlen(columns), member_text, line));
		emit_first_traceback(out, style, line);
	}
	emit_judgement(out, row->window, row->line->verdict, 0);
}

void emit_leak_row(struct emitter *out, const struct leak_row_style *style, const struct leak_row *row)
{
	emit_row_head(out, style, row);
	if (row->where)
		emit_line(out, "    %s", row->where);
	if (row->line_nr > 1) {
		emit_members(out, style, row);
	} else if (lists_callers(row->line) && row->kind <= LEAK_GROWS) {
		emit_callers(out, style, row);
	} else {
		emit_judgement(out, row->window, row->line->verdict, row->line->summed);
		emit_first_traceback(out, style, row->line);
	}
}

#define SECOND 1e9
#define SMALL_SHARE 0.01 /* of what leaks: rows below it are counted */

/* ---- a leak --------------------------------------------------------------------------------- */

static struct leak_row_line row_line(const struct leak_line *line, const struct leak_place *place)
{
	return (struct leak_row_line){
		.place = place, .verdict = &line->verdict, .bytes_per_s = line->verdict.bytes_per_s,
		.summed = line->is_summed ? line->site_nr : 0,
	};
}

/* The lines of a bundle, and their places. */
struct bundle_lines {
	struct leak_row_line *line;
	struct leak_place *place;
	size_t nr;
};

static int bundle_lines_read(const struct leaks *leaks, const struct leak_bundle *bundle, struct bundle_lines *ret)
{
	int err = 0;

	*ret = (struct bundle_lines){
		.line = calloc(bundle->nr, sizeof(*ret->line)), .place = calloc(bundle->nr, sizeof(*ret->place)),
	};
	if (!ret->line || !ret->place)
		return -ENOMEM;
	for (; ret->nr < bundle->nr && !err; ret->nr++) {
		const struct leak_line *line = &leaks->line[bundle->first + ret->nr];

		err = leak_place_read(leaks, line, line->caller_nr, &ret->place[ret->nr]);
		ret->line[ret->nr] = row_line(line, &ret->place[ret->nr]);
	}
	return err;
}

static void bundle_lines_release(struct bundle_lines *lines)
{
	for (size_t i = 0; i < lines->nr; i++)
		leak_place_release(&lines->place[i]);
	free(lines->place);
	free(lines->line);
}

void emit_leak_place(struct emitter *out, const struct leak_window *window, const struct leak_place *place)
{
	emit_frames(out, place->caller->frame, place->caller->nframe);
	if (place->caller->class)
		emit_text(out, "class", place->caller->class->function);
	if (place->all_nr < 2)
		return;
	emit_list(out, "callers");
	for (size_t i = 0; i < place->caller_nr; i++) {
		const struct leak_place_caller *caller = &place->caller[i];

		emit_object(out, NULL);
		emit_judgement(out, window, &caller->verdict, 0);
		emit_uint(out, "tracebacks", caller->site_nr);
		emit_uint(out, "domain", caller->domain);
		emit_frames(out, caller->frame, caller->nframe);
		emit_end(out);
	}
	emit_end(out);
}

void emit_leak_bundle(struct emitter *out, const struct leaks *leaks, const struct leak_bundle *bundle)
{
	emit_text(out, "verdict", leak_kind_name(leaks->line[bundle->first].verdict.kind));
	emit_real(out, "bytes_per_s", bundle->bytes_per_s);
	emit_real(out, "least_bytes_per_s", bundle->least_bytes_per_s);
	emit_uint(out, "since_ns", bundle->since_ns);
}

/* "caller" is the index of the frame that all lines share, in the first line's traceback, most recent call first. */
static void emit_bundle_members(struct emitter *out, const struct leaks *leaks, const struct leak_bundle *bundle,
				const struct bundle_lines *lines)
{
	uint32_t nframe = lines->place->caller->nframe;

	emit_object(out, NULL);
	emit_leak_bundle(out, leaks, bundle);
	if (bundle->caller != UINT32_MAX)
		emit_uint(out, "caller", bundle->caller < nframe ? nframe - 1 - bundle->caller : 0);
	emit_list(out, "lines");
	for (size_t i = 0; i < lines->nr; i++) {
		emit_object(out, NULL);
		emit_judgement(out, &leaks->window, lines->line[i].verdict, lines->line[i].summed);
		emit_uint(out, "tracebacks", leaks->line[bundle->first + i].site_nr);
		emit_leak_place(out, &leaks->window, &lines->place[i]);
		emit_end(out);
	}
	emit_end(out);
	emit_end(out);
}

static void emit_bundle_row(struct emitter *out, const struct leak_answer *answer, const struct leak_bundle *bundle,
			    const struct bundle_lines *lines)
{
	const struct leaks *leaks = answer->leaks;
	const struct leak_row_style style = {
		.names = answer->names, .width = answer->width, .is_verbose = answer->is_verbose,
		.shows_callers = answer->is_verbose || !answer->top, .more_callers = "; -v shows them",
	};
	char since[LEAK_SINCE_MAX];
	struct leak_row row = {
		.kind = leaks->line[bundle->first].verdict.kind, .window = &leaks->window, .line_nr = bundle->nr,
		.bytes_per_s = bundle->bytes_per_s, .least_bytes_per_s = bundle->least_bytes_per_s, .line = lines->line,
		.common = leak_place_frame(lines->place, bundle->caller),
	};

	if (row.kind <= LEAK_GROWS)
		row.extent = leak_since_text(since, &leaks->window, bundle->since_ns);
	emit_leak_row(out, &style, &row);
}

static void emit_bundle(struct emitter *out, const struct leak_answer *answer, const struct leak_bundle *bundle)
{
	struct bundle_lines lines;

	emit_err(out, bundle_lines_read(answer->leaks, bundle, &lines));
	if (emits_json(out))
		emit_bundle_members(out, answer->leaks, bundle, &lines);
	if (emits_text(out))
		emit_bundle_row(out, answer, bundle, &lines);
	bundle_lines_release(&lines);
}

/* ---- what stands above and below the rows --------------------------------------------------- */

static const char *what_was_recorded(char text[RATE_TEXT_MAX + 32], const struct snapshot *last)
{
	char rate[RATE_TEXT_MAX];

	if (!snapshot__tables(last)->trace_weight)
		return !has_kept_lines(last) ? "every block" :
					       "every block, reused free-list memory under the first object's line";
	snprintf(text, RATE_TEXT_MAX + 32, "samples, %s%s", *rate_text(rate, last) ? rate : "of changing rates",
		 snapshot_samples_pools(last) ? ": an estimate" : "");
	return text;
}

void emit_leak_kinds(struct emitter *out, const uint32_t kind_nr[LEAK_KIND_NR])
{
	uint32_t sure = kind_nr[LEAK_SURE];

	emit_object(out, "lines");
	for (int i = 0; i < LEAK_KIND_NR; i++)
		emit_uint(out, leak_kind_name(i), kind_nr[i]);
	emit_end(out);
	emit_line(out, "%" PRIu32 " line%s leak%s, %" PRIu32 " may", sure, sure == 1 ? "" : "s", sure == 1 ? "s" : "",
		  kind_nr[LEAK_LIKELY]);
}

static void emit_leaks_head(struct emitter *out, const struct leak_answer *answer)
{
	static const char *const facts[] = { "host", "comm", "exe" };
	const struct leaks *leaks = answer->leaks;
	uint32_t nr = leaks->window.snapshot_nr;
	char recorded[RATE_TEXT_MAX + 32];

	emit_text(out, "schema", "allocsnap.leaks/1");
	for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
		emit_text(out, facts[i], snapshot__metadata(leaks->last, facts[i]));
	if (snapshot__metadata(leaks->last, "pid"))
		emit_uint(out, "pid", snapshot__metadata_u64(leaks->last, "pid", 0));
	if (answer->unjudged)
		emit_toned_line(out, TONE_ALARM, "cannot be judged: %s", answer->unjudged);
	emit_line(out, "%s.%s: observed %.0f s, %" PRIu32 " snapshot%s, %s",
		  snapshot__metadata(leaks->last, "comm") ?: "<unknown>", snapshot__metadata(leaks->last, "pid") ?: "?",
		  leaks->window.span_ns / SECOND, nr, nr == 1 ? "" : "s", what_was_recorded(recorded, leaks->last));
}

/* Blocks may be in memory that was resident before: no more than all is explained. */
static double share_of_rss(double bytes, double rss)
{
	return bytes > 0 ? 100 * fmin(bytes / rss, 1) : 0;
}

/* "RSS +3460 KiB (+1 MiB of it in files and shared memory)" */
#define GROWTH_TEXT_MAX (2 * SIZE_TEXT_MAX + 64)
static const char *rss_growth_text(char text[GROWTH_TEXT_MAX], const struct leaks *leaks)
{
	bool has_files = fabs(leaks->files_bytes) > fabs(leaks->rss_bytes) / 10;
	char rss[SIZE_TEXT_MAX], files[SIZE_TEXT_MAX];

	snprintf(text, GROWTH_TEXT_MAX, "RSS %s%s%s%s", size_text(rss, leaks->rss_bytes, true), has_files ? " (" : "",
		 has_files ? size_text(files, leaks->files_bytes, true) : "",
		 has_files ? " of it in files and shared memory)" : "");
	return text;
}

/* "traced blocks +3326 KiB" */
static const char *traced_growth_text(char text[GROWTH_TEXT_MAX], const struct live_growth *growth)
{
	char blocks[SIZE_TEXT_MAX], mapped[SIZE_TEXT_MAX];

	snprintf(text, GROWTH_TEXT_MAX, "traced blocks %s%s%s", size_text(blocks, growth->block_bytes, true),
		 growth->mapped_bytes ? ", mappings (address space) " : "",
		 growth->mapped_bytes ? size_text(mapped, growth->mapped_bytes, true) : "");
	return text;
}

/* The growth of RSS, and how much of it the traced blocks and the leaks explain. Its last value may be an earlier one. */
static void put_growth(struct emitter *out, const struct leaks *leaks)
{
	const struct live_growth *all = &leaks->growth, *known = &leaks->rss_growth;
	char rss[GROWTH_TEXT_MAX], traced[GROWTH_TEXT_MAX], size[SIZE_TEXT_MAX];
	double leaked = leaks_sure_growth(leaks), growth = leaks->rss_bytes;
	bool is_at_end = known->time_ns == all->time_ns;

	if (!all->time_ns)
		return;
	rss_growth_text(rss, leaks);
	emit_line(out, "in %.0f s between first and last snapshot: %s%s%s, the lines that leak %s",
		  all->time_ns / SECOND, is_at_end ? rss : "", is_at_end ? ", " : "", traced_growth_text(traced, all),
		  size_text(size, leaked, true));
	if (!known->time_ns) {
		emit_line(out, "    RSS is not known: what grew beside traced blocks was not seen");
		return;
	}
	if (!is_at_end)
		emit_line(out, "    in %.0f s between the first and the last value of RSS: %s, %s",
			  known->time_ns / SECOND, rss, traced_growth_text(traced, known));
	if (growth > 0)
		emit_line(out, "    traced blocks explain %.0f %% of RSS's growth, the lines that leak %.0f %%",
			  share_of_rss(leaks_traced_growth(leaks), growth), share_of_rss(leaked, growth));
}

static void emit_growth(struct emitter *out, const struct leaks *leaks)
{
	emit_object(out, "growth");
	emit_uint(out, "time_ns", leaks->growth.time_ns);
	if (leaks->rss_growth.time_ns)
		emit_int(out, "rss", leaks->rss_bytes);
	if (leaks->rss_growth.time_ns && leaks->rss_growth.time_ns != leaks->growth.time_ns)
		emit_uint(out, "rss_time_ns", leaks->rss_growth.time_ns);
	emit_real(out, "traced", leaks->growth.block_bytes);
	if (leaks->growth.mapped_bytes)
		emit_real(out, "mapped", leaks->growth.mapped_bytes);
	emit_real(out, "leaks", leaks_sure_growth(leaks));
	emit_end(out);
}

void emit_leak_facts(struct emitter *out, const struct leak_answer *answer)
{
	const struct leaks *leaks = answer->leaks;

	if (!emits_json(out))
		return;
	emit_bool(out, "judged", !answer->unjudged);
	emit_text(out, "unjudged", answer->unjudged);
	emit_uint(out, "observed_ns", leaks->window.span_ns);
	emit_uint(out, "snapshots", leaks->window.snapshot_nr);
	emit_uint(out, "gaps_ns", leaks->window.gaps_ns);
	if (snapshot__tables(leaks->last)->trace_weight)
		emit_sampling(out, "sampling", leaks->last);
	emit_growth(out, leaks);
	emit_leak_kinds(out, leaks->kind_nr);
	emit_leak_hints(out, leak_answer_hints(answer));
}

/* The lines that are not shown, by why. */
static void put_rest(struct emitter *out, const struct leak_answer *answer, size_t shown)
{
	static const struct {
		enum leak_kind kind;
		const char *of_one, *of_several;
	} rest[] = {
		{ LEAK_SETTLED, "grew and stopped (warm-up, pools)", "grew and stopped (warm-up, pools)" },
		{ LEAK_FREED, "frees what it allocates", "free what they allocate" },
		{ LEAK_YOUNG, "began just now", "began just now" },
		{ LEAK_GAPS, "cannot be judged because of gaps", "cannot be judged because of gaps" },
		{ LEAK_FEW, "has too few blocks", "have too few blocks" },
	};
	const struct leaks *leaks = answer->leaks;
	char text[512];
	size_t len = 0;

	if (shown < leaks->bundle_nr && leaks->line[leaks->bundle[shown].first].verdict.kind <= LEAK_GROWS) {
		emit_line(out, "… and more that leak or may; --top 0 shows all");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(rest) && !answer->shows_all; i++) {
		uint32_t nr = leaks->kind_nr[rest[i].kind];

		if (nr)
			len += snprintf(text + len, sizeof(text) - len, "%s%" PRIu32 " %s", len ? ", " : "", nr,
					nr == 1 ? rest[i].of_one : rest[i].of_several);
	}
	if (len)
		emit_line(out, "not shown: %s; --all shows them with the reason", text);
}

static int add_leak_names(struct readable_names *names, const struct leaks *leaks)
{
	int err = 0;

	for (size_t i = 0; i < leaks->line_nr && !err; i++) {
		struct leak_place place;

		err = leak_place_read(leaks, &leaks->line[i], leaks->line[i].caller_nr, &place);
		err = err ?: leak_place_add_names(names, &place);
		leak_place_release(&place);
	}
	return err;
}

/* The least rate of a row that says something beside the others. */
static double least_shown_rate(const struct leak_answer *answer)
{
	const struct leaks *leaks = answer->leaks;
	double sum = 0;

	for (size_t i = 0; i < leaks->bundle_nr; i++)
		if (leaks->line[leaks->bundle[i].first].verdict.kind <= LEAK_LIKELY)
			sum += leaks->bundle[i].bytes_per_s;
	return answer->top && !answer->shows_all ? sum * SMALL_SHARE : 0;
}

static void emit_bundles(struct emitter *out, const struct leak_answer *answer, size_t shown)
{
	double least = out->is_json ? 0 : least_shown_rate(answer);
	size_t small = 0;

	emit_rows(out, "leaks");
	for (size_t i = 0; i < shown && !out->err; i++) {
		if (answer->leaks->bundle[i].bytes_per_s < least)
			small++;
		else
			emit_bundle(out, answer, &answer->leaks->bundle[i]);
	}
	emit_end(out);
	if (small)
		emit_line(out, "… and %zu row%s below 1 %% of what leaks; --all shows %s", small, small == 1 ? "" : "s",
			  small == 1 ? "it" : "them");
}

/* Above the rows of text. */
static void put_summary(struct emitter *out, const struct leak_answer *answer)
{
	const struct leaks *leaks = answer->leaks;
	const struct leak_blind blind = leaks_find_blind(leaks);
	char nothing[LEAKS_NOTHING_MAX];

	emit_leak_kinds(out, leaks->kind_nr);
	put_growth(out, leaks);
	if (!leaks->kind_nr[LEAK_SURE] && !leaks->kind_nr[LEAK_LIKELY] && !answer->unjudged)
		emit_line(out, "%s", leaks_nothing_text(nothing, &blind));
}

static void emit_leaks(struct emitter *out, const struct leak_answer *answer)
{
	bool has_rows = !out->is_json && !answer->is_void;
	size_t shown = leaks_shown(answer);

	emit_leaks_head(out, answer);
	emit_leak_facts(out, answer);
	if (has_rows)
		put_summary(out, answer);
	emit_bundles(out, answer, shown);
	if (!has_rows)
		return;
	emit_leak_hints(out, leak_answer_hints(answer));
	put_rest(out, answer, shown);
}

int leaks_put(FILE *file, const struct leak_answer *answer, bool is_json)
{
	struct emitter out = emit_to(file, is_json);
	struct readable_names names = {};
	struct leak_answer named = *answer;

	if (!answer->is_verbose && !is_json) {
		named.width = terminal_width(fileno(file));
		named.names = &names;
		emit_err(&out, add_leak_names(&names, answer->leaks));
	}
	emit_leaks(&out, &named);
	readable_names_release(&names);
	return emit_finish(&out);
}
