// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "cli/open_input.h"
#include "fleet/catalogue.h"
#include "fleet/catalogue_merge.h"
#include "fleet/cluster/cluster_choose.h"
#include "fleet/cluster/cluster_names.h"
#include "fleet/cluster/cluster_schema.h"
#include "fleet/cluster/cluster_units.h"
#include "fleet/per_host.h"
#include "fleet/row_top.h"
#include "render/facts.h"
#include "render/fleet.h"

/* ---- the source of an answer: a catalogue, several of them, or a cluster ---- */

static int open_cluster(struct fleet *fleet, struct reason *why)
{
	const struct cluster_options *options = &fleet->options->cluster;

	return cluster_options_check(options, why) ?: cluster__new(options, &fleet->cluster, why) ?:
	       cluster_schema_check(fleet->cluster, why);
}

static int open_catalogues(struct fleet *fleet, struct reason *why)
{
	const struct string_list *more = &fleet->options->more;
	int err;

	if (more->item_nr < 2)
		return catalogue__open(fleet_source_name(fleet), CATALOGUE_READ, &fleet->catalogue, why);
	err = catalogue_merge__new(more->item, more->item_nr, &fleet->merge, why);
	if (!err)
		fleet->catalogue = catalogue_merge__catalogue(fleet->merge);
	return err;
}

static int open_fleet_source(struct fleet *fleet, struct reason *why)
{
	if (fleet->options->cluster.url)
		return open_cluster(fleet, why);
	return open_catalogues(fleet, why) ?: catalogue__facts(fleet->catalogue, &fleet->facts, why);
}

int fleet_open(struct fleet *fleet)
{
	struct reason why = { "out of memory" };
	int err = open_fleet_source(fleet, &why);

	if (err == -ENOENT && !fleet->options->cluster.url)
		return log_failure("%s; 'allocsnap fleet index DIR' makes one", why.text);
	return err ? log_failure("%s", why.text) : EXIT_DONE;
}

const char *fleet_source_name(const struct fleet *fleet)
{
	const struct fleet_options *options = fleet->options;

	return options->cluster.url ?: (options->more.item_nr ? options->more.item[0] : options->catalogue);
}

/* ---- rows and names ------------------------------------------------------------------------------------------- */

/* Whether the key of a traceback is the key of its own frame, as an allocsnap without these options finds it. */
static bool is_by_own_frame(const struct fleet *fleet)
{
	const struct engine_options *engine = &fleet->chosen.engine;

	return engine->key_type != KEY_TRACEBACK && !engine->cumulative && !engine->keep_wrappers && !engine->tracemalloc &&
	       !engine->skip_nr && !engine->project_nr && !engine->select.filter_nr && !fleet->options->strip_prefix.item_nr;
}

static int ask_cluster(struct fleet *fleet, const struct cohort *const *cohort, size_t cohort_nr, enum fleet_need need,
		       const struct dictionary_options *names, struct reason *why)
{
	int err = cluster_units__new(fleet->cluster, need == FLEET_SUMS && is_by_own_frame(fleet), &fleet->units, why);

	if (!err && need == FLEET_NAMES)
		err = cluster_units__want_all(fleet->units, why);
	for (size_t i = 0; i < cohort_nr && need != FLEET_NAMES && !err; i++)
		err = cluster_units__sum(fleet->units, cohort[i], &fleet->sum[i], why);
	err = err ?: cluster_units__names(fleet->units, names, &fleet->dictionary, why);
	if (!err)
		fleet->facts.origin_nr = cluster_units__origin_nr(fleet->units);
	return err;
}

int fleet_read(struct fleet *fleet, const struct cohort *const *cohort, size_t cohort_nr, enum fleet_need need)
{
	const struct fleet_options *options = fleet->options;
	const struct dictionary_options names = {
		.key_type = fleet->chosen.engine.key_type,
		.strip_prefix = options->strip_prefix.item,
		.strip_prefix_nr = options->strip_prefix.item_nr,
		.line_drift = options->line_drift,
	};
	struct reason why = { "out of memory" };
	int err = 0;

	if (fleet->cluster)
		err = ask_cluster(fleet, cohort, cohort_nr, need, &names, &why);
	else if (fleet->merge)
		err = catalogue_merge__read(fleet->merge, cohort, need == FLEET_NAMES ? 0 : cohort_nr, &why);
	if (!err && fleet->catalogue)
		err = dictionary_read_catalogue(fleet->catalogue, &names, &fleet->dictionary, &why);
	fleet->chosen.engine.key_frame = fleet->dictionary.key_frame;
	return err ? log_failure("%s", why.text) : EXIT_DONE;
}

