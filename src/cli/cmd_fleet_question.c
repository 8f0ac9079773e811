// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/cluster/cluster_choose.h"
#include "fleet/catalogue.h"

/* ---- begin and end ---------------------------------------------------------------------------------- */

/* Refuses questions that sums cannot answer, before anything is read. */
static int check_fleet_options(const struct command *command, struct fleet *fleet)
{
	int status = stats_question(command, &fleet->options->stats, &fleet->chosen);
	struct reason why;

	if (!status && tally_check(&fleet->chosen.engine, &why))
		return log_refusal(command, "%s", why.text);
	/* Each build has its own line numbers, and the files below DIR are those of one build. */
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

	if (!err)
		err = fleet_selection_parse(text, clock_now_ns(CLOCK_REALTIME), &selection, &why);
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
