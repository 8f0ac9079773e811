// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/terminal.h"
#include "base/units.h"
#include "render.h"
#include "render/clean.h"
#include "render/leak_answer.h"
#include "render/facts.h"
#include "render/fit_row.h"
#include "render/statistic_text.h"
#include "snapshot.h"

#define SECOND 1e9
#define CALLERS_SHOWN 2 /* behind a line */
#define CALLER_ROWS 5	/* below a line */

/* ---- a line --------------------------------------------------------------------------------- */

static char *join_frames(const struct readable_names *names, const struct frame_view *frame, uint32_t own,
			 uint32_t callers)
{
	size_t tail_at;
	char *text = frame_text(names, &frame[own], &tail_at);

	for (uint32_t i = 1; i <= callers && i <= own && text; i++) {
		char *caller = frame_text(names, &frame[own - i], &tail_at), *longer = NULL;

		if (!caller || asprintf(&longer, "%s ← %s", text, caller) < 0)
			longer = NULL;
		free(caller);
		free(text);
		text = longer;
	}
	return text;
}

/* "cart_new at src/cart.c:31 ← serve at src/serve.c:210"; the caller frees it. `from` counts from the own line. */
static char *place_of_caller(const struct leak_answer *answer, const struct leak_caller *caller, uint32_t from,
			     uint32_t callers)
{
	struct frame_view *frame;
	uint32_t nframe;
	char *text;

	if (leak_caller_frames(answer->leaks, caller, &frame, &nframe))
		return NULL;
	text = from < nframe ? join_frames(answer->names, frame, nframe - 1 - from, callers) : strdup("<unknown>");
	free(frame);
	return text;
}

/* With several callers, they are listed below the line. */
static char *place_of_line(const struct leak_answer *answer, const struct leak_line *line)
{
	uint32_t callers = line->caller_nr > 1 ? 0 : CALLERS_SHOWN;

	return place_of_caller(answer, leak_line_caller(answer->leaks, line), 0, callers);
}

