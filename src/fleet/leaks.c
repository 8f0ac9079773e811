// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/leaks.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/catalogue_private.h"
#include "fleet/content_id.h"
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

/* The dictionary was read in the same transaction, and has checked the origins' numbers. */
int line_groups_read(struct catalogue *catalogue, const struct groups *groups, struct line_groups *ret,
		     struct reason *why)
{
	sqlite3_stmt *row;
	int more, err = sql_prepare(catalogue, "SELECT number, traceback_id FROM origin ORDER BY number", &row, why);

	if (err)
		return err;
	while ((more = sql_step(catalogue, row, why)) > 0 && !err)
		err = line_groups_add(ret, groups, sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1));
	sqlite3_finalize(row);
	if (more < 0)
		return more;
	return err ? reason_set(why, err, "out of memory") : 0;
}

void line_groups_release(struct line_groups *lines)
{
	known_release(&lines->group);
}

/* ---- a process ------------------------------------------------------------------------------ */

/* A group in the processes that were judged, and in the one that is judged now. */
struct leak_sum {
	struct fleet_leak leak;
	struct line_verdict now;
	bool is_now;
	uint32_t host, kind_host; /* host numbers + 1 of the last process that has the line, or leaks it */
};

struct leak_fold {
	const struct fleet_leaks_question *question;
	struct fleet_leaks *leaks;
	struct leak_sum *sum; /* by group */
	uint32_t *used;	      /* the groups that the process has */
	size_t used_nr;
	struct digest digest;
};

/* The worst verdict of the lines that the group has in this process; equal ones are added up. */
static void add_line_verdict(struct leak_fold *fold, uint32_t group, const struct line_verdict *line)
{
	struct leak_sum *sum = &fold->sum[group];

	if (!sum->is_now) {
		sum->is_now = true;
		fold->used[fold->used_nr++] = group;
		sum->now = *line;
	} else if (line->verdict.kind < sum->now.verdict.kind) {
		sum->now = *line;
	} else if (line->verdict.kind == sum->now.verdict.kind) {
		leak_verdict_add(&sum->now.verdict, &line->verdict);
		sum->now.summed += line->summed;
	}
}

/* Sets *ret to NULL if the catalogue does not have the line: the file is no longer what was indexed. */
static int find_line_group(struct leak_fold *fold, const struct leaks *leaks, const struct leak_line *line,
			   const struct known_row **ret)
{
	struct hash_id id;
	int err = digest_traceback_id(&fold->digest, leak_line_caller(leaks, line)->traceback, &id);

	*ret = err ? NULL : known_find(&fold->question->lines->group, id.id, 0);
	return err;
}

static void forget_process(struct leak_fold *fold)
{
	for (size_t i = 0; i < fold->used_nr; i++)
		fold->sum[fold->used[i]].is_now = false;
	fold->used_nr = 0;
}

static int add_process_lines(struct leak_fold *fold, const struct fleet_snapshot *snapshot,
			     struct process_leaks *process)
{
	const struct leaks *leaks = process->leaks;
	int err = digest_begin(&fold->digest, leaks->last);

