// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/terminal.h"
#include "base/units.h"
#include "engine/estimate.h"
#include "render.h"
#include "render/caveats.h"
#include "render/clean.h"
#include "render/leak_answer.h"
#include "render/facts.h"
#include "render/leak_rows.h"
#include "snapshot.h"

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

static int put_bundle(FILE *out, const struct leak_answer *answer, const struct leak_bundle *bundle)
{
	const struct leaks *leaks = answer->leaks;
	const struct leak_row_style style = {
		.names = answer->names, .width = answer->width, .is_verbose = answer->is_verbose,
		.shows_callers = answer->is_verbose || !answer->top, .more_callers = "; -v shows them",
	};
	struct leak_row row = {
		.kind = leaks->line[bundle->first].verdict.kind, .window = &leaks->window, .line_nr = bundle->nr,
		.bytes_per_s = bundle->bytes_per_s, .least_bytes_per_s = bundle->least_bytes_per_s,
	};
	struct bundle_lines lines;
	char since[LEAK_SINCE_MAX];
	int err = bundle_lines_read(leaks, bundle, &lines);

	row.line = lines.line;
	if (row.kind <= LEAK_GROWS)
		row.extent = leak_since_text(since, &leaks->window, bundle->since_ns);
	if (!err)
		row.common = leak_place_frame(&lines.place[0], bundle->caller);
	err = err ?: leak_row_put(out, &style, &row);
	bundle_lines_release(&lines);
	return err;
}

/* ---- above and below them ------------------------------------------------------------------- */

static const char *what_was_recorded(char text[RATE_TEXT_MAX + 32], const struct snapshot *last)
{
	char rate[RATE_TEXT_MAX];

	if (!snapshot__tables(last)->trace_weight)
		return has_kept_lines(last) ? "every block, those of free lists under the first object's line" : "every block";
	snprintf(text, RATE_TEXT_MAX + 32, "samples, %s%s", *rate_text(rate, last) ? rate : "of changing rates",
		 snapshot_samples_pools(last) ? ": an estimate" : "");
	return text;
}

static int put_leaks_head(FILE *out, const struct leak_answer *answer)
{
	const struct leaks *leaks = answer->leaks;
	uint32_t sure = leaks->kind_nr[LEAK_SURE], likely = leaks->kind_nr[LEAK_LIKELY], nr = leaks->window.snapshot_nr;
	char recorded[RATE_TEXT_MAX + 32];
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

/* Blocks may be in memory that was resident before: no more than all is explained. */
static double share_of_rss(double bytes, double rss)
{
	return bytes > 0 ? 100 * fmin(bytes / rss, 1) : 0;
}

/* "RSS +3460 KiB (+1 MiB of it in files and shared memory)" */
static const char *rss_growth_text(char text[2 * SIZE_TEXT_MAX + 64], const struct leaks *leaks)
{
	char rss[SIZE_TEXT_MAX], files[SIZE_TEXT_MAX];

	size_text(rss, leaks->rss_bytes, true);
	if (fabs(leaks->files_bytes) > fabs(leaks->rss_bytes) / 10)
		snprintf(text, 2 * SIZE_TEXT_MAX + 64, "RSS %s (%s of it in files and shared memory)", rss,
			 size_text(files, leaks->files_bytes, true));
	else
		snprintf(text, 2 * SIZE_TEXT_MAX + 64, "RSS %s", rss);
	return text;
}

/* "traced blocks +3326 KiB" */
static const char *traced_growth_text(char text[2 * SIZE_TEXT_MAX + 64], const struct live_growth *growth)
{
	char blocks[SIZE_TEXT_MAX], mapped[SIZE_TEXT_MAX];

	size_text(blocks, growth->block_bytes, true);
	if (growth->mapped_bytes)
		snprintf(text, 2 * SIZE_TEXT_MAX + 64, "traced blocks %s, mappings (address space) %s", blocks,
			 size_text(mapped, growth->mapped_bytes, true));
	else
		snprintf(text, 2 * SIZE_TEXT_MAX + 64, "traced blocks %s", blocks);
	return text;
}

static int put_explained(FILE *out, const struct leaks *leaks, double leaked)
{
	double growth = leaks->rss_bytes, traced = leaks_traced_growth(leaks);

	return growth <= 0 ? 0 : put_line(out, "    traced blocks explain %.0f %% of RSS's growth, the lines that leak %.0f %%",
					  share_of_rss(traced, growth), share_of_rss(leaked, growth));
}

/* The growth of RSS, and how much of it the traced blocks and the leaks explain. Its last value may be an earlier one. */
static int put_growth(FILE *out, const struct leaks *leaks)
{
	const struct live_growth *all = &leaks->growth, *known = &leaks->rss_growth;
	char rss[2 * SIZE_TEXT_MAX + 64], traced[2 * SIZE_TEXT_MAX + 64], size[SIZE_TEXT_MAX];
	double leaked = leaks_sure_growth(leaks);
	int err;

	if (!all->time_ns)
		return 0;
	if (known->time_ns == all->time_ns)
		return put_line(out, "in %.0f s between first and last snapshot: %s, %s, the lines that leak %s",
				all->time_ns / SECOND, rss_growth_text(rss, leaks), traced_growth_text(traced, all),
				size_text(size, leaked, true)) ?: put_explained(out, leaks, leaked);
	err = put_line(out, "in %.0f s between first and last snapshot: %s, the lines that leak %s", all->time_ns / SECOND,
		       traced_growth_text(traced, all), size_text(size, leaked, true));
	if (err || !known->time_ns)
		return err ?: put_line(out, "    RSS is not known: what grew beside traced blocks was not seen");
	err = put_line(out, "    in %.0f s between the first and the last value of RSS: %s, %s", known->time_ns / SECOND,
		       rss_growth_text(rss, leaks), traced_growth_text(traced, known));
	return err ?: put_explained(out, leaks, leaked);
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

static int put_bundles(FILE *out, const struct leak_answer *answer, size_t shown)
{
	double least = least_shown_rate(answer);
	size_t small = 0;
	int err = 0;

	for (size_t i = 0; i < shown && !err; i++) {
		if (answer->leaks->bundle[i].bytes_per_s < least)
			small++;
		else
			err = put_bundle(out, answer, &answer->leaks->bundle[i]);
	}
	if (err || !small)
		return err;
	return put_line(out, "… and %zu row%s below 1 %% of what leaks; --all shows %s", small, small == 1 ? "" : "s",
			small == 1 ? "it" : "them");
}

static int put_all_leaks(FILE *out, const struct leak_answer *answer)
{
	const struct leaks *leaks = answer->leaks;
	size_t shown = leaks_shown(answer);
	const struct leak_blind blind = leaks_find_blind(leaks);
	char nothing[LEAKS_NOTHING_MAX];
	int err = put_leaks_head(out, answer);

	if (err || answer->is_void)
		return err;
	err = put_growth(out, leaks);
	if (!err && !leaks->kind_nr[LEAK_SURE] && !leaks->kind_nr[LEAK_LIKELY] && !answer->unjudged)
		err = put_line(out, "%s", leaks_nothing_text(nothing, &blind));
	return err ?: put_bundles(out, answer, shown) ?: leak_put_hints(out, leak_answer_hints(answer)) ?: put_rest(out, answer, shown);
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
