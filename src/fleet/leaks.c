// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/leaks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/parallel.h"
#include "base/reason.h"
#include "fleet/group_sums.h"

/* ---- lines of the catalogue ----------------------------------------------------------------- */

/* A traceback has one origin for each domain; all have the same line. */
static int line_groups_add(struct line_groups *lines, const struct groups *groups, int64_t origin, int64_t traceback)
{
	struct known_row row = { .hash.id = traceback };
	uint32_t first;

	if (known_find(&lines->group, traceback, 0))
		return 0;
	first = groups->first[origin];
	if (first == groups->first[origin + 1])
		return 0;
	row.number = groups->group[first];
	return known_add(&lines->group, &row);
}

int line_groups_make(const struct groups *groups, const int64_t *traceback_id, size_t origin_nr,
		     struct line_groups *ret)
{
	int err = 0;

	for (size_t i = 0; i < origin_nr && !err; i++)
		err = line_groups_add(ret, groups, i, traceback_id[i]);
	return err;
}

void line_groups_release(struct line_groups *lines)
{
	known_release(&lines->group);
}

/* ---- a process ------------------------------------------------------------------------------ */

/* A group in the processes that were judged, and in the one that is added now. */
struct leak_sum {
	struct fleet_leak leak;
	struct line_verdict now;
	double sure_now; /* bytes a second */
	bool is_now;
	unsigned int hints_now;
	uint32_t together_now;
	uint32_t host, kind_host; /* host numbers + 1 of the last process that has the line, or leaks it */
	/* The group that stands for it in most processes, if there is such a group, and how far it is ahead of others */
	uint32_t together, ahead;
};

struct leak_fold {
	const struct fleet_leaks_question *question;
	struct fleet_leaks *leaks;
	struct leak_sum *sum; /* by group */
	uint32_t *used;	      /* the groups that the process has */
	size_t used_nr;
	size_t *first; /* in the cohort, of each process, and the end */
	size_t process_nr;
	struct process_lines made[ORDERED_PLACES];
	int err[ORDERED_PLACES];
};

/* The kind of a sum of LEAK_SURE and LEAK_LIKELY. */
static enum leak_kind kind_of_larger(enum leak_kind kind, double bytes_per_s, double sure_bytes_per_s)
{
	return kind > LEAK_LIKELY ? kind : 2 * sure_bytes_per_s >= bytes_per_s ? LEAK_SURE : LEAK_LIKELY;
}

static double sure_rate(const struct leak_verdict *verdict)
{
	return verdict->kind == LEAK_SURE ? verdict->bytes_per_s : 0;
}

/* The worst verdict of the lines that the group has in this process; equal ones are added up. Takes over the place. */
static void add_process_line(struct leak_fold *fold, struct process_line *line)
{
	struct leak_sum *sum = &fold->sum[line->group];
	struct line_verdict *verdict = &line->verdict;
	int rank = leak_rank(&verdict->verdict), rank_now = leak_rank(&sum->now.verdict);

	if (sum->is_now && rank == rank_now) {
		struct leak_verdict *now = &sum->now.verdict;

		sum->sure_now += sure_rate(&verdict->verdict);
		leak_verdict_add(now, &verdict->verdict);
		now->kind = kind_of_larger(now->kind, now->bytes_per_s, sum->sure_now);
		sum->now.summed += verdict->summed;
		sum->hints_now |= line->hints;
		return;
	}
	if (sum->is_now && rank > rank_now)
		return;
	if (!sum->is_now)
		fold->used[fold->used_nr++] = line->group;
	leak_place_release(&sum->now.place);
	sum->is_now = true;
	sum->now = *verdict;
	sum->sure_now = sure_rate(&verdict->verdict);
	verdict->place = (struct leak_place){};
	sum->hints_now = line->hints;
	sum->together_now = line->together;
}

/* ---- all processes -------------------------------------------------------------------------- */

static void begin_kind(struct leak_sum *sum)
{
	struct fleet_leak *leak = &sum->leak;

	leak->kind = sum->now.verdict.kind;
	leak->rank = leak_rank(&sum->now.verdict);
	leak->kind_hosts = leak->kind_processes = 0;
	leak->bytes_per_s = leak->sure_bytes_per_s = 0;
	leak->late = 0;
	leak->by_pools = false;
	leak->hints = 0;
	sum->kind_host = 0;
	sum->ahead = 0;
}

