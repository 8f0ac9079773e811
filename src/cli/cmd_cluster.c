// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/cmd_cluster.h"

#include <errno.h>

#include "base/reason.h"
#include "fleet/cluster/cluster_schema.h"

#define FIELD(name) offsetof(struct cluster_options, name)

const struct option_row cluster_to_rows[] = {
	{ "to", 0, OPTION_STRING, FIELD(url), .arg = "URL", .help = "the ClickHouse: http://HOST:8123, or https" },
	{},
};

const struct option_row cluster_rows[] = {
	CLUSTER_ROWS(0),
	{},
};

int cluster_begin(const struct command *command, const struct cluster_options *options, bool has_tables,
		  struct cluster **ret)
{
	struct reason why = { "out of memory" };
	int err;

	*ret = NULL;
	if (!options->url)
		return log_refusal(command, "--to says which ClickHouse");
	err = cluster_options_check(options, &why);
	if (err)
		return err == -EINVAL ? log_refusal(command, "%s", why.text) : log_failure("%s", why.text);
	err = cluster__new(options, ret, &why);
	if (!err && has_tables)
		err = cluster_schema_check(*ret, &why);
	return err ? log_failure("%s", why.text) : EXIT_DONE;
}
