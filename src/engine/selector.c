// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/selector.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "engine/frame.h"
#include "engine/function_name.h"
#include "engine/pattern.h"
#include "engine/trace_cost.h"
#include "snapshot.h"

static bool matches_filter_text(const char *pattern, const char *text)
{
	return !pattern || pattern_matches(pattern, text ?: "<unknown>");
}

static bool matches_filter_function(const char *pattern, const char *function, char *scratch)
{
	if (!pattern || !function)
		return matches_filter_text(pattern, function);
	return function_name_matches(pattern, function, scratch);
}

static bool matches_any_text(const char *pattern, const struct frame_view *frame, char *scratch)
{
	return !pattern || pattern_matches_filename(pattern, frame->filename) ||
	       matches_filter_function(pattern, frame->function, scratch) ||
	       matches_filter_text(pattern, frame->object);
}

/* Ignores the domain. */
static bool filter_matches_frame(const struct filter *filter, const struct frame_view *frame, char *scratch)
{
	if (filter->has_lineno && filter->lineno != frame->lineno)
		return false;
	if (filter->filename_pattern &&
	    !pattern_matches_filename(filter->filename_pattern, frame->filename))
		return false;
	return matches_filter_function(filter->function_pattern, frame->function, scratch) &&
	       matches_filter_text(filter->object_pattern, frame->object) &&
	       matches_any_text(filter->any_pattern, frame, scratch);
}

enum memo {
	NOT_ASKED = 0,
	NO,
	YES,
};

bool selection_asks_blocks(const struct selection *selection)
{
	return selection->min_size || selection->has_max_size || selection->min_age_ns ||
	       selection->max_age_ns || selection->thread || selection->no_gap_blocks;
}

/* ---- filters on tracebacks ---------------------------------------------------------------- */

static bool matches_frame(struct selector *selector, size_t filter, uint32_t frame)
{
	uint8_t *memo = &selector->frame_match[filter * selector->source->tables->frame_nr + frame];
	struct frame_view view;

	if (*memo == NOT_ASKED) {
		view = frame_read(selector->source->snapshot, frame, KEY_TRACEBACK);
		*memo = filter_matches_frame(&selector->selection->filter[filter], &view,
					     selector->source->scratch) ? YES : NO;
	}
	return *memo == YES;
}

static bool matches_frames(struct selector *selector, size_t filter, const struct frame_span *span)
{
	uint32_t nr = selector->selection->filter[filter].all_frames ? span->nframe : 1;

	for (uint32_t i = 0; i < nr; i++)
		if (matches_frame(selector, filter, span->frame[i]))
			return true;
	return false;
}

static size_t domain_class(const struct selector *selector, uint32_t domain)
{
	size_t class = 0;

	while (class < selector->domain_nr && selector->domain[class] != domain)
		class++;
	return class;
}

static bool decide(struct selector *selector, uint32_t traceback, size_t class)
{
	const struct selection *selection = selector->selection;
	struct frame_span span = source_frames(selector->source, traceback);
	bool is_asked = false, is_included = false;

	for (size_t i = 0; i < selection->filter_nr; i++) {
		const struct filter *filter = &selection->filter[i];
		bool matches =
			(!filter->has_domain || domain_class(selector, selector->filter_domain[i]) == class) &&
			matches_frames(selector, i, &span);

		if (matches && !filter->inclusive)
			return false;
		is_asked |= filter->inclusive;
		is_included |= matches;
	}
	return is_included || !is_asked;
}

static bool filters_take(struct selector *selector, uint32_t traceback, uint32_t domain)
{
	size_t class = domain_class(selector, domain);
	uint8_t *memo = &selector->verdict[traceback * (selector->domain_nr + 1) + class];

	if (*memo == NOT_ASKED)
		*memo = decide(selector, traceback, class) ? YES : NO;
	return *memo == YES;
}