static char *place_of_bundle(const struct leak_answer *answer, const struct leak_bundle *bundle)
{
	const struct leaks *leaks = answer->leaks;
	const struct leak_line *line = &leaks->line[bundle->first];
	const struct frame_view *common;
	struct frame_view *frame;
	uint32_t nframe;
	char *text;

	if (bundle->nr == 1)
		return place_of_line(answer, line);
	if (bundle->caller == UINT32_MAX)
		return strdup("nothing that they have in common");
	if (leak_caller_frames(leaks, leak_line_caller(leaks, line), &frame, &nframe))
		return NULL;
	common = &frame[bundle->caller < nframe ? bundle->caller : nframe - 1];
	text = common->function ? frame_function(answer->names, common) : frame_name(NULL, common);
	free(frame);
	return text;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static enum tone verdict_tone(enum leak_kind kind)
{
	return kind == LEAK_SURE ? TONE_ALARM : kind == LEAK_LIKELY ? TONE_GROWTH : TONE_PLAIN;
}

/* Writes a row that ends with a place. A narrow terminal cuts its end. */
__attribute__((format(printf, 4, 5)))
static int put_place(FILE *out, const struct leak_answer *answer, enum tone tone, const char *fmt, ...)
{
	va_list args;
	char *row;

	va_start(args, fmt);
	if (vasprintf(&row, fmt, args) < 0)
		row = NULL;
	va_end(args);
	return put_toned_row(out, answer->width, row, row ? strlen(row) : 0, ROW_FUNCTION, tone);
}

static int put_frames(FILE *out, const struct leak_answer *answer, const struct leak_caller *caller)
{
	struct frame_view *frame;
	uint32_t nframe;
	int err = leak_caller_frames(answer->leaks, caller, &frame, &nframe);

	if (err)
		return err;
	for (uint32_t i = nframe; i-- > 0 && !err;) {
		size_t tail_at;
		char *text = frame_text(answer->names, &frame[i], &tail_at);

		err = put_row(out, answer->width, "            ", text, tail_at, ROW_FUNCTION);
	}
	free(frame);
	return err;
}

static int put_reason(FILE *out, const struct leak_answer *answer, const struct leak_verdict *verdict,
		      uint32_t summed)
{
	return leak_put_reason(out, &answer->leaks->window, verdict, summed);
}

/* A caller, of several. */
static int put_caller(FILE *out, const struct leak_answer *answer, const struct leak_caller *caller)
{
	const struct leaks *leaks = answer->leaks;
	char *place = place_of_caller(answer, caller, 1, CALLERS_SHOWN - 1);
	char rate[LEAK_RATES_MAX], since[LEAK_SINCE_MAX];
	int err = -ENOMEM;

	leak_rates_text(rate, caller->verdict.bytes_per_s, caller->verdict.least_bytes_per_s);
	if (place)
		err = put_place(out, answer, TONE_PLAIN, "    %s  %s  ← %s", rate,
				leak_since_text(since, &leaks->window, caller->verdict.since_ns), place);
	free(place);
	err = err ?: put_reason(out, answer, &caller->verdict, 0);
	return err || !answer->is_verbose ? err : put_frames(out, answer, caller);
}

static int put_callers(FILE *out, const struct leak_answer *answer, const struct leak_line *line)
{
	size_t shown = line->caller_nr;
	int err = 0;

	if (!answer->is_verbose && answer->top && shown > CALLER_ROWS)
		shown = CALLER_ROWS;
	for (size_t i = 0; i < shown && !err; i++)
		err = put_caller(out, answer, &answer->leaks->caller[line->first + i]);
	if (!err && shown < line->caller_nr)
		err = put_line(out, "    … and %zu more callers; -v shows them", line->caller_nr - shown);
	return err;
}

/* The reasons below a row: of each caller, or of all together. */
static int put_below(FILE *out, const struct leak_answer *answer, const struct leak_line *line)
{
	int err;

	if (line->caller_nr > 1 && line->verdict.kind <= LEAK_GROWS)
		return put_callers(out, answer, line);
	err = put_reason(out, answer, &line->verdict, line->is_summed ? line->site_nr : 0);
	return err || !answer->is_verbose ? err : put_frames(out, answer, leak_line_caller(answer->leaks, line));
}

/* A line of several that leak together. */
static int put_member(FILE *out, const struct leak_answer *answer, const struct leak_line *line)
{
	const struct leak_caller *caller = leak_line_caller(answer->leaks, line);
	char *place = place_of_caller(answer, caller, 0, CALLERS_SHOWN), rate[LEAK_RATE_MAX];
	int err = -ENOMEM;

	if (place)
		err = put_place(out, answer, TONE_PLAIN, "    %s  %s", leak_rate_text(rate, line->verdict.bytes_per_s), place);

	free(place);
	return err || !answer->is_verbose ? err : put_frames(out, answer, caller);
}

static int put_members(FILE *out, const struct leak_answer *answer, const struct leak_bundle *bundle)
{
	const struct leak_line *line = &answer->leaks->line[bundle->first];
	int err = 0;

	for (size_t i = 0; i < bundle->nr && !err; i++)
		err = put_member(out, answer, line + i);
	return err ?: put_reason(out, answer, &line->verdict, 0);
}

static int put_bundle(FILE *out, const struct leak_answer *answer, const struct leak_bundle *bundle)
{
	const struct leaks *leaks = answer->leaks;
	const struct leak_line *line = &leaks->line[bundle->first];
	char rate[LEAK_RATES_MAX], since[LEAK_SINCE_MAX];
	char *place = place_of_bundle(answer, bundle);
	int err = -ENOMEM;

	leak_rates_text(rate, bundle->bytes_per_s, bundle->least_bytes_per_s);
	if (place && line->verdict.kind <= LEAK_GROWS)
		err = put_place(out, answer, verdict_tone(line->verdict.kind), "%-8s  %s  %s  %s%s",
				leak_kind_word(line->verdict.kind), rate,
				leak_since_text(since, &leaks->window, bundle->since_ns),
				bundle->nr > 1 ? "lines that leak together, below " : "", place);
	else if (place)
		err = put_place(out, answer, verdict_tone(line->verdict.kind), "%-8s  %s",
				leak_kind_word(line->verdict.kind), place);
	free(place);
	if (err)
		return err;
	return bundle->nr > 1 ? put_members(out, answer, bundle) : put_below(out, answer, line);
}

/* ---- above and below them ------------------------------------------------------------------- */

static const char *what_was_recorded(char text[RATE_TEXT_MAX + 16], const struct snapshot *last)
{
	char rate[RATE_TEXT_MAX];

	if (!snapshot__tables(last)->trace_weight)
		return "every block";
	snprintf(text, RATE_TEXT_MAX + 16, "samples, %s", *rate_text(rate, last) ? rate : "of changing rates");
	return text;
}

static int put_leaks_head(FILE *out, const struct leak_answer *answer)
{
	const struct leaks *leaks = answer->leaks;
	uint32_t sure = leaks->kind_nr[LEAK_SURE], likely = leaks->kind_nr[LEAK_LIKELY], nr = leaks->window.snapshot_nr;
	char recorded[RATE_TEXT_MAX + 16];
	int err = answer->unjudged ? put_toned_line(out, TONE_ALARM, "cannot be judged: %s", answer->unjudged) : 0;

	err = err ?: put_line(out, "%s.%s: observed %.0f s, %" PRIu32 " snapshot%s, %s",
			      snapshot__metadata(leaks->last, "comm") ?: "<unknown>",
			      snapshot__metadata(leaks->last, "pid") ?: "?", leaks->window.span_ns / SECOND, nr,
			      nr == 1 ? "" : "s", what_was_recorded(recorded, leaks->last));
	if (err || answer->is_void)
		return err;
	return put_line(out, "%" PRIu32 " line%s leak%s, %" PRIu32 " may", sure, sure == 1 ? "" : "s",
			sure == 1 ? "s" : "", likely);
}

/* RSS's growth, and how much of it the traced blocks and the leaks explain. */
static int put_rss(FILE *out, const struct leaks *leaks)
{
	double growth = (double)leaks->rss_last - leaks->rss_first, time = leaks->growth_ns / SECOND;
	double leaked = leaks_sure_rate(leaks) * time;
	char rss[SIZE_TEXT_MAX], traced[SIZE_TEXT_MAX], size[SIZE_TEXT_MAX];
	int err;

	if (!leaks->rss_first || !leaks->rss_last || !leaks->growth_ns)
		return 0;
	err = put_line(out, "in %.0f s between first and last snapshot: RSS %s, traced blocks %s, the lines that leak %s",
		       time, size_text(rss, growth, true), size_text(traced, leaks->growth_bytes, true),
		       size_text(size, leaked, true));
	if (err || growth <= 0)
		return err;
	return put_line(out, "    traced blocks explain %.0f %% of RSS's growth, the lines that leak %.0f %%",
			100 * leaks->growth_bytes / growth, 100 * leaked / growth);
}

static int put_nothing(FILE *out, const struct leaks *leaks)
{
	char size[SIZE_TEXT_MAX], rate[LEAK_RATE_MAX];
	uint64_t sample = snapshot__metadata_u64(leaks->last, "sample_bytes", 0);
	double seconds = leaks->window.span_ns / SECOND;

	if (!snapshot__tables(leaks->last)->trace_weight || !sample)
		return put_line(out, "no line leaks that can be seen in %.0f s: leaks of fewer than %d blocks in that time "
				"cannot", seconds, LEAK_SURVIVORS_SURE);
	return put_line(out, "no line leaks that can be seen in %.0f s with samples of one in %s: leaks of less than %s "
			"cannot", seconds, size_text(size, sample, false),
			leak_rate_text(rate, LEAK_SURVIVORS_LEAST * (double)sample / seconds));
}

/* The lines that are not shown, by why. */
static int put_rest(FILE *out, const struct leak_answer *answer, size_t shown)
{
	static const struct {
		enum leak_kind kind;
		const char *text;
	} rest[] = {
		{ LEAK_SETTLED, "grew and stopped (warm-up, pools)" }, { LEAK_FREED, "free what they allocate" },
		{ LEAK_YOUNG, "began just now" }, { LEAK_GAPS, "cannot be told because of gaps" },
		{ LEAK_FEW, "have too few blocks" },
	};
	const struct leaks *leaks = answer->leaks;
	char text[512];
	size_t len = 0;

	if (shown < leaks->bundle_nr && leaks->line[leaks->bundle[shown].first].verdict.kind <= LEAK_GROWS)
		return put_line(out, "… and more that leak or may; --top 0 shows all");
	for (size_t i = 0; i < sizeof(rest) / sizeof(*rest) && !answer->shows_all; i++)
		if (leaks->kind_nr[rest[i].kind])
			len += snprintf(text + len, sizeof(text) - len, "%s%" PRIu32 " %s", len ? ", " : "",
					leaks->kind_nr[rest[i].kind], rest[i].text);
	return len ? put_line(out, "not shown: %s; --all shows them with the reason", text) : 0;
}

static int put_hints(FILE *out, const struct leak_answer *answer)
{
	const char *hint[LEAK_HINTS_MAX];
	size_t nr = leak_hints(answer, hint);
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++)
		err = put_line(out, "hint: %s", hint[i]);
	return err;
}

