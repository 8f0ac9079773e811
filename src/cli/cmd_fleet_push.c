// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap fleet push: the snapshots of a catalogue, or of files, to a ClickHouse. */
#include <inttypes.h>

#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/cluster/cluster_push.h"

struct fleet_push_options {
	struct fleet_options fleet;
	struct cluster_options cluster;
	uint64_t top;
};

/* Prints "12 snapshots pushed, 12000 rows; 3 known". */
static int report_pushed(const struct cluster_pushed *pushed)
{
	printf("%zu snapshot%s pushed, %" PRIu64 " row%s", pushed->snapshots, pushed->snapshots == 1 ? "" : "s",
	       pushed->rows, pushed->rows == 1 ? "" : "s");
	if (pushed->known)
		printf("; %zu known", pushed->known);
	putchar('\n');
	return EXIT_DONE;
}

/* The catalogue keeps what waits. */
static int report_waiting_snapshots(const struct cluster_push *job, const struct cluster_pushed *pushed,
				    const char *catalogue, const struct reason *why)
{
	size_t waiting = job->cohort->snapshot_nr - pushed->known - pushed->snapshots;

	report_pushed(pushed);
	return log_failure("%s; %zu snapshot%s in %s: the same command pushes %s", why->text, waiting,
			   waiting == 1 ? " waits" : "s wait", catalogue, waiting == 1 ? "it" : "them");
}

static int push_cohort(const struct fleet *fleet, const struct cohort *cohort, const struct fleet_push_options *options)
{
	const struct cluster_push job = { fleet->catalogue, &fleet->facts, cohort, options->top };
	struct reason why = { "out of memory" };
	struct cluster_pushed pushed = {};
	struct cluster *cluster;
	int status = cluster_begin(&cmd_fleet_push, &options->cluster, true, &cluster);

	if (!status && cluster_push(cluster, &job, &pushed, &why))
		status = report_waiting_snapshots(&job, &pushed, fleet->options->catalogue, &why);
	else if (!status)
		status = report_pushed(&pushed);
	cluster__free(cluster);
	return status;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct fleet_push_options *options = command_options;
	int indexed = EXIT_DONE, status;
	struct cohort cohort = {};
	struct fleet fleet = { .options = &options->fleet };

	if (!options->cluster.url)
		return log_refusal(&cmd_fleet_push, "--to says which ClickHouse");
	if (args->item_nr)
		indexed = cmd_fleet_index.run(&options->fleet, args);
	status = fleet_open(&fleet);
	if (!status)
		status = fleet_choose_where(&cmd_fleet_push, &fleet, COHORT_WITH_PARTS, &cohort);
	if (!status)
		status = push_cohort(&fleet, &cohort, options);
	cohort_release(&cohort);
	fleet_end(&fleet);
	return status ?: indexed;
}

#define FIELD(name) offsetof(struct fleet_push_options, name)

static const struct option_row top_rows[] = {
	{ "top", 'n', OPTION_COUNT, FIELD(top), .arg = "N", .most = UINT32_MAX, .default_text = "all",
	  .help = "push the N rows with most bytes of each snapshot, and for each domain one row <other> with the sum of the rest" },
	{},
};

const struct command cmd_fleet_push = {
	.name = "fleet push",
	.args = "--to URL [DIR…]",
	.arg_max = UINT_MAX,
	.help = "push snapshots to a ClickHouse, where one catalogue is not enough",
	.detail = "Pushes the snapshots of the catalogue that the server does not have. With DIR, it first indexes DIR as "
		  "'fleet index' does. The command can be interrupted at any time and run again: no snapshot counts "
		  "twice, or in part. While the server cannot be reached, snapshots wait in the catalogue. 'allocsnap "
		  "fleet init' makes the tables.\n\n"
		  CREDENTIALS_DETAIL "\n\n" SELECTION_DETAIL,
	.example = "allocsnap fleet push --to http://localhost:8123 /srv/snapshots",
	.option = { { cluster_to_rows, FIELD(cluster), "Server" }, { cluster_rows, FIELD(cluster), "Server" },
		    { top_rows, 0, "Which snapshots" },
		    { catalogue_rows, FIELD(fleet), "Which snapshots" }, { where_rows, FIELD(fleet), "Which snapshots" } },
	.defaults = &(const struct fleet_push_options){ .fleet = { FLEET_DEFAULTS }, .cluster = { CLUSTER_DEFAULTS } },
	.options_size = sizeof(struct fleet_push_options),
	.run = run,
};