int fleet_add_up(struct fleet *fleet, const struct cohort *cohort, size_t at, struct fleet_sum *ret, struct reason *why)
{
	if (!fleet->cluster)
		return fleet_sum_make(fleet->catalogue, cohort, fleet->facts.origin_nr, ret, why);
	if (fleet_sum_end(&fleet->sum[at], fleet->facts.origin_nr))
		return reason_set(why, -ENOMEM, "out of memory");
	*ret = fleet->sum[at];
	fleet->sum[at] = (struct fleet_sum){};
	return 0;
}

/* ---- closing -------------------------------------------------------------------------------------------------- */

void fleet_let_go(struct fleet *fleet)
{
	cluster_units__free(fleet->units);
	fleet->units = NULL;
	catalogue_merge__free(fleet->merge);
	fleet->merge = NULL;
	catalogue__close(fleet->catalogue);
	fleet->catalogue = NULL;
	cluster__free(fleet->cluster);
	fleet->cluster = NULL;
}

void fleet_end(struct fleet *fleet)
{
	chosen_release(&fleet->chosen);
	dictionary_release(&fleet->dictionary);
	fleet_facts_release(&fleet->facts);
	fleet_sum_release(&fleet->sum[0]);
	fleet_sum_release(&fleet->sum[1]);
	fleet_let_go(fleet);
}

/* ---- opening ---------------------------------------------------------------------------------------- */

/* Refuses questions that sums cannot answer, before anything is read. */
static int check_fleet_options(const struct command *command, struct fleet *fleet)
{
	int status = stats_question(command, &fleet->options->stats, &fleet->chosen);
	struct reason why;

	if (!status && tally_check(&fleet->chosen.engine, &why))
		return log_refusal(command, "%s", why.text);
	/* Each build has its own line numbers, and the files below DIR belong to one build. */
	if (!status && fleet->options->line_drift && fleet->options->stats.source_dir)
		return log_refusal(command, "--source and --line-drift exclude each other");
	return status;
}

int fleet_begin(const struct command *command, const struct fleet_options *options, struct fleet *ret)
{
	int status;

	*ret = (struct fleet){ .options = options };
	if (options->cluster.url && options->more.item_nr)
		return log_refusal(command, "--catalogue and --from exclude each other");
	status = check_fleet_options(command, ret);
	return status ?: fleet_open(ret);
}

/* ---- cohorts ------------------------------------------------------------------------------------------ */

struct selections {
	struct fleet_selection *item;
	size_t item_nr, item_alloc;
};

static void selections_release(struct selections *selections)
{
	for (size_t i = 0; i < selections->item_nr; i++)
		fleet_selection_release(&selections->item[i]);
	free(selections->item);
}

static int parse_selection(const struct command *command, const char *option, const char *text,
			   struct selections *ret)
{
	struct reason why = { "out of memory" };
	struct fleet_selection selection;
	int err = array_reserve(&ret->item, &ret->item_alloc, ret->item_nr + 1);

	err = err ?: fleet_selection_parse(text, clock_now_ns(CLOCK_REALTIME), &selection, &why);
	if (err == -EINVAL)
		return log_refusal(command, "--%s: %s", option, why.text);
	if (err)
		return log_failure("%s", strerror(-err));
	ret->item[ret->item_nr++] = selection;
	return EXIT_DONE;
}

static int parse_selections(const struct command *command, const struct fleet_choice *choice, struct selections *ret)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < FLEET_WHERE_MAX && choice->where[i].option; i++)
		for (size_t k = 0; k < choice->where[i].list->item_nr && !status; k++)
			status = parse_selection(command, choice->where[i].option, choice->where[i].list->item[k], ret);
	return status;
}

/* Names the first option that was given. */
static int report_no_match(const struct fleet *fleet, const struct fleet_choice *choice)
{
	for (size_t i = 0; i < FLEET_WHERE_MAX && choice->where[i].option; i++)
		if (choice->where[i].list->item_nr)
			return log_failure("no snapshot matches --%s %s", choice->where[i].option, choice->where[i].list->item[0]);
	return log_failure("%s: there are no snapshots in it", fleet_source_name(fleet));
}

