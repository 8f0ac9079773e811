// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The source of an answer: a catalogue, or a cluster that is mirrored in one. */
#include <errno.h>
#include <stdlib.h>

#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/cluster/cluster_mirror.h"
#include "fleet/cluster/cluster_schema.h"
#include "fleet/catalogue_merge.h"

static int open_mirror(struct fleet *fleet, struct reason *why)
{
	const struct cluster_options *options = &fleet->options->cluster;
	int err = cluster_options_check(options, why) ?: cluster__new(options, &fleet->cluster, why) ?:
		  cluster_schema_check(fleet->cluster, why) ?:
		  cluster_mirror__new(fleet->cluster, &fleet->mirror, why);

	if (!err)
		fleet->catalogue = cluster_mirror__catalogue(fleet->mirror);
	return err;
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
	const struct fleet_options *options = fleet->options;
	int err = options->cluster.url ? open_mirror(fleet, why) : open_catalogues(fleet, why);

	return err ?: catalogue__facts(fleet->catalogue, &fleet->facts, why);
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

static int fetch_from_cluster(struct fleet *fleet, const struct cohort *const *cohort, size_t cohort_nr,
			      enum fleet_need need, struct reason *why)
{
	int err = 0;

	if (need == FLEET_NAMES) {
		cluster_mirror__want_tracebacks(fleet->mirror);
		cohort_nr = 0;
	}
	for (size_t i = 0; i < cohort_nr && !err; i++) {
		bool sums = need == FLEET_SUMS && cluster_mirror_can_sum(cohort[i]);

		if (sums)
			err = cluster_mirror__sum(fleet->mirror, cohort[i], &fleet->sum[i], why);
		else
			err = cluster_mirror__fetch(fleet->mirror, cohort[i], why);
		fleet->has_sum[i] = sums && !err;
	}
	return err ?: cluster_mirror__finish(fleet->mirror, &fleet->facts.origin_nr, why);
}

static int read_fleet_names(struct fleet *fleet, struct reason *why)
{
	const struct fleet_options *options = fleet->options;
	const struct dictionary_options names = {
		.key_type = fleet->chosen.engine.key_type,
		.strip_prefix = options->strip_prefix.item,
		.strip_prefix_nr = options->strip_prefix.item_nr,
		.line_drift = options->line_drift,
	};
	int err = symbol_tables_read(fleet->catalogue, &names, &fleet->dictionary, why);

	fleet->chosen.engine.key_frame = fleet->dictionary.key_frame;
	return err;
}

int fleet_read(struct fleet *fleet, const struct cohort *const *cohort, size_t cohort_nr, enum fleet_need need)
{
	struct reason why = { "out of memory" };
	int err = 0;

	if (fleet->mirror)
		err = fetch_from_cluster(fleet, cohort, cohort_nr, need, &why);
	else if (fleet->merge)
		err = catalogue_merge__read(fleet->merge, cohort, need == FLEET_NAMES ? 0 : cohort_nr, &why);

	err = err ?: read_fleet_names(fleet, &why);
	return err ? log_failure("%s", why.text) : EXIT_DONE;
}

/* The cluster's sums end with the last origin that they have. */
static int take_cluster_sum(struct fleet *fleet, const struct cohort *cohort, size_t at, struct fleet_sum *ret,
			    struct reason *why)
{
	struct fleet_sum *sum = &fleet->sum[at];
	struct cost *cost = realloc(sum->cost, (fleet->facts.origin_nr + 1ull) * sizeof(*cost));

	if (!cost)
		return reason_set(why, -ENOMEM, "out of memory");
	for (uint32_t i = sum->origin_nr; i < fleet->facts.origin_nr; i++)
		cost[i] = (struct cost){};
	*ret = fleet_sum_of_costs(cohort, cost, fleet->facts.origin_nr);
	*sum = (struct fleet_sum){};
	return 0;
}

int fleet_add_up(struct fleet *fleet, const struct cohort *cohort, size_t at, struct fleet_sum *ret, struct reason *why)
{
	if (fleet->has_sum[at])
		return take_cluster_sum(fleet, cohort, at, ret, why);
	return fleet_sum_make(fleet->catalogue, cohort, fleet->facts.origin_nr, ret, why);
}

/* ---- the end -------------------------------------------------------------------------------------------------- */

void fleet_let_go(struct fleet *fleet)
{
	cluster_mirror__free(fleet->mirror);
	fleet->mirror = NULL;
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
