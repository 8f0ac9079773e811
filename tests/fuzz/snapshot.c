// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any bytes as a snapshot: refused in one line, or everything that can be asked of it holds. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "check.h"
#include "mutate.h"
#include "reason.h"
#include "render.h"

/* Chosen by the input itself, so that it always goes the same way. */
struct choice {
	struct engine_options options;
	struct filter filter;
	const struct renderer *renderer;
};

static void choose(struct choice *choice, const uint8_t *data, size_t size)
{
	static const char *const patterns[] = { "*", "*.c", "?*a*", "[!a-z]*", "<unknown>", "" };
	static const char *const frames[] = { "f*", "a.c", "*/src", "*<*", "*(*" };
	uint64_t random = size;
	size_t renderer_nr;
	const struct renderer *renderer = renderer_table(&renderer_nr);

	for (size_t i = 0; i < size; i++)
		random = (random ^ data[i]) * 0x100000001b3;
	random ^= random >> 29;
	*choice = (struct choice){
		.options = {
			.key_type = random % KEY_TYPE_NR,
			.keep_wrappers = random >> 8 & 1,
			.tracemalloc = (random >> 46 & 3) == 0,
			.skip = &frames[(random >> 48) % ARRAY_SIZE(frames)],
			.skip_nr = random >> 52 & 1,
			.project = &frames[(random >> 53) % ARRAY_SIZE(frames)],
			.project_nr = random >> 57 & 1,
			.sort = (random >> 10) % SORT_ORDER_NR,
			.cumulative = random >> 12 & 1,
			.select.no_gap_blocks = random >> 13 & 1,
		},
		.filter = {
			.inclusive = random >> 16 & 1,
			.all_frames = random >> 17 & 1,
			.has_domain = (random >> 18 & 3) == 0,
			.has_lineno = (random >> 20 & 3) == 0,
			.lineno = random >> 22 & 1,
			.filename_pattern = random >> 44 & 3 ? patterns[(random >> 24) % 6] : NULL,
			.function_pattern = random >> 28 & 1 ? patterns[(random >> 29) % 6] : NULL,
			.object_pattern = random >> 32 & 1 ? patterns[(random >> 33) % 6] : NULL,
		},
		.renderer = &renderer[(random >> 40) % renderer_nr],
	};
	if (!key_type_has_cumulative(choice->options.key_type))
		choice->options.cumulative = false;
}

static void every_key_type(const struct snapshot *snapshot)
{
	for (int i = 0; i < 2 * KEY_TYPE_NR; i++) {
		struct engine_options options = { .key_type = i / 2, .cumulative = i % 2 };
		struct statistics *statistics = check_statistics(snapshot, &options);

		MUST(!statistics || !options.cumulative ||
		     key_type_has_cumulative(options.key_type));
		MUST(!statistics || statistics->total_estimate ||
		     (uint64_t)statistics->total.count == snapshot__tables(snapshot)->trace_nr);
		statistics_free(statistics);
	}
}

static void check_output(const struct renderer *renderer, const char *text, size_t len)
{
	json_t *json;

	if (renderer->is_binary) {
		MUST(len > 2 && !memcmp(text, "\x1f\x8b", 2)); /* gzip */
		return;
	}
	check_clean(text, len);
	if (strcmp(renderer->name, "json"))
		return;
	json = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	MUST(json);
	json_decref(json);
}

static void rendered(const struct renderer *renderer, const struct report *report)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	MUST(!renderer->report(out, report));
	MUST(!fclose(out));
	check_output(renderer, text, len);
	free(text);
}

/* A frame and the facts about its function stay together. */
static void check_first_lines(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);

	for (uint32_t i = 0; t->frame_first_line && i < t->frame_nr; i++)
		MUST(!t->frame_first_line[i] || t->frame[i].lineno);
}

static void shown(const struct renderer *renderer, const struct snapshot *snapshot)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	MUST(!(renderer->show ? renderer->show(out, snapshot) : render_traced(out, snapshot, "")));
	MUST(!fclose(out));
	if (renderer->show)
		check_output(renderer, text, len);
	else
		check_clean(text, len);
	free(text);
	free(losses_line(snapshot));
}

static void reports(const struct snapshot *snapshot, const struct choice *choice)
{
	struct statistics *statistics = check_statistics(snapshot, &choice->options);
	struct report report = {
		.statistics = statistics, .snapshot = &snapshot, .snapshot_nr = 1, .top = 30,
	};

	if (statistics)
		rendered(choice->renderer, &report);
	statistics_free(statistics);
	shown(choice->renderer, snapshot);
	check_first_lines(snapshot);
}