/* Majority vote: keeps the group that most processes report for this line. */
static void vote_together(struct leak_sum *sum)
{
	if (!sum->ahead)
		sum->together = sum->together_now;
	sum->ahead += sum->together == sum->together_now ? 1 : -1;
}

/* Hosts come one after another. */
static void add_same_kind(struct leak_sum *sum)
{
	const struct leak_verdict *verdict = &sum->now.verdict;
	uint32_t host = sum->now.snapshot->host_nr + 1;
	struct fleet_leak *leak = &sum->leak;

	if (!leak->kind_processes || verdict->kind < leak->most.verdict.kind ||
	    (verdict->kind == leak->most.verdict.kind && verdict->bytes_per_s > leak->most.verdict.bytes_per_s)) {
		leak_place_release(&leak->most.place);
		leak->most = sum->now;
		sum->now.place = (struct leak_place){};
	}
	leak->kind_processes++;
	leak->kind_hosts += sum->kind_host != host;
	sum->kind_host = host;
	leak->bytes_per_s += verdict->bytes_per_s;
	leak->sure_bytes_per_s += sum->sure_now;
	leak->kind = kind_of_larger(leak->kind, leak->bytes_per_s, leak->sure_bytes_per_s);
	leak->late += verdict->late;
	leak->by_pools |= verdict->by_pools;
	leak->least_bytes_per_s = leak->by_pools ? 0 : leak_lower_bound(leak->bytes_per_s, leak->late);
	leak->hints |= sum->hints_now;
	vote_together(sum);
}

static void end_line(struct leak_sum *sum)
{
	uint32_t host = sum->now.snapshot->host_nr + 1;
	struct fleet_leak *leak = &sum->leak;

	sum->is_now = false;
	if (!leak->processes || leak_rank(&sum->now.verdict) < leak->rank)
		begin_kind(sum);
	leak->processes++;
	leak->hosts += sum->host != host;
	sum->host = host;
	if (leak_rank(&sum->now.verdict) == leak->rank)
		add_same_kind(sum);
	leak_place_release(&sum->now.place);
}

/* Takes over the name. snapshot: of the process. */
static int add_untraced(struct fleet_leaks *leaks, struct untraced_growth *growth, const struct fleet_snapshot *snapshot)
{
	struct fleet_untraced *same = leaks->untraced, *end = same + leaks->untraced_nr;

	while (same < end && (same->growth.kind != growth->kind || strcmp(same->growth.name ?: "", growth->name ?: "")))
		same++;
	if (same == end) {
		if (array_push(leaks, untraced, ((struct fleet_untraced){ *growth, 1, snapshot, growth->bytes })))
			return -ENOMEM;
		growth->name = NULL;
		return 0;
	}
	same->growth.bytes += growth->bytes;
	same->growth.anonymous_bytes += growth->anonymous_bytes;
	same->process_nr++;
	if (growth->bytes > same->most_bytes) {
		same->most = snapshot;
		same->most_bytes = growth->bytes;
	}
	return 0;
}

/* Whether a process could show less than another one. */
static bool is_blinder(const struct leak_blind *a, const struct leak_blind *b)
{
	double a_rate = (double)a->sample_bytes * b->span_ns, b_rate = (double)b->sample_bytes * a->span_ns;

	if (!a->span_ns || !b->span_ns)
		return a->span_ns;
	if (!a->unseen_heap != !b->unseen_heap)
		return a->unseen_heap;
	return a_rate != b_rate ? a_rate > b_rate : a->span_ns < b->span_ns;
}

/* Takes over the text. */
static void take_blind(struct fleet_leaks *leaks, struct leak_blind *blind)
{
	struct leak_blind before = leaks->blind;

	if (!is_blinder(blind, &before))
		return;
	leaks->blind = *blind;
	*blind = before;
}

static int by_untraced_bytes(const void *left, const void *right)
{
	const struct fleet_untraced *a = left, *b = right;

	return (a->growth.bytes < b->growth.bytes) - (a->growth.bytes > b->growth.bytes) ?: (int)a->growth.kind - (int)b->growth.kind ?:
	       strcmp(a->growth.name ?: "", b->growth.name ?: "");
}

