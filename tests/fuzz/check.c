// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reason.h"

void must_failed(const char *condition, const char *file, int line)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
	abort();
}

/* The length of the UTF-8 sequence at text, 0 if it is none. */
static size_t sequence_len(const unsigned char *text, size_t len)
{
	size_t want = *text < 0x80 ? 1 : *text >= 0xc2 && *text < 0xe0 ? 2 :
		      *text >= 0xe0 && *text < 0xf0 ? 3 : *text >= 0xf0 && *text < 0xf5 ? 4 : 0;

	if (want > len)
		return 0;
	for (size_t i = 1; i < want; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return want;
}

static void check_text(const char *text, size_t len)
{
	const unsigned char *at = (const unsigned char *)text;
	size_t step;

	for (size_t i = 0; i < len; i += step) {
		bool is_c1 = at[i] == 0xc2 && i + 1 < len && at[i + 1] >= 0x80 && at[i + 1] < 0xa0;

		step = sequence_len(at + i, len - i);
		MUST(step);
		MUST(at[i] == '\n' || (at[i] >= 0x20 && at[i] != 0x7f && !is_c1));
	}
}

void check_refused(int err, const struct reason *why, const int *allowed)
{
	while (*allowed && *allowed != err)
		allowed++;
	if (!*allowed)
		fprintf(stderr, "refused with %s: '%s'\n", strerror(-err), why->text);
	MUST(*allowed == err);
	MUST(*why->text);
}

void check_one_line(const struct reason *why)
{
	MUST(!strchr(why->text, '\n'));
	check_text(why->text, strlen(why->text));
}

static bool is_before_or_equal(const struct cost *a, const struct cost *b)
{
	return a->size != b->size ? a->size > b->size : a->count >= b->count;
}

static void check_interval(const struct interval *interval, int64_t number)
{
	MUST(interval->low <= number && number <= interval->high);
}

/* The estimate lies in its interval, if it has one; an exact snapshot has no estimate. */
static void check_estimate(const struct estimate *estimate, const struct cost *cost)
{
	if (!estimate || !estimate->has_intervals)
		return;
	MUST(estimate->size.low >= 0);
	check_interval(&estimate->size, cost->size);
	if (!estimate->has_count)
		return;
	MUST(estimate->count.low >= (int64_t)!!estimate->samples);
	check_interval(&estimate->count, cost->count);
}

static void check_one(const struct statistics *s)
{
	struct cost sum = { 0 };

	for (size_t i = 0; i < s->statistic_nr; i++) {
		const struct statistic *group = &s->statistic[i];

		MUST(group->cost.size >= 0 && group->cost.count > 0);
		MUST(!group->estimate == !s->total_estimate);
		check_estimate(group->estimate, &group->cost);
		MUST(group->key ? !group->nframe : !!group->nframe);
		MUST(!i || is_before_or_equal(&s->statistic[i - 1].cost, &group->cost));
		if (s->cumulative)
			continue; /* a block counts in several groups: no sum */
		sum.size += group->cost.size;
		sum.count += group->cost.count;
	}
	MUST(s->cumulative || s->total_estimate ||
	     (sum.size == s->total.size && sum.count == s->total.count));
	check_estimate(s->total_estimate, &s->total);
}

struct statistics *check_statistics(const struct snapshot *snapshot,
				    const struct engine_options *options)
{
	static const int allowed[] = { -ERANGE, -ENOMEM, -ENODATA, -EINVAL, 0 };
	struct statistics *statistics = NULL;
	struct reason why = { "" };
	int err = snapshot_statistics(snapshot, options, &statistics, &why);

	if (err) {
		check_refused(err, &why, allowed);
		MUST(!statistics);
		return NULL;
	}
	check_one(statistics);
	return statistics;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void check_same_frames(const struct statistic *a, const struct statistic *b)
{
	MUST(a->nframe == b->nframe);
	for (uint32_t i = 0; i < a->nframe; i++) {
		MUST(same_text(a->frame[i].filename, b->frame[i].filename));
		MUST(a->frame[i].lineno == b->frame[i].lineno);
	}
}

static void check_same_estimates(const struct estimate *a, const struct estimate *b)
{
	MUST(!a == !b);
	if (!a)
		return;
	MUST(a->samples == b->samples && a->has_count == b->has_count);
	MUST(a->size.low == b->size.low && a->size.high == b->size.high);
	MUST(a->count.low == b->count.low && a->count.high == b->count.high);
}

void check_same(const struct statistics *a, const struct statistics *b)
{
	MUST(a->statistic_nr == b->statistic_nr);
	check_same_estimates(a->total_estimate, b->total_estimate);
	MUST(a->total.size == b->total.size && a->total.count == b->total.count);
	for (size_t i = 0; i < a->statistic_nr; i++) {
		const struct statistic *x = &a->statistic[i], *y = &b->statistic[i];

		MUST(x->cost.size == y->cost.size && x->cost.count == y->cost.count);
		MUST(same_text(x->key, y->key));
		check_same_estimates(x->estimate, y->estimate);
		check_same_frames(x, y);
	}
}

bool check_same_snapshots(const struct snapshot *a, const struct snapshot *b,
			  const struct engine_options *options)
{
	struct statistics *of_a = check_statistics(a, options);
	struct statistics *of_b = check_statistics(b, options);
	bool both = of_a && of_b;

	MUST(!of_a == !of_b);
	if (both)
		check_same(of_a, of_b);
	statistics_free(of_a);
	statistics_free(of_b);
	return both;
}

void check_round_trip(const struct snapshot *snapshot, const struct engine_options *options)
{
	for (int compress = 0; compress < 2; compress++) {
		struct snapshot_save_options save = { .compress = compress };
		struct reason why = { "" };
		struct snapshot *again;
		void *bytes;
		size_t len;

		MUST(!snapshot__serialize(snapshot, &save, &bytes, &len));
		again = snapshot__open_memory(bytes, len, &why);
		if (!again)
			fprintf(stderr, "written, but not read: %s\n", why.text);
		MUST(again);
		check_same_snapshots(snapshot, again, options);
		snapshot__close(again);
		free(bytes);
	}
}

void check_clean(const char *text, size_t len)
{
	MUST(!len || text[len - 1] == '\n');
	check_text(text, len);
}

struct text {
	char *text;
	size_t len;
};

static struct text exported(const struct snapshot *snapshot)
{
	struct text made = { 0 };
	FILE *out = open_memstream(&made.text, &made.len);

	MUST(!snapshot__export_json(snapshot, out));
	MUST(!fclose(out));
	return made;
}

void check_export(const struct snapshot *snapshot)
{
	struct text first = exported(snapshot), second;
	struct reason why = { "" };
	struct snapshot *again;

	again = snapshot__import_json(first.text, first.len, "again.json", &why);
	if (!again)
		fprintf(stderr, "written, but not read: %s\n", why.text);
	MUST(again);
	second = exported(again);
	MUST(first.len == second.len && !memcmp(first.text, second.text, first.len));
	snapshot__close(again);
	free(first.text);
	free(second.text);
}