bool selector_takes_traceback(struct selector *selector, uint32_t traceback)
{
	return !selector->selection->filter_nr || filters_take(selector, traceback, 0);
}

/* ---- conditions on traces ----------------------------------------------------------------- */

static bool age_fits(const struct selector *selector, uint64_t at)
{
	const struct selection *selection = selector->selection;
	uint64_t age_ns;

	if (!selector->has_age)
		return true;
	age_ns = age_of(selector->source->tables, at, selector->now_ns);
	return age_ns >= selection->min_age_ns &&
	       (!selection->max_age_ns || age_ns <= selection->max_age_ns);
}

/* Whether the block lived through a gap, selected or not. */
static bool selector_is_gap_block(const struct selector *selector, uint64_t at)
{
	const uint64_t *birth_ns = selector->source->tables->trace_birth_ns;

	return birth_ns && birth_ns[at] && birth_ns[at] < selector->source->gap_ns;
}

bool selector_takes(struct selector *selector, uint64_t at)
{
	const struct selection *selection = selector->selection;
	const struct snapshot_tables *tables = selector->source->tables;
	uint64_t size = tables->trace_size[at];

	if (size < selection->min_size || (selection->has_max_size && size > selection->max_size))
		return false;
	if (selection->thread && tables->trace_thread[at] != selection->thread)
		return false;
	if (selection->no_gap_blocks && selector_is_gap_block(selector, at))
		return false;
	return age_fits(selector, at) &&
	       (!selection->filter_nr ||
		filters_take(selector, tables->trace_traceback[at],
			     tables->trace_domain ? tables->trace_domain[at] : 0));
}

/* ---- life --------------------------------------------------------------------------------- */

int check_threads(const struct snapshot_tables *tables, struct reason *why)
{
	if (!tables->trace_nr || tables->trace_thread)
		return 0;
	return reason_set(why, -ENODATA,
			  "the snapshot has no threads: it does not say which of them allocated");
}

static int check_columns(struct selector *selector, struct reason *why)
{
	const struct snapshot_tables *tables = selector->source->tables;
	int err = selector->selection->thread ? check_threads(tables, why) : 0;

	if (err || !tables->trace_nr)
		return err;
	if (selector->selection->no_gap_blocks && selector->source->gap_ns && !tables->trace_birth_ns)
		return reason_set(why, -ENODATA, "the snapshot has gaps, but no birth times: it does "
						 "not say which blocks lived through one");
	return selector->has_age ?
		       age_now(selector->source->snapshot, &selector->now_ns, why) : 0;
}

/* The domain's number is in the metadata key "domain.NUMBER"; an imported snapshot has none. */
static int find_domain_number(const struct selector *selector, const char *name, uint32_t *ret,
			      struct reason *why)
{
	static const char prefix[] = "domain.";
	const struct snapshot *snapshot = selector->source->snapshot;
	const struct snapshot_tables *tables = selector->source->tables;
	uint64_t domain;

	for (uint32_t i = 0; i < tables->metadata_nr; i++) {
		const char *key = snapshot__string(snapshot, tables->metadata[i].key);

		if (strncmp(key, prefix, strlen(prefix)) ||
		    strcmp(snapshot__string(snapshot, tables->metadata[i].value), name) ||
		    parse_count(key + strlen(prefix), 0, UINT32_MAX, &domain))
			continue;
		*ret = domain;
		return 0;
	}
	return reason_set(why, -ENODATA, "no domain of the snapshot is called %.100s", name);
}

static int collect_domain(struct selector *selector, size_t i, struct reason *why)
{
	const struct filter *filter = &selector->selection->filter[i];
	uint32_t domain = filter->domain;
	int err = filter->domain_name ? find_domain_number(selector, filter->domain_name, &domain, why) : 0;

	if (err || !filter->has_domain)
		return err;
	selector->filter_domain[i] = domain;
	if (domain_class(selector, domain) == selector->domain_nr)
		selector->domain[selector->domain_nr++] = domain;
	return 0;
}