static int list_selections(const struct selections *selections, struct cluster_choice *ret)
{
	const struct fleet_selection **item = calloc(selections->item_nr + 1, sizeof(*item));

	for (size_t i = 0; item && i < selections->item_nr; i++)
		item[i] = &selections->item[i];
	ret->selection = item;
	ret->selection_nr = selections->item_nr;
	return item ? 0 : -ENOMEM;
}

static int choose_cohorts(struct fleet *fleet, const struct fleet_choice *choice, const struct cluster_choice *asked,
			  size_t choice_nr, struct reason *why)
{
	struct cohort *ret[CLUSTER_CHOICES_MAX];
	int err = 0;

	for (size_t i = 0; i < choice_nr; i++)
		ret[i] = choice[i].ret;
	if (fleet->cluster)
		return cluster_choose(fleet->cluster, asked, choice_nr, fleet->wants_labels, &fleet->facts, ret, why);
	for (size_t i = 0; i < choice_nr && !err; i++)
		err = cohort_choose(&fleet->facts, asked[i].selection, asked[i].selection_nr, asked[i].times, ret[i]);
	return err;
}

static int check_cohorts(const struct fleet *fleet, const struct fleet_choice *choice, size_t choice_nr)
{
	struct reason why;

	for (size_t i = 0; i < choice_nr; i++)
		if (!choice[i].ret->snapshot_nr)
			return cohort_left_out(choice[i].ret, &why) ? log_failure("%s", why.text) : report_no_match(fleet, &choice[i]);
	return EXIT_DONE;
}

int fleet_choose(const struct command *command, struct fleet *fleet, const struct fleet_choice *choice, size_t choice_nr)
{
	struct cluster_choice asked[CLUSTER_CHOICES_MAX] = {};
	struct selections selections[CLUSTER_CHOICES_MAX] = {};
	struct reason why = { "out of memory" };
	int status = EXIT_DONE, err = 0;

	for (size_t i = 0; i < choice_nr && !status; i++) {
		*choice[i].ret = (struct cohort){};
		asked[i].times = choice[i].times;
		status = parse_selections(command, &choice[i], &selections[i]);
		err = err ?: list_selections(&selections[i], &asked[i]);
	}
	if (!status && (err || choose_cohorts(fleet, choice, asked, choice_nr, &why)))
		status = log_failure("%s", why.text);
	for (size_t i = 0; i < choice_nr; i++) {
		free(asked[i].selection);
		selections_release(&selections[i]);
	}
	return status ?: check_cohorts(fleet, choice, choice_nr);
}

int fleet_choose_where(const struct command *command, struct fleet *fleet, enum cohort_times times, struct cohort *ret)
{
	const struct fleet_choice choice = { { { "where", &fleet->options->where } }, times, ret };

	return fleet_choose(command, fleet, &choice, 1);
}

/* ---- losses: sums by name over processes; a snapshot has the loss of its process so far -------------------- */

/*
 * The limit of loss names that this version does not know: a file can have any number of them. Names beyond it are
 * summed as "others".
 */
#define UNKNOWN_NAMES_MAX 64
#define OTHERS "others"

/* NULL: the report has no such loss. */
static struct report_loss *find_report_loss(const struct fleet_report *report, const char *name)
{
	for (size_t i = 0; i < report->loss_nr; i++)
		if (!strcmp(report->loss[i].name, name))
			return &report->loss[i];
	return NULL;
}

static struct report_loss *make_report_loss(struct fleet_report *report, const char *name)
{
	return array_push(report, loss, ((struct report_loss){ name, 0 })) ? NULL : &report->loss[report->loss_nr - 1];
}

/* The losses of one process that the sums have already, by their position in the report. */
struct losses_so_far {
	uint64_t *value;
	size_t value_nr, value_alloc;
};