	for (size_t i = 0; i < leaks->line_nr && !err; i++) {
		const struct leak_line *line = &leaks->line[i];
		const struct line_verdict verdict = {
			snapshot, line->verdict, leaks->window, line->is_summed ? line->site_nr : 0,
		};
		const struct known_row *group;

		err = find_line_group(fold, leaks, line, &group);
		if (!err && group) {
			add_line_verdict(fold, group->number, &verdict);
			continue;
		}
		process->unjudged = FLEET_UNJUDGED_CHANGED;
		reason_set(&process->why, 0, "%s: other names than when it was indexed", snapshot->path);
		forget_process(fold);
		break;
	}
	return err;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void begin_kind(struct leak_sum *sum)
{
	struct fleet_leak *leak = &sum->leak;

	leak->kind = sum->now.verdict.kind;
	leak->kind_hosts = leak->kind_processes = 0;
	leak->bytes_per_s = 0;
	leak->late = 0;
	sum->kind_host = 0;
}

/* Hosts come one after another. */
static void end_line(struct leak_sum *sum)
{
	const struct leak_verdict *verdict = &sum->now.verdict;
	uint32_t host = sum->now.snapshot->host_nr + 1;
	struct fleet_leak *leak = &sum->leak;

	sum->is_now = false;
	if (!leak->processes || verdict->kind < leak->kind)
		begin_kind(sum);
	leak->processes++;
	leak->hosts += sum->host != host;
	sum->host = host;
	if (verdict->kind > leak->kind)
		return;
	if (!leak->kind_processes || verdict->bytes_per_s > leak->most.verdict.bytes_per_s)
		leak->most = sum->now;
	leak->kind_processes++;
	leak->kind_hosts += sum->kind_host != host;
	sum->kind_host = host;
	leak->bytes_per_s += verdict->bytes_per_s;
	leak->late += verdict->late;
	leak->least_bytes_per_s = leak_lower_bound(leak->bytes_per_s, leak->late);
}

static int judge_process(struct leak_fold *fold, const struct fleet_snapshot *const *snapshot, size_t nr)
{
	const struct process_leaks_question question = {
		snapshot, nr, fold->question->last_ns, fold->question->engine,
	};
	struct fleet_leaks *leaks = fold->leaks;
	struct process_leaks process;
	int err = process_leaks_find(&question, &process);

	if (!err && process.leaks)
		err = add_process_lines(fold, snapshot[nr - 1], &process);
	for (size_t i = 0; i < fold->used_nr; i++)
		end_line(&fold->sum[fold->used[i]]);
	fold->used_nr = 0;
	if (process.unjudged == FLEET_UNJUDGED_CHANGED && !leaks->unjudged_nr[FLEET_UNJUDGED_CHANGED])
		leaks->why = process.why;
	leaks->unjudged_nr[process.unjudged]++;
	leaks->gone_nr += process.gone_nr;
	leaks->process_nr++;
	process_leaks_release(&process);
	return err;
}

static int judge_processes(struct leak_fold *fold)
{
	const struct cohort *cohort = fold->question->cohort;
	size_t end, nr = cohort->snapshot_nr;
	int err = 0;

	for (size_t i = 0; i < nr && !err; i = end) {
		for (end = i; end < nr && cohort->snapshot[end]->process == cohort->snapshot[i]->process;)
			end++;
		err = judge_process(fold, (const struct fleet_snapshot *const *)&cohort->snapshot[i], end - i);
	}
	return err;
}

static int by_worst_and_rate(const void *left, const void *right, void *groups)
{
	const struct fleet_leak *a = left, *b = right;

	return (int)a->kind - (int)b->kind ?: (a->bytes_per_s < b->bytes_per_s) - (a->bytes_per_s > b->bytes_per_s) ?:
	       group_compare_keys(groups, a->group, b->group);
}

static int make_leak_rows(struct leak_fold *fold)
{
	const struct groups *groups = fold->question->groups;
	struct fleet_leaks *leaks = fold->leaks;

	for (size_t i = 0; i < groups->key_nr; i++)
		leaks->row_nr += fold->sum[i].leak.processes > 0;
	leaks->row = calloc(leaks->row_nr ?: 1, sizeof(*leaks->row));
	if (!leaks->row)
		return -ENOMEM;
	leaks->row_nr = 0;
	for (size_t i = 0; i < groups->key_nr; i++) {
		if (!fold->sum[i].leak.processes)
			continue;
		leaks->kind_nr[fold->sum[i].leak.kind]++;
		leaks->row[leaks->row_nr] = fold->sum[i].leak;
		leaks->row[leaks->row_nr++].group = i;
	}
	qsort_r(leaks->row, leaks->row_nr, sizeof(*leaks->row), by_worst_and_rate, (void *)groups);
	return 0;
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
		err = judge_processes(&fold) ?: make_leak_rows(&fold);
	digest_release(&fold.digest);
	free(fold.sum);
	free(fold.used);
	if (err)
		fleet_leaks_release(ret);
	return err;
}

void fleet_leaks_release(struct fleet_leaks *leaks)
{
	free(leaks->row);
	*leaks = (struct fleet_leaks){};
}

double fleet_leaks_sure_rate(const struct fleet_leaks *leaks)
{
	double sum = 0;

	for (size_t i = 0; i < leaks->row_nr; i++)
		if (leaks->row[i].kind == LEAK_SURE)
			sum += leaks->row[i].bytes_per_s;
	return sum;
}