static int collect_domains(struct selector *selector, struct reason *why)
{
	size_t nr = selector->selection->filter_nr;
	int err = 0;

	selector->domain = calloc(nr ?: 1, sizeof(*selector->domain));
	selector->filter_domain = calloc(nr ?: 1, sizeof(*selector->filter_domain));
	if (!selector->domain || !selector->filter_domain)
		return -ENOMEM;
	for (size_t i = 0; i < nr && !err; i++)
		err = collect_domain(selector, i, why);
	return err;
}

static int make_memos(struct selector *selector)
{
	const struct snapshot_tables *tables = selector->source->tables;
	size_t class_nr = selector->domain_nr + 1;

	if (!selector->selection->filter_nr)
		return 0;
	selector->frame_match = calloc(selector->selection->filter_nr, tables->frame_nr ?: 1);
	selector->verdict = calloc(class_nr, tables->traceback_nr ?: 1);
	return selector->frame_match && selector->verdict ? 0 : -ENOMEM;
}

int selector_init(struct selector *selector, struct source *source, struct reason *why)
{
	const struct selection *selection = &source->options->select;
	int err;

	*selector = (struct selector){
		.source = source,
		.selection = selection,
		.has_age = selection->min_age_ns || selection->max_age_ns,
	};
	err = check_columns(selector, why) ?: collect_domains(selector, why) ?: make_memos(selector);
	if (err) {
		selector_release(selector);
		return err;
	}
	selector->is_per_trace = selection->min_size || selection->has_max_size ||
				 selection->thread || selector->has_age ||
				 (selection->no_gap_blocks && source->gap_ns) ||
				 (selector->domain_nr && source->tables->trace_domain);
	return 0;
}

void selector_release(struct selector *selector)
{
	free(selector->frame_match);
	free(selector->verdict);
	free(selector->domain);
	free(selector->filter_domain);
	memset(selector, 0, sizeof(*selector));
}

static void choose_each(struct selector *selector, uint8_t *keep)
{
	for (uint64_t i = 0; i < selector->source->tables->trace_nr; i++)
		keep[i] = selector_takes(selector, i);
}

/* Like choose_each(), if only the traceback matters: decides once for each traceback. */
static int choose_by_traceback(struct selector *selector, uint8_t *keep)
{
	const struct snapshot_tables *tables = selector->source->tables;
	uint8_t *takes = malloc(tables->traceback_nr ?: 1);

	if (!takes)
		return -ENOMEM;
	for (uint32_t i = 0; i < tables->traceback_nr; i++)
		takes[i] = selector_takes_traceback(selector, i);
	for (uint64_t i = 0; i < tables->trace_nr; i++)
		keep[i] = takes[tables->trace_traceback[i]];
	free(takes);
	return 0;
}

static int select_traces(struct selector *selector, struct snapshot **ret)
{
	uint8_t *keep = malloc(selector->source->tables->trace_nr ?: 1);
	int err = 0;

	if (!keep)
		return -ENOMEM;
	if (selector->is_per_trace)
		choose_each(selector, keep);
	else
		err = choose_by_traceback(selector, keep);
	if (!err)
		err = snapshot__select(selector->source->snapshot, keep, ret);
	free(keep);
	return err;
}

/* Marks the snapshot as a part, so that a reader does not mistake it for the whole. */
static int note_part(struct snapshot *part, const struct selection *select, struct reason *why)
{
	int err;

	if ((!select->filter_nr && !selection_asks_blocks(select)) ||
	    snapshot__metadata(part, "filters"))
		return 0;
	err = snapshot__set_metadata(part, "filters", "traces that a program chose");
	if (err == -EOVERFLOW)
		reason_set(why, err, "the snapshot has no room for the metadata \"filters\"");
	return err;
}