static int add_leak_names(struct readable_names *names, const struct leaks *leaks)
{
	int err = 0;

	for (size_t i = 0; i < leaks->caller_nr && !err; i++) {
		struct frame_view *frame;
		struct statistic site = {};

		err = leak_caller_frames(leaks, &leaks->caller[i], &frame, &site.nframe);
		if (err)
			return err;
		site.frame = frame;
		err = readable_names_add(names, &site, 1, KEY_TRACEBACK);
		free(frame);
	}
	return err;
}

static int put_all_leaks(FILE *out, const struct leak_answer *answer)
{
	const struct leaks *leaks = answer->leaks;
	size_t shown = leaks_shown(answer);
	int err = put_leaks_head(out, answer);

	if (err || answer->is_void)
		return err;
	err = put_rss(out, leaks);
	if (!err && !leaks->kind_nr[LEAK_SURE] && !leaks->kind_nr[LEAK_LIKELY] && !answer->unjudged)
		err = put_nothing(out, leaks);
	for (size_t i = 0; i < shown && !err; i++)
		err = put_bundle(out, answer, &leaks->bundle[i]);
	return err ?: put_hints(out, answer) ?: put_rest(out, answer, shown);
}

int leaks_put_text(FILE *out, const struct leak_answer *answer)
{
	struct readable_names names = {};
	struct leak_answer named = *answer;
	int err = 0;

	if (!answer->is_verbose) {
		named.width = terminal_width(fileno(out));
		named.names = &names;
		err = add_leak_names(&names, answer->leaks);
	}
	err = err ?: put_all_leaks(out, &named);
	readable_names_release(&names);
	return err;
}
