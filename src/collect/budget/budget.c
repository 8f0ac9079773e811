// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/budget.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"

/* ---- the files -------------------------------------------------------------------------------- */

/* False: the file is not there, or has something else. */
static bool read_quota_file(const char *folder, const char *name, const char *form, uint64_t *first, uint64_t *second)
{
	char path[PATH_MAX];
	FILE *file;
	int nr;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return false;
	file = fopen(path, "re");
	nr = file ? fscanf(file, form, first, second) : 0;
	if (file)
		fclose(file);
	return nr == (second ? 2 : 1);
}

static uint64_t quota_of_period(uint64_t quota_us, uint64_t period_us)
{
	unsigned __int128 ns = (unsigned __int128)quota_us * SECOND_NS / (period_us ?: 1);

	return !period_us || ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

/* "max 100000" is no quota. */
static uint64_t quota_of_unified(const char *folder)
{
	uint64_t quota_us, period_us;

	return read_quota_file(folder, "cpu.max", "%" SCNu64 " %" SCNu64, &quota_us, &period_us) ?
		       quota_of_period(quota_us, period_us) : UINT64_MAX;
}

/* -1 is no quota. */
static uint64_t quota_of_first_version(const char *folder)
{
	uint64_t quota_us, period_us;

	return read_quota_file(folder, "cpu.cfs_quota_us", "%" SCNu64, &quota_us, NULL) && quota_us < INT64_MAX &&
	       read_quota_file(folder, "cpu.cfs_period_us", "%" SCNu64, &period_us, NULL) ?
		       quota_of_period(quota_us, period_us) : UINT64_MAX;
}

/* ---- hierarchies ------------------------------------------------------------------------------ */

static bool has_controller(const char *list, const char *name)
{
	size_t bytes = strlen(name);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, bytes) && (!at[bytes] || at[bytes] == ','))
			return true;
	}
	return false;
}

static bool is_unified(const char *type, const char *options)
{
	(void)options;
	return !strcmp(type, "cgroup2");
}

static bool is_first_version(const char *type, const char *options)
{
	return !strcmp(type, "cgroup") && has_controller(options, "cpu");
}

static const struct {
	bool (*is_it)(const char *type, const char *options);
	const char *controllers; /* in /proc/PID/cgroup */
	uint64_t (*quota_ns)(const char *folder);
} kinds[QUOTA_HIERARCHIES] = {
	{ is_unified, "", quota_of_unified },
	{ is_first_version, "cpu", quota_of_first_version },
};

/* "36 35 0:30 ROOT POINT options - TYPE SOURCE OPTIONS": the names have no space, but \040. Those with one do not count. */
static int note_mount(struct cpu_quotas *quotas, char *line)
{
	char *right = strstr(line, " - "), *root, *point, *type, *options;

	if (!right)
		return 0;
	*right = '\0';
	for (int i = 0; i < 3; i++)
		strsep(&line, " ");
	root = strsep(&line, " ");
	point = strsep(&line, " ");
	right += 3;
	type = strsep(&right, " ");
	strsep(&right, " ");
	options = right ?: "";
	for (int i = 0; i < QUOTA_HIERARCHIES && root && point; i++) {
		struct quota_hierarchy *hierarchy = &quotas->hierarchy[i];

		bool is_better = !hierarchy->point || (*hierarchy->root && !strcmp(root, "/"));

		if (!is_better || !kinds[i].is_it(type, options))
			continue;
		free(hierarchy->point);
		free(hierarchy->root);
		hierarchy->point = strdup(point);
		hierarchy->root = strdup(strcmp(root, "/") ? root : "");
		if (!hierarchy->point || !hierarchy->root)
			return -ENOMEM;
	}
	return 0;
}

int cpu_quotas_find(struct cpu_quotas *quotas, char *mountinfo)
{
	char *line;
	int err = 0;

	*quotas = (struct cpu_quotas){};
	while (!err && (line = strsep(&mountinfo, "\n")))
		err = note_mount(quotas, line);
	return err;
}

void cpu_quotas_release(struct cpu_quotas *quotas)
{
	for (int i = 0; i < QUOTA_HIERARCHIES; i++) {
		free(quotas->hierarchy[i].point);
		free(quotas->hierarchy[i].root);
	}
	*quotas = (struct cpu_quotas){};
}

/* ---- a process -------------------------------------------------------------------------------- */

/* The folder of a group. False: it is not below what is mounted. */
static bool find_group_folder(const struct quota_hierarchy *hierarchy, const char *group, char folder[PATH_MAX])
{
	size_t bytes = strlen(hierarchy->root);

	if (strncmp(group, hierarchy->root, bytes) || (group[bytes] && group[bytes] != '/') || strstr(group, "/.."))
		return false;
	return snprintf(folder, PATH_MAX, "%s%s", hierarchy->point, group + bytes) < PATH_MAX;
}