int snapshot_filter_traces(const struct snapshot *snapshot, const struct engine_options *options,
			   struct snapshot **ret, struct reason *why)
{
	struct selector selector = {};
	struct snapshot *part = NULL;
	struct source source;
	int err;

	err = source_init(&source, snapshot, options);
	if (!err)
		err = selector_init(&selector, &source, why);
	if (!err)
		err = select_traces(&selector, &part);
	if (!err)
		err = note_part(part, &options->select, why);
	if (!err)
		*ret = part;
	else
		snapshot__close(part);
	selector_release(&selector);
	source_release(&source);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

static int add_gap_blocks(struct selector *selector, struct cost *cost, struct sums *sums,
			  struct reason *why)
{
	const struct snapshot_tables *tables = selector->source->tables;
	struct sums group = {};
	int err = 0;

	for (uint64_t i = 0; i < tables->trace_nr && !err; i++) {
		const struct snap_trace trace = snapshot__trace(selector->source->snapshot, i);

		if (!selector_is_gap_block(selector, i) || !selector_takes(selector, i))
			continue;
		if (trace.size > INT64_MAX)
			return cost_too_much(why);
		err = engine_cost_add(cost, &(struct cost){ trace.size, 1 }, why);
		sums_add_block(&group, sums, trace.size, trace.weight, 0);
	}
	return err;
}

int snapshot_gap_blocks(const struct snapshot *snapshot, const struct engine_options *options,
			struct cost *ret, struct reason *why)
{
	struct selector selector = {};
	struct cost cost = {};
	struct sums sums = {};
	struct source source;
	int err;