static uint64_t add_losses_saturating(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* Whether a loss counts as OTHERS. All of them are one loss, because only their sum is known to grow. */
static bool is_other(const struct fleet_report *report, const char *name)
{
	return report->loss_nr >= UNKNOWN_NAMES_MAX && !find_report_loss(report, name) && !counter_meaning(name);
}

/* Adds the part by which the loss exceeds the value that the process had before. */
static int add_report_loss(struct fleet_report *report, struct losses_so_far *so_far, const struct fleet_loss *loss)
{
	struct report_loss *sum = find_report_loss(report, loss->name) ?: make_report_loss(report, loss->name);
	uint64_t *before;

	if (!sum)
		return -ENOMEM;
	while (so_far->value_nr < report->loss_nr)
		if (array_push(so_far, value, 0))
			return -ENOMEM;
	before = &so_far->value[sum - report->loss];
	if (loss->value <= *before)
		return 0;
	sum->value = add_losses_saturating(sum->value, loss->value - *before);
	*before = loss->value;
	return 0;
}

static int add_snapshot_losses(struct fleet_report *report, struct losses_so_far *so_far,
			       const struct fleet_facts *facts, const struct fleet_snapshot *snapshot)
{
	struct fleet_loss others = { OTHERS, 0 };
	int err = 0;

	for (uint32_t i = 0; i < snapshot->loss_nr && !err; i++) {
		const struct fleet_loss *loss = &facts->loss[snapshot->loss + i];

		if (is_other(report, loss->name))
			others.value = add_losses_saturating(others.value, loss->value);
		else if (loss->value)
			err = add_report_loss(report, so_far, loss);
	}
	return err || !others.value ? err : add_report_loss(report, so_far, &others);
}

/* Goes process by process, the order of cohorts, so that a process in both cohorts counts once. */
static int add_report_losses(struct fleet_report *report, const struct fleet_facts *facts,
			     const struct cohort *const *cohort, size_t cohort_nr)
{
	struct losses_so_far so_far = {};
	size_t at[2] = {};
	int err = 0;

	for (uint32_t process = 0; process < facts->process_nr && !err; process++) {
		so_far.value_nr = 0;
		for (size_t side = 0; side < cohort_nr; side++)
			for (; at[side] < cohort[side]->snapshot_nr && !err &&
			       cohort[side]->snapshot[at[side]]->process == process; at[side]++)
				err = add_snapshot_losses(report, &so_far, facts, cohort[side]->snapshot[at[side]]);
	}
	free(so_far.value);
	return err;
}

/* ---- the report ------------------------------------------------------------------------------------------ */

/* Between hosts there is only the wall clock. */
static uint64_t oldest_age_ns(const struct cohort *cohort)
{
	int64_t oldest_ns = INT64_MAX, newest_ns = INT64_MIN;

	for (size_t i = 0; i < cohort->snapshot_nr; i++) {
		int64_t time_ns = cohort->snapshot[i]->time_ns;

		oldest_ns = time_ns < oldest_ns ? time_ns : oldest_ns;
		newest_ns = time_ns > newest_ns ? time_ns : newest_ns;
	}
	return cohort->snapshot_nr ? (uint64_t)newest_ns - (uint64_t)oldest_ns : 0;
}

static struct report_left_out left_out_of(const struct cohort_ended *ended)
{
	return (struct report_left_out){
		ended->process_nr, ended->bytes, ended->least_behind_ns, ended->most_behind_ns,
	};
}

static struct report_cohort cohort_facts(const struct cohort *cohort)
{
	struct report_cohort facts = {
		.snapshots = cohort->snapshot_nr,
		.processes = cohort->process_nr,
		.hosts = cohort->host_nr,
		.ended = left_out_of(&cohort->ended),
		.unseen = left_out_of(&cohort->unseen),
	};

	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		facts.sampled += cohort->snapshot[i]->is_sampled;
	return facts;
}

static int report_doubts(const struct fleet_report *report)
{
	int err = log_losses(report->loss, report->loss_nr);

	for (size_t i = 0; i < report->doubts.nr; i++)
		log_info("warning: %s", report->doubts.line[i]);
	return err;
}

int fleet_report_make(const struct fleet *fleet, const struct cohort *const *cohort, size_t cohort_nr,
		      struct fleet_report *ret)
{
	const struct fleet_doubt doubt = {
		.facts = &fleet->facts,
		.cohort = cohort,
		.cohort_nr = cohort_nr,
		.engine = &fleet->chosen.engine,
		.line_drift = fleet->options->line_drift,
		.refused_nr = fleet->dictionary.refused_nr,
		.now_ns = time(NULL) * 1000000000ll,
	};
	int err;

	*ret = (struct fleet_report){ .dictionary = fleet->dictionary.snapshot };
	err = fleet_doubts_find(&doubt, &ret->doubts);
	for (size_t i = 0; i < cohort_nr; i++)
		ret->cohort[i] = cohort_facts(cohort[i]);
	if (cohort_nr == 1 && cohort[0]->times != COHORT_ALL)
		ret->cohort[0].age_ns = oldest_age_ns(cohort[0]);
	err = err ?: add_report_losses(ret, &fleet->facts, cohort, cohort_nr) ?: report_doubts(ret);
	if (err)
		return log_failure("%s", strerror(-err));
	ret->report = (struct report){
		.snapshot = &ret->dictionary,
		.snapshot_nr = 1,
		.warning = ret->doubts.line,
		.warning_nr = ret->doubts.nr,
		.cohort = ret->cohort,
		.cohort_nr = cohort_nr,
		.loss = ret->loss,
		.loss_nr = ret->loss_nr,
	};
	return EXIT_DONE;
}

void fleet_report_release(struct fleet_report *report)
{
	free(report->loss);
}

/* ---- the commands hosts and leaks: from the command line to the rows and their report ---- */

static int print_fleet_list(const struct fleet_list *list, struct fleet *fleet,
			    const struct fleet_question *question, struct report *report)
{
	const struct stats_options *options = &fleet->options->stats;
	const char **host = fleet_host_names(&fleet->facts);
	struct fleet_answer answer = { .report = report, .groups = question->groups, .host = host };
	int status;

	if (!host)
		return log_failure("%s", strerror(ENOMEM));
	log_unmatched(&options->select, &fleet->chosen, report->snapshot, report->snapshot_nr);
	report->top = options->top == TOP_UNSAID ? format_or_text(NULL)->top : options->top;
	report->full_names = options->full_names;
	report->oldest_first = options->select.tracemalloc;
	status = list->run(fleet, question, &answer, options->format);
	free(host);
	return status;
}

static int make_fleet_list(const struct fleet_list *list, struct fleet *fleet, const struct cohort *cohort)
{
	const struct statistics no_rows = {
		.key_type = fleet->chosen.engine.key_type,
		.cumulative = fleet->chosen.engine.cumulative,
	};
	struct fleet_question question = {
		.catalogue = fleet->catalogue, .facts = &fleet->facts, .cohort = cohort,
		.dictionary = fleet->dictionary.snapshot,
	};
	struct engine_options engine = fleet->chosen.engine;
	struct reason why = { "out of memory" };
	struct groups *groups = NULL;
	struct fleet_report report;
	int status;

	if (list->reads_files)
		engine.select = (struct selection){};
	if (groups_make(fleet->dictionary.snapshot, &engine, &groups, &why))
		return log_failure("%s", why.text);
	question.groups = groups;
	status = fleet_report_make(fleet, &cohort, 1, &report);
	report.report.statistics = &no_rows;
	status = status ?: print_fleet_list(list, fleet, &question, &report.report);
	fleet_report_release(&report);
	groups_free(groups);
	return status;
}

/* The files have all rows, also of what was pushed to a cluster with --top. */
static void leave_out_merged_rows(struct fleet_facts *facts)
{
	for (size_t i = 0; i < facts->snapshot_nr; i++) {
		struct fleet_snapshot *snapshot = &facts->snapshot[i];
		uint32_t kept = 0;

		for (uint32_t k = snapshot->loss; k < snapshot->loss + snapshot->loss_nr; k++)
			if (strcmp(facts->loss[k].name, ROW_LOSS_MERGED))
				facts->loss[snapshot->loss + kept++] = facts->loss[k];
		snapshot->loss_nr = kept;
	}
}

int fleet_list_run(const struct fleet_list *list, const struct fleet_options *options)
{
	struct cohort cohort = {};
	const struct cohort *const chosen = &cohort;
	struct fleet fleet;
	int status = fleet_begin(list->command, options, &fleet);

	status = status ?: fleet_choose_where(list->command, &fleet, list->times, &cohort);
	if (!status && list->reads_files && fleet.cluster)
		leave_out_merged_rows(&fleet.facts);
	status = status ?: fleet_read(&fleet, &chosen, 1, list->reads_files ? FLEET_NAMES : FLEET_SUMS);
	status = status ?: make_fleet_list(list, &fleet, &cohort);
	cohort_release(&cohort);
	fleet_end(&fleet);
	return status;
}
