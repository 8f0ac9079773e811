// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap fleet init: makes the row tables in a ClickHouse. */
#include <stdlib.h>

#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/cluster/cluster_schema.h"

#define DAY_NS 86400000000000
#define KEEP_DAYS_MOST 10000 /* a server's DateTime ends in 2106: what is kept longer would be removed at once */

struct init_options {
	struct string_list to;
	const char *cluster_name;
	uint64_t keep_ns;
	bool print;
	struct cluster_options cluster;
};

static int print_schema(const struct schema_options *schema)
{
	char *text = schema_text(schema);

	if (!text)
		return log_failure("out of memory");
	fputs(text, stdout);
	free(text);
	return EXIT_DONE;
}

/* schema is NULL in the second step. */
static int init_server(const struct cluster_options *options, const struct schema_options *schema)
{
	struct reason why = { "out of memory" };
	struct cluster *cluster;
	int err, status = cluster_begin(&cmd_fleet_init, options, false, &cluster);

	if (status)
		return status;
	err = schema ? cluster_schema_make(cluster, schema, &why) : cluster_schema_set_version(cluster, &why);
	if (!err && !schema)
		printf("%s: database %s has the tables\n", options->url, options->database);
	cluster__free(cluster);
	return err ? log_failure("%s", why.text) : EXIT_DONE;
}

static int init_servers(const struct init_options *options, const struct schema_options *schema)
{
	struct cluster_options server = options->cluster;
	int status = EXIT_DONE;

	for (size_t i = 0; i < options->to.item_nr && !status; i++) {
		server.url = options->to.item[i];
		status = init_server(&server, schema);
	}
	return status;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct init_options *options = command_options;
	const struct schema_options schema = {
		.database = options->cluster.database, .cluster = options->cluster_name,
		.keep_days = options->keep_ns / DAY_NS,
	};
	struct reason why;

	(void)args;
	if (schema_options_check(&schema, &why))
		return log_refusal(&cmd_fleet_init, "%s", why.text);
	if (!options->cluster_name && options->to.item_nr > 1)
		return log_refusal(&cmd_fleet_init,
				   "several --to need --cluster NAME: they are the servers of one cluster");
	if (options->print)
		return print_schema(&schema);
	if (!options->to.item_nr)
		return log_refusal(&cmd_fleet_init, "--to says which ClickHouse");
	return init_servers(options, &schema) ?: init_servers(options, NULL);
}

#define FIELD(name) offsetof(struct init_options, name)

static const struct option_row rows[] = {
	{ "to", 0, OPTION_LIST, FIELD(to), .arg = "URL",
	  .help = "the ClickHouse: http://HOST:8123, or https; repeatable: each server of a cluster" },
	{ "cluster", 0, OPTION_STRING, FIELD(cluster_name), .arg = "NAME",
	  .help = "make tables over all servers of this cluster, by its name in their configuration" },
	{ "keep", 0, OPTION_DURATION, FIELD(keep_ns), .arg = "TIME", .default_text = "keep all",
	  .help = "let the server remove snapshots older than TIME, in whole days", .least = DAY_NS,
	  .most = KEEP_DAYS_MOST * DAY_NS },
	{ "print", 0, OPTION_FLAG, FIELD(print), .help = "print the statements without contacting a server" },
	{},
};

const struct command cmd_fleet_init = {
	.name = "fleet init",
	.args = "--to URL",
	.help = "make the tables for a fleet in a ClickHouse, one server or a cluster",
	.detail = "Tables that are there stay. Tables of another version are refused. --keep needs ClickHouse 19.6 or "
		  "newer.\n\n"
		  CREDENTIALS_DETAIL,
	.example = "allocsnap fleet init --to http://localhost:8123",
	.option = { { rows, 0, "Server" }, { cluster_rows, FIELD(cluster), "Server" } },
	.defaults = &(const struct init_options){ .cluster = { CLUSTER_DEFAULTS } },
	.options_size = sizeof(struct init_options),
	.run = run,
};
