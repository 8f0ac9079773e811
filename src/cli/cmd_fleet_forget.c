// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap fleet forget: removes snapshots from a catalogue, or from a ClickHouse. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/catalogue.h"
#include "fleet/cluster/cluster_forget.h"

struct forget_options {
	struct fleet_options fleet;
	struct string_list from; /* all servers of a cluster */
};

static int report_forgotten(const struct cohort *cohort)
{
	printf("%zu snapshot%s forgotten, %" PRIu64 " row%s\n", cohort->snapshot_nr, cohort->snapshot_nr == 1 ? "" : "s",
	       cohort_row_nr(cohort), cohort_row_nr(cohort) == 1 ? "" : "s");
	return EXIT_DONE;
}

/* ---- a catalogue ---------------------------------------------------------------------------------------------- */

static void report_other_writer(void *what, const char *path)
{
	(void)what;
	log_info("%s: an index is writing; waiting", path);
}

/* The facts, which the cohort points into, stay when the reader is closed; a commit waits for readers. */
static int forget_in_catalogue(struct fleet *fleet, const struct cohort *cohort)
{
	struct catalogue *catalogue = NULL;
	struct reason why = { "out of memory" };
	int err;

	fleet_let_go(fleet);
	err = catalogue__open_to_write(fleet_source_name(fleet), report_other_writer, NULL, &catalogue, &why);
	if (!err)
		err = catalogue_forget(catalogue, cohort, &why);
	catalogue__close(catalogue);
	return err ? log_failure("%s", why.text) : report_forgotten(cohort);
}

/* ---- servers -------------------------------------------------------------------------------------------------- */

/* A connection to each server. */
struct forget_servers {
	struct cluster_options *options;
	struct cluster **server;
	size_t server_nr;
};

static int open_servers(const struct forget_options *options, struct forget_servers *ret)
{
	size_t nr = options->from.item_nr;
	int status = EXIT_DONE;

	ret->options = calloc(nr, sizeof(*ret->options));
	ret->server = calloc(nr, sizeof(*ret->server));
	if (!ret->options || !ret->server)
		return log_failure("out of memory");
	for (; ret->server_nr < nr && !status; ret->server_nr++) {
		struct cluster_options *own = &ret->options[ret->server_nr];

		*own = options->fleet.cluster;
		own->url = options->from.item[ret->server_nr];
		status = cluster_begin(&cmd_fleet_forget, own, true, &ret->server[ret->server_nr]);
	}
	return status;
}

static int forget_on_servers(const struct forget_options *options, const struct cohort *cohort)
{
	struct forget_servers servers = {};
	struct reason why = { "out of memory" };
	int status = open_servers(options, &servers);

	if (!status && cluster_forget(&(struct cluster_forget){ servers.server, servers.server_nr, cohort }, &why))
		status = log_failure("%s", why.text);
	else if (!status)
		status = report_forgotten(cohort);
	for (size_t i = 0; i < servers.server_nr; i++)
		cluster__free(servers.server[i]);
	free(servers.server);
	free(servers.options);
	return status;
}

/* ---- the command ---------------------------------------------------------------------------------------------- */

static int check_forget(const struct forget_options *options)
{
	if (!options->fleet.where.item_nr)
		return log_refusal(&cmd_fleet_forget, "--where says which snapshots; 'time>=0' is all");
	if (options->fleet.more.item_nr && options->from.item_nr)
		return log_refusal(&cmd_fleet_forget, "--catalogue and --from exclude each other");
	if (options->fleet.more.item_nr > 1)
		return log_refusal(&cmd_fleet_forget, "one --catalogue at a time");
	return EXIT_DONE;
}

static int run(const void *command_options, const struct arguments *args)
{
	struct forget_options options = *(const struct forget_options *)command_options;
	struct fleet fleet = { .options = &options.fleet };
	struct cohort cohort = {};
	int status = check_forget(&options);

	(void)args;
	if (status)
		return status;
	options.fleet.cluster.url = options.from.item_nr ? options.from.item[0] : NULL;
	status = fleet_open(&fleet);
	if (!status)
		status = fleet_choose_where(&cmd_fleet_forget, &fleet, COHORT_WITH_PARTS, &cohort);
	if (!status)
		status = options.from.item_nr ? forget_on_servers(&options, &cohort) : forget_in_catalogue(&fleet, &cohort);
	cohort_release(&cohort);
	fleet_end(&fleet);
	return status;
}

#define FIELD(name) offsetof(struct forget_options, name)

static const struct option_row rows[] = {
	{ "catalogue", 'C', OPTION_LIST, FIELD(fleet.more), .default_text = "./allocsnap-fleet.db",
	  .arg = "FILE", .help = "use this catalogue" },
	{ "from", 0, OPTION_LIST, FIELD(from), .arg = "URL",
	  .help = "remove them from the ClickHouse there instead; repeatable: each server of a cluster" },
	CLUSTER_ROWS(FIELD(fleet.cluster)),
	{},
};

const struct command cmd_fleet_forget = {
	.name = "fleet forget",
	.args = "--where SEL",
	.help = "remove snapshots from the catalogue, or from a ClickHouse",
	.detail = "Their files stay, and are not indexed again. The catalogue's file keeps its size: what is indexed later "
		  "takes the room. A ClickHouse gets them again by 'fleet push' of a catalogue that still has them.\n\n"
		  CREDENTIALS_DETAIL "\n\n" SELECTION_DETAIL,
	.example = "allocsnap fleet forget --where 'time<-30d'",
	.option = { { rows, 0, "Which snapshots" }, { where_rows, FIELD(fleet), "Which snapshots" } },
	.defaults = &(const struct forget_options){ .fleet = { FLEET_DEFAULTS } },
	.options_size = sizeof(struct forget_options),
	.run = run,
};