static int add_judged_process(struct leak_fold *fold, struct process_lines *process, const struct fleet_snapshot *snapshot)
{
	struct fleet_leaks *leaks = fold->leaks;

	for (size_t i = 0; i < process->line_nr; i++)
		add_process_line(fold, &process->line[i]);
	for (size_t i = 0; i < fold->used_nr; i++)
		end_line(&fold->sum[fold->used[i]]);
	fold->used_nr = 0;
	if (process->unjudged == FLEET_UNJUDGED_CHANGED && !leaks->unjudged_nr[FLEET_UNJUDGED_CHANGED])
		leaks->why = process->why;
	if (!leaks->unjudged_nr[process->unjudged]++)
		leaks->unjudged[process->unjudged] = snapshot;
	leaks->gone_nr += process->gone_nr;
	take_blind(leaks, &process->blind);
	leaks->process_nr++;
	return process->unjudged == FLEET_UNJUDGED_UNTRACED ? add_untraced(leaks, &process->untraced, snapshot) : 0;
}

/* A make() of struct ordered_work. */
static void judge_process(void *fold_, size_t at, unsigned int place)
{
	struct leak_fold *fold = fold_;
	const struct fleet_leaks_question *asked = fold->question;
	const struct process_leaks_question question = {
		(const struct fleet_snapshot *const *)&asked->cohort->snapshot[fold->first[at]],
		fold->first[at + 1] - fold->first[at], asked->last_ns, asked->engine,
	};

	fold->err[place] = process_lines_find(&question, asked->lines, &fold->made[place]);
}

/* A take() of struct ordered_work. */
static int take_process(void *fold_, size_t at, unsigned int place)
{
	struct leak_fold *fold = fold_;
	const struct fleet_leaks_question *question = fold->question;
	const struct fleet_snapshot *newest = question->cohort->snapshot[fold->first[at + 1] - 1];
	int err = fold->err[place] ?: add_judged_process(fold, &fold->made[place], newest);

	process_lines_release(&fold->made[place]);
	if (question->progress)
		question->progress(question->progress_what, at + 1, fold->process_nr);
	return err;
}

static int find_processes(struct leak_fold *fold)
{
	const struct cohort *cohort = fold->question->cohort;

	fold->first = calloc(cohort->snapshot_nr + 1, sizeof(*fold->first));
	if (!fold->first)
		return -ENOMEM;
	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		if (!i || cohort->snapshot[i]->process != cohort->snapshot[i - 1]->process)
			fold->first[fold->process_nr++] = i;
	fold->first[fold->process_nr] = cohort->snapshot_nr;
	return 0;
}