static void check_no_difference(const struct statistic *group)
{
	const struct estimate *estimate = group->estimate;

	MUST(!group->diff.size && !group->diff.count);
	MUST(!estimate || (estimate->size_diff.low <= 0 && estimate->size_diff.high >= 0));
	MUST(!estimate || (estimate->count_diff.low <= 0 && estimate->count_diff.high >= 0));
}

static void itself_compared(const struct snapshot *snapshot, const struct choice *choice)
{
	static const int allowed[] = { -ERANGE, -ENOMEM, -ENODATA, 0 };
	const struct snapshot *both[] = { snapshot, snapshot };
	struct report report = { .snapshot = both, .snapshot_nr = 2, .top = 30 };
	struct statistics *diff = NULL;
	struct reason why = { "" };
	int err = snapshot_compare(snapshot, snapshot, &choice->options, &diff, &why);

	if (err) {
		check_refused(err, &why, allowed);
		return;
	}
	MUST(diff->is_diff && !diff->total_diff.size && !diff->total_diff.count);
	for (size_t i = 0; i < diff->statistic_nr; i++)
		check_no_difference(&diff->statistic[i]);
	report.statistics = diff;
	rendered(choice->renderer, &report);
	statistics_free(diff);
}

/* The statistics of what a filter keeps are the filtered statistics. */
static void filtered(const struct snapshot *snapshot, const struct choice *choice)
{
	static const int allowed[] = { -ENOMEM, -ENODATA, 0 };
	struct engine_options selecting = choice->options;
	struct snapshot *kept = NULL;
	struct statistics *before, *after;
	struct reason why = { "" };
	int err;

	selecting.select.filter = &choice->filter;
	selecting.select.filter_nr = 1;
	err = snapshot_filter_traces(snapshot, &selecting, &kept, &why);
	if (err) {
		check_refused(err, &why, allowed);
		return;
	}
	before = check_statistics(snapshot, &selecting);
	after = check_statistics(kept, &choice->options);
	if (before && after)
		check_same(before, after);
	statistics_free(before);
	statistics_free(after);
	MUST(!snapshot__set_metadata(kept, "filters", choice->filter.filename_pattern ?: "none"));
	check_round_trip(kept, &choice->options);
	snapshot__close(kept);
}

/* CPython's sizes are signed: larger sizes are written but not read. */
static bool fits_json(const struct snapshot *snapshot)
{
	uint64_t sizes = 0;

	for (uint64_t i = 0; i < snapshot__tables(snapshot)->trace_nr; i++)
		sizes |= snapshot__trace(snapshot, i).size;
	return sizes <= INT64_MAX;
}

static void tracebacks(const struct snapshot *snapshot)
{
	struct traceback_format_options options = { .has_limit = true, .limit = -3 };
	uint32_t nr = snapshot__tables(snapshot)->traceback_nr, nframe, total_nframe;
	struct frame_view *frame;
	char *text;

	for (uint32_t i = 0; i < nr && i < 8; i++) {
		MUST(!traceback_read(snapshot, i, &frame, &nframe, &total_nframe));
		options.limit += 2;
		text = traceback_format(frame, nframe, &options);
		MUST(text);
		free(text);
		free(frame);
	}
}

static void exercise(const struct snapshot *snapshot, const struct choice *choice)
{
	struct snapshot *copy;

	every_key_type(snapshot);
	reports(snapshot, choice);
	itself_compared(snapshot, choice);
	filtered(snapshot, choice);
	tracebacks(snapshot);
	if (fits_json(snapshot))
		check_export(snapshot);
	check_round_trip(snapshot, &choice->options);
	MUST(!snapshot__select(snapshot, NULL, &copy));
	check_same_snapshots(snapshot, copy, &choice->options);
	check_round_trip(copy, &choice->options);
	snapshot__close(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int allowed[] = { -EBADMSG, -ENOTSUP, -ENOMEM, 0 };
	void *bytes = malloc(size ?: 1); /* aligned, and exactly as long: ASan sees its end */
	struct reason why = { "" };
	struct choice choice;
	struct snapshot *snapshot;

	memcpy(bytes, data, size);
	snapshot = snapshot__open_memory(bytes, size, &why);
	if (snapshot) {
		choose(&choice, data, size);
		exercise(snapshot, &choice);
	} else {
		check_refused(-errno, &why, allowed);
		check_one_line(&why);
	}
	snapshot__close(snapshot);
	free(bytes);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	return mutate_snapshot(data, size, max_size, seed);
}