/* The least quota of a group and of those above it. */
static uint64_t least_quota_ns(int kind, const struct quota_hierarchy *hierarchy, const char *group)
{
	size_t point_bytes = strlen(hierarchy->point);
	uint64_t least = UINT64_MAX;
	char folder[PATH_MAX];

	if (!find_group_folder(hierarchy, group, folder))
		return UINT64_MAX;
	do {
		uint64_t ns = kinds[kind].quota_ns(folder);

		least = ns < least ? ns : least;
		*strrchr(folder, '/') = '\0';
	} while (strlen(folder) >= point_bytes);
	return least;
}

/* "NUMBER:CONTROLLERS:GROUP" */
static uint64_t quota_of_line(const struct cpu_quotas *quotas, char *line)
{
	uint64_t least = UINT64_MAX;
	char *controllers;

	strsep(&line, ":");
	controllers = strsep(&line, ":");
	for (int i = 0; i < QUOTA_HIERARCHIES && line; i++) {
		bool is_it = *kinds[i].controllers ? has_controller(controllers, kinds[i].controllers) : !*controllers;
		uint64_t ns = is_it && quotas->hierarchy[i].point ?
				      least_quota_ns(i, &quotas->hierarchy[i], line) : UINT64_MAX;

		least = ns < least ? ns : least;
	}
	return least;
}

uint64_t cpu_quota_ns(const struct cpu_quotas *quotas, const char *groups)
{
	char *text = strdup(groups), *rest = text, *line;
	uint64_t least = UINT64_MAX;

	while (text && (line = strsep(&rest, "\n"))) {
		uint64_t ns = quota_of_line(quotas, line);

		least = ns < least ? ns : least;
	}
	free(text);
	return least;
}

/* ---- pause gaps ---- */

void pausing_release(struct pausing *pausing)
{
	free(pausing->gap);
	*pausing = (struct pausing){};
}

/*
 * Drops the older half when GAPS_MAX is reached: readers need the last gap and the sums, which are kept apart.
 */
int pausing_make_room(struct pausing *pausing)
{
	if (pausing->gap_nr == GAPS_MAX) {
		pausing->gap_nr /= 2;
		memmove(pausing->gap, pausing->gap + GAPS_MAX - pausing->gap_nr,
			pausing->gap_nr * sizeof(*pausing->gap));
	}
	return array_reserve(&pausing->gap, &pausing->gap_alloc, pausing->gap_nr + 1);
}

void pausing_close_gap(struct pausing *pausing, uint64_t now_ns)
{
	const struct gap gap = { pausing->open_ns, now_ns, pausing->length_ns };

	pausing->gap[pausing->gap_nr++] = gap; /* pausing_make_room() reserved it */
	pausing->nr++;
	pausing->length_ns += gap.end_ns - gap.start_ns;
	pausing->open_ns = 0;
}

int pausing_add_past(struct pausing *pausing, uint64_t start_ns, uint64_t end_ns)
{
	struct gap *last = pausing->gap_nr ? &pausing->gap[pausing->gap_nr - 1] : NULL;
	int err;

	if (pausing->open_ns)
		return 0;
	if (last && last->end_ns >= start_ns) {
		pausing->length_ns += end_ns - last->end_ns;
		last->end_ns = end_ns;
		return 0;
	}
	err = pausing_make_room(pausing);
	if (err)
		return err;
	pausing->open_ns = start_ns;
	pausing_close_gap(pausing, end_ns);
	return 0;
}

/* How many gaps begin before a time. */
static size_t gaps_before(const struct pausing *pausing, uint64_t time_ns)
{
	return array_first(pausing->gap_nr, i, pausing->gap[i].start_ns >= time_ns);
}

/* The length of the first `nr` gaps and of those before gap[], up to a time. */
static uint64_t length_until(const struct pausing *pausing, size_t nr, uint64_t time_ns)
{
	const struct gap *last = nr ? &pausing->gap[nr - 1] : NULL;

	if (!last)
		return 0;
	return last->before_ns + (last->end_ns < time_ns ? last->end_ns : time_ns) - last->start_ns;
}

/*
 * A snapshot may be described after the next pause began, but its data was read before: later gaps do not
 * count.
 */
struct gaps_sum pausing_sum(const struct pausing *pausing, uint64_t start_ns, uint64_t now_ns)
{
	size_t until_start = gaps_before(pausing, start_ns), until_now = gaps_before(pausing, now_ns);
	struct gaps_sum sum = { .nr = until_now - until_start };

	if (start_ns >= now_ns)
		return (struct gaps_sum){};
	sum.length_ns = length_until(pausing, until_now, now_ns) - length_until(pausing, until_start, start_ns);
	if (!until_start)
		sum.nr += pausing->nr - pausing->gap_nr;
	else
		sum.nr += pausing->gap[until_start - 1].end_ns > start_ns;
	if (pausing->open_ns && pausing->open_ns < now_ns) {
		sum.nr++;
		sum.length_ns += now_ns - (pausing->open_ns > start_ns ? pausing->open_ns : start_ns);
	}
	return sum;
}

/* ---- budget ---- */

#define FIRST_RATE 1

#define SOONEST_NS 1000000ULL
#define LATEST_NS 100000000ULL
#define LATEST_WHILE_ON_NS 10000000ULL /* what the process will cost is not known */
#define FINER_AFTER_NS 100000000ULL    /* a rate is kept for at least this time before a finer one */
#define LATELY_NS 2000000000ULL