static int judge_processes(struct leak_fold *fold)
{
	const struct ordered_work work = {
		.nr = fold->process_nr, .make = judge_process, .take = take_process, .what = fold,
	};

	return ordered_work_run(&work, fold->question->thread_nr ?: processor_nr());
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Whether the group stands for the line in nine of ten processes or more; in four of five it may. */
static bool is_majority(const struct leak_sum *sum)
{
	return 5 * (uint64_t)sum->ahead >= 4 * (uint64_t)sum->leak.kind_processes;
}

/* The group that stands for those that leak together, in about as many processes. */
static uint32_t find_together(const struct leak_fold *fold, uint32_t group)
{
	const struct leak_sum *sum = &fold->sum[group], *head = &fold->sum[sum->together];

	if (!is_majority(sum) || !is_majority(head) || head->together != sum->together ||
	    head->leak.rank != sum->leak.rank ||
	    10 * (uint64_t)sum->leak.kind_processes < 9 * (uint64_t)head->leak.kind_processes)
		return group;
	return sum->together;
}

static int by_bundle_and_rate(const void *left, const void *right, void *groups)
{
	const struct fleet_leak *a = left, *b = right;

	return a->rank - b->rank ?:
	       (a->together_bytes_per_s < b->together_bytes_per_s) -
			       (a->together_bytes_per_s > b->together_bytes_per_s) ?:
	       group_compare_keys(groups, a->together, b->together) ?:
	       (a->bytes_per_s < b->bytes_per_s) - (a->bytes_per_s > b->bytes_per_s) ?:
	       group_compare_keys(groups, a->group, b->group);
}

/* Moves the groups that some process has to rows. */
static void move_rows(struct leak_fold *fold)
{
	struct fleet_leaks *leaks = fold->leaks;
	size_t nr = fold->question->groups->key_nr;

	for (size_t i = 0; i < nr; i++) {
		struct fleet_leak *leak = &fold->sum[i].leak;

		leak->group = i;
		leak->together = leak->processes ? find_together(fold, i) : i;
		fold->sum[leak->together].leak.together_bytes_per_s += leak->bytes_per_s;
	}
	for (size_t i = 0; i < nr; i++) {
		struct fleet_leak *leak = &fold->sum[i].leak;

		if (!leak->processes)
			continue;
		leaks->kind_nr[leak->kind]++;
		leaks->row[leaks->row_nr] = *leak;
		leaks->row[leaks->row_nr++].together_bytes_per_s = fold->sum[leak->together].leak.together_bytes_per_s;
		leak->most.place = (struct leak_place){};
	}
}

static void bundle_rows(struct fleet_leaks *leaks)
{
	for (size_t i = 0; i < leaks->row_nr; i++) {
		const struct fleet_leak *row = &leaks->row[i];
		struct fleet_leak_bundle *bundle;

		if (!i || row->together != row[-1].together)
			leaks->bundle[leaks->bundle_nr++] = (struct fleet_leak_bundle){ .first = i };
		bundle = &leaks->bundle[leaks->bundle_nr - 1];
		bundle->nr++;
		bundle->bytes_per_s += row->bytes_per_s;
		bundle->least_bytes_per_s += row->least_bytes_per_s;
		bundle->sure_bytes_per_s += row->sure_bytes_per_s;
		bundle->kind = kind_of_larger(row->kind, bundle->bytes_per_s, bundle->sure_bytes_per_s);
	}
}

static int make_leak_rows(struct leak_fold *fold)
{
	const struct groups *groups = fold->question->groups;
	struct fleet_leaks *leaks = fold->leaks;
	size_t nr = 0;

	for (size_t i = 0; i < groups->key_nr; i++)
		nr += fold->sum[i].leak.processes > 0;
	leaks->row = calloc(nr ?: 1, sizeof(*leaks->row));
	leaks->bundle = calloc(nr ?: 1, sizeof(*leaks->bundle));
	if (!leaks->row || !leaks->bundle)
		return -ENOMEM;
	move_rows(fold);
	qsort_r(leaks->row, leaks->row_nr, sizeof(*leaks->row), by_bundle_and_rate, (void *)groups);
	bundle_rows(leaks);
	if (leaks->untraced_nr)
		qsort(leaks->untraced, leaks->untraced_nr, sizeof(*leaks->untraced), by_untraced_bytes);
	return 0;
}

static void leak_fold_release(struct leak_fold *fold)
{
	for (size_t i = 0; fold->sum && i < fold->question->groups->key_nr; i++)
		leak_place_release(&fold->sum[i].leak.most.place);
	free(fold->sum);
	free(fold->used);
	free(fold->first);
}

int fleet_find_leaks(const struct fleet_leaks_question *question, struct fleet_leaks *ret)
{
	struct leak_fold fold = { .question = question, .leaks = ret };
	size_t nr = question->groups->key_nr ?: 1;
	int err = -ENOMEM;

	*ret = (struct fleet_leaks){};
	fold.sum = calloc(nr, sizeof(*fold.sum));
	fold.used = calloc(nr, sizeof(*fold.used));
	if (fold.sum && fold.used)
		err = find_processes(&fold) ?: judge_processes(&fold) ?: make_leak_rows(&fold);
	leak_fold_release(&fold);
	if (err)
		fleet_leaks_release(ret);
	return err;
}

void fleet_leaks_release(struct fleet_leaks *leaks)
{
	for (size_t i = 0; i < leaks->row_nr; i++)
		leak_place_release(&leaks->row[i].most.place);
	for (size_t i = 0; i < leaks->untraced_nr; i++)
		free((char *)leaks->untraced[i].growth.name);
	free((char *)leaks->blind.unseen_heap);
	free(leaks->untraced);
	free(leaks->row);
	free(leaks->bundle);
	*leaks = (struct fleet_leaks){};
}

double fleet_leaks_limited_rate(const struct fleet_leaks *leaks)
{
	double sum = 0;

	for (size_t i = 0; i < leaks->row_nr; i++) {
		const struct fleet_leak *leak = &leaks->row[i];

		if (leak->kind <= LEAK_LIKELY)
			sum += leak->by_pools ? leak->bytes_per_s : fmax(leak->sure_bytes_per_s, leak->least_bytes_per_s);
	}
	return sum;
}
