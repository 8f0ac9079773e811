// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The source of an answer: a catalogue, several of them, or a cluster. */
#include <errno.h>
#include <stdlib.h>

#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/cluster/cluster_schema.h"
#include "fleet/cluster/cluster_units.h"
#include "fleet/catalogue_merge.h"

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

/* Whether the key of a traceback is that of its own frame, as an allocsnap with no such options sees it. */
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
		err = symbol_tables_read(fleet->catalogue, &names, &fleet->dictionary, &why);
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

/* ---- the end -------------------------------------------------------------------------------------------------- */

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