static int64_t clamp_time(int64_t value, int64_t least, int64_t most)
{
	return value < least ? least : value > most ? most : value;
}

static uint64_t lesser_ns(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t greater_ns(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t scale_ns(uint64_t ns, uint64_t part, uint64_t of)
{
	return (unsigned __int128)ns * part / of;
}

/* The credit with which a recording goes on after a pause. */
static int64_t stretch_ns(const struct budget *budget)
{
	int64_t half = budget->share_ns / 2, shortest = budget->terms.least_stretch_ns;

	return half > shortest ? half : shortest;
}

static int64_t most_credit_ns(const struct budget *budget)
{
	return 2 * stretch_ns(budget);
}

void budget_begin(struct budget *budget, const struct budget_terms *terms)
{
	*budget = (struct budget){ .terms = *terms, .share_ns = terms->core_ns * terms->percent / 100 };
	budget->left_ns = terms->percent ? most_credit_ns(budget) : 0;
}

static uint64_t earned_ns(const struct budget_terms *terms, uint64_t passed_ns, uint64_t own_ns)
{
	uint64_t core_ns = scale_ns(passed_ns, terms->core_ns, BUDGET_CORE_NS);

	return scale_ns(terms->is_of_core ? core_ns : lesser_ns(greater_ns(own_ns, core_ns / BUDGET_IDLE_PART), core_ns),
			terms->percent, 100);
}

/* A mean in which what was a second ago counts for a third. */
static void mean_share(struct budget *budget, uint64_t earned_ns, uint64_t passed_ns)
{
	uint64_t weight_ns = lesser_ns(passed_ns, BUDGET_CORE_NS);

	if (passed_ns)
		budget->share_ns += scale_ns(earned_ns, weight_ns, passed_ns) -
				    scale_ns(budget->share_ns, weight_ns, BUDGET_CORE_NS);
}

/*
 * The least credit for which a rate is not exchanged for a coarser one. The coarsest rate has none: after it comes
 * the pause.
 */
static int64_t least_credit_ns(const struct budget *budget)
{
	int halvings = budget->rate ? budget->rate + 2 : 1;

	return budget->rate + 1 < SAMPLE_RATES ? most_credit_ns(budget) >> halvings : INT64_MIN;
}

static void choose_rate(struct budget *budget)
{
	uint32_t before = budget->rate;

	while (!budget->is_spent && budget->left_ns < least_credit_ns(budget))
		budget->rate++;
	if (budget->rate == before && before && budget->left_ns >= most_credit_ns(budget) / 4 * 3 &&
	    budget->now_ns - budget->rate_ns >= FINER_AFTER_NS)
		budget->rate--;
	if (budget->rate != before)
		budget->rate_ns = budget->now_ns;
}

/*
 * A look may be late, as a snapshot can take seconds. Earnings and cost since the last look are then compared with each
 * other, also beyond a full credit. The debt ends at half of what a second gives: after such a time the process comes
 * back within a second, too. Threads report their cost in parts, so the CPU time that remains without it goes up and
 * down: only CPU time above the earlier maximum is new.
 */
void budget_update(struct budget *budget, const struct budget_use *use, uint64_t now_ns)
{
	uint64_t passed_ns = budget->now_ns ? now_ns - budget->now_ns : 0;
	uint64_t own_ns = greater_ns(use->own_ns, budget->use.own_ns);
	uint64_t earned = earned_ns(&budget->terms, passed_ns, own_ns - budget->use.own_ns);

	if (!budget->terms.percent)
		return;
	mean_share(budget, earned, passed_ns);
	budget->left_ns += earned - (use->cost_ns - budget->use.cost_ns);
	budget->left_ns = clamp_time(budget->left_ns, -(int64_t)budget->share_ns / 2, most_credit_ns(budget));
	budget->use = (struct budget_use){ .cost_ns = use->cost_ns, .own_ns = own_ns };
	budget->now_ns = now_ns;
	if (budget->left_ns <= 0) {
		budget->is_spent = true;
		budget->spent_ns = budget->rate_ns = now_ns;
		budget->rate = FIRST_RATE; /* the coarser ones did not help */
	} else if (budget->left_ns >= stretch_ns(budget)) {
		budget->is_spent = false;
	}
	choose_rate(budget);
}

bool budget_is_full(const struct budget *budget)
{
	return budget->left_ns >= most_credit_ns(budget);
}

uint64_t budget_wait_ns(const struct budget *budget, unsigned int processors)
{
	int64_t missing_ns = stretch_ns(budget) - budget->left_ns;

	if (!budget->terms.percent)
		return UINT64_MAX;
	if (!budget->is_spent)
		return clamp_time(budget->left_ns / processors, SOONEST_NS, LATEST_WHILE_ON_NS);
	return clamp_time(scale_ns(missing_ns, BUDGET_CORE_NS, budget->share_ns ?: 1), SOONEST_NS, LATEST_NS);
}

bool budget_is_spending(const struct budget *budget, uint64_t now_ns)
{
	return budget->spent_ns && now_ns - budget->spent_ns < LATELY_NS;
}
