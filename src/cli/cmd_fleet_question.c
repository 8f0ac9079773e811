// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "cli/cmd_fleet.h"
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

static int parse_selections(const struct command *command, const struct fleet_where *where, size_t where_nr,
			    struct selections *ret)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < where_nr; i++)
		for (size_t k = 0; k < where[i].list->item_nr && !status; k++)
			status = parse_selection(command, where[i].option, where[i].list->item[k], ret);
	return status;
}

/* Names the first option that was given. */
static int report_no_match(const struct fleet *fleet, const struct fleet_where *where, size_t where_nr)
{
	for (size_t i = 0; i < where_nr; i++)
		if (where[i].list->item_nr)
			return log_failure("no snapshot matches --%s %s", where[i].option, where[i].list->item[0]);
	return log_failure("%s: there are no snapshots in it", fleet_source_name(fleet));
}

static int choose_cohort(const struct fleet *fleet, const struct selections *selections,
			 enum cohort_times times, struct cohort *ret)
{
	const struct fleet_selection **item = calloc(selections->item_nr + 1, sizeof(*item));
	int err = item ? 0 : -ENOMEM;

	for (size_t i = 0; i < selections->item_nr && !err; i++)
		item[i] = &selections->item[i];
	if (!err)
		err = cohort_choose(&fleet->facts, item, selections->item_nr, times, ret);
	free(item);
	return err ? log_failure("%s", strerror(-err)) : EXIT_DONE;
}

int fleet_choose(const struct command *command, const struct fleet *fleet, const struct fleet_where *where,
		 size_t where_nr, enum cohort_times times, struct cohort *ret)
{
	struct selections selections = {};
	struct reason why;
	int status;

	*ret = (struct cohort){};
	status = parse_selections(command, where, where_nr, &selections);
	if (!status)
		status = choose_cohort(fleet, &selections, times, ret);
	selections_release(&selections);
	if (!status && !ret->snapshot_nr)
		status = cohort_left_out(ret, &why) ? log_failure("%s", why.text) : report_no_match(fleet, where, where_nr);
	return status;
}