	err = source_init(&source, snapshot, options);
	if (!err)
		err = selector_init(&selector, &source, why);
	if (!err && source.gap_ns)
		err = add_gap_blocks(&selector, &cost, &sums, why);
	if (!err)
		err = estimate_cost(&cost, &sums, why);
	if (!err)
		*ret = cost;
	selector_release(&selector);
	source_release(&source);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

struct spec {
	struct filter filter;
	unsigned int seen; /* bits by row of spec_keys[] */
	struct reason *why;
};

/* ---- the keys ----------------------------------------------------------------------------- */

static int spec_set_line(struct spec *spec, const char *value)
{
	spec->filter.has_lineno = true;
	if (parse_count(value, 0, UINT64_MAX, &spec->filter.lineno))
		return reason_set(spec->why, -EINVAL,
				  "a line is a whole number below 2^64, not \"%s\"", value);
	return 0;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int set_domain(struct spec *spec, const char *value)
{
	uint64_t domain = 0;

	if (is_letter(*value))
		spec->filter.domain_name = value;
	else if (parse_count(value, 0, UINT32_MAX, &domain))
		return reason_set(spec->why, -EINVAL,
				  "a domain is a name or a whole number below 2^32, not \"%s\"", value);
	spec->filter.has_domain = true;
	spec->filter.domain = domain;
	return 0;
}

static int set_all_frames(struct spec *spec, const char *value)
{
	(void)value;
	spec->filter.all_frames = true;
	return 0;
}

enum spec_key_id {
	SPEC_FILE,
	SPEC_LINE,
};

/* A name that ends with = takes a value. */
static const struct spec_key {
	const char *name;
	int (*set)(struct spec *spec, const char *value); /* NULL: the value is a member of struct filter */
	size_t member;
} spec_keys[] = {
	[SPEC_FILE] = { "file=", .member = offsetof(struct filter, filename_pattern) },
	[SPEC_LINE] = { "line=", spec_set_line },
	{ "domain=", set_domain },
	{ "function=", .member = offsetof(struct filter, function_pattern) },
	{ "object=", .member = offsetof(struct filter, object_pattern) },
	{ "all-frames", set_all_frames },
	{ "all_frames", set_all_frames }, /* tracemalloc's spelling */
};

/* The key at the start of the text, or NULL. */
static const struct spec_key *spec_key_at(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(spec_keys); i++) {
		const struct spec_key *key = &spec_keys[i];
		size_t len = strlen(key->name);

		if (!strncmp(text, key->name, len) &&
		    (key->name[len - 1] == '=' || !text[len] || text[len] == ','))
			return key;
	}
	return NULL;
}

static int set_key(struct spec *spec, const struct spec_key *key, const char *value)
{
	unsigned int bit = 1u << (key - spec_keys);

	if (spec->seen & bit)
		return reason_set(spec->why, -EINVAL, "\"%s\" is there twice", key->name);
	spec->seen |= bit;
	if (key->set)
		return key->set(spec, value);
	*(const char **)((char *)&spec->filter + key->member) = value;
	return 0;
}

/* ---- segments ----------------------------------------------------------------------------- */

/* Ends the segment that begins at text. Returns the text after its comma, or NULL. */
static char *cut_segment(char *text)
{
	for (char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
		if (spec_key_at(comma + 1)) {
			*comma = '\0';
			return comma + 1;
		}
	}
	return NULL;
}

static int check_unknown_key(const char *text, struct reason *why)
{
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz-");

	if (!len || text[len] != '=')
		return 0;
	return reason_set(why, -EINVAL,
			  "unknown key '%.*s%s'; there are file, line, domain, function, object "
			  "and all-frames; a file with '=' in its name is file=NAME",
			  len > 64 ? 64 : (int)len, text, len > 64 ? "…" : "");
}

/* The colon of PATTERN:LINENO, or NULL. */
static char *find_lineno(char *text)
{
	char *colon = strrchr(text, ':');

	return colon && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")] ? colon : NULL;
}

static int spec_set_pattern(struct spec *spec, char *text)
{
	char *colon = find_lineno(text);
	int err = check_unknown_key(text, spec->why);

	if (err)
		return err;
	if (colon == text)
		return reason_set(spec->why, -EINVAL,
				  "\"%.100s\" names no file; '*%.100s' is line %.100s of any file",
				  text, text, text + 1);
	if (!*text)
		return reason_set(spec->why, -EINVAL,
				  "the filter is empty; the file without a name is file=");
	if (colon)
		*colon = '\0';
	err = set_key(spec, &spec_keys[SPEC_FILE], text);
	return !err && colon ? set_key(spec, &spec_keys[SPEC_LINE], colon + 1) : err;
}

static int set_segments(struct spec *spec, char *text)
{
	const struct spec_key *key = spec_key_at(text);
	char *next = cut_segment(text);
	int err = key ? set_key(spec, key, text + strlen(key->name)) : spec_set_pattern(spec, text);

	while (!err && (text = next)) {
		key = spec_key_at(text);
		next = cut_segment(text);
		err = set_key(spec, key, text + strlen(key->name));
	}
	return err;
}

static int check_filter_spec(const struct spec *spec)
{
	const struct filter *filter = &spec->filter;

	if (filter->all_frames && !filter->has_lineno && !filter->filename_pattern &&
	    !filter->function_pattern && !filter->object_pattern)
		return reason_set(spec->why, -EINVAL,
				  "all-frames needs a file, a line, a function or an object beside it");
	return 0;
}

int filter_parse(const char *text, bool inclusive, struct filter *ret, struct reason *why)
{
	struct spec spec = { .filter.inclusive = inclusive, .why = why };
	int err;

	spec.filter.owned = strdup(text);
	if (!spec.filter.owned)
		return reason_set(why, -ENOMEM, "out of memory");
	err = set_segments(&spec, spec.filter.owned) ?: check_filter_spec(&spec);
	if (err) {
		filter_release(&spec.filter);
		return err;
	}
	*ret = spec.filter;
	return 0;
}

void filter_release(struct filter *filter)
{
	free(filter->owned);
	memset(filter, 0, sizeof(*filter));
}
