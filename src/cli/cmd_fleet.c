// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/cmd_fleet.h"

#include <errno.h>

#include "base/reason.h"
#include "fleet/cluster/cluster_schema.h"

/* ---- reaching a ClickHouse ------------------------------------------------------------------ */

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

/* ---- options that several fleet commands share ---------------------------------------------------- */

#undef FIELD
#define FIELD(name) offsetof(struct fleet_options, name)

const struct option_row catalogue_rows[] = {
	{ "catalogue", 'C', OPTION_STRING, FIELD(catalogue),
	  .arg = "FILE", .help = "use this catalogue" },
	{},
};

const struct option_row source_rows[] = {
	{ "catalogue", 'C', OPTION_LIST, FIELD(more), .default_text = "./allocsnap-fleet.db",
	  .arg = "FILE", .help = "use this catalogue; repeatable: combines several" },
	{ "from", 0, OPTION_STRING, FIELD(cluster.url), .arg = "URL",
	  .help = "ask the ClickHouse there, http://HOST:8123 or https, instead of a catalogue" },
	CLUSTER_ROWS(FIELD(cluster)),
	{},
};

const struct option_row where_rows[] = {
	{ "where", 'w', OPTION_LIST, FIELD(where),
	  .arg = "SEL", .help = "use only snapshots that match SEL (see below); repeatable: all of them must match" },
	{},
};

const struct option_row times_rows[] = {
	{ "all-times", 0, OPTION_FLAG, FIELD(all_times),
	  .help = "use all snapshots of a process, not only the latest one that matches" },
	{},
};

const struct option_row live_rows[] = {
	{ "all-processes", 0, OPTION_FLAG, FIELD(all_processes),
	  .help = "also add processes that had ended or were not seen again (see below)" },
	{},
};

const struct option_row names_rows[] = {
	{ "strip-prefix", 0, OPTION_LIST, FIELD(strip_prefix),
	  .arg = "P", .help = "remove P from the beginning of paths; repeatable: the first match counts" },
	{ "line-drift", 0, OPTION_FLAG, FIELD(line_drift),
	  .help = "count lines from the first line of their function, so that lines of different builds match" },
	{},
};

#undef FIELD
#define FIELD(name) offsetof(struct stats_options, name)

/* Lists the keys that a sum of many snapshots still has. */
static bool fleet_key_choice(size_t at, struct option_choice *ret)
{
	for (enum key_type i = 0; i < KEY_TYPE_NR; i++) {
		if (tally_check(&(struct engine_options){ .key_type = i }, NULL) || at--)
			continue;
		*ret = (struct option_choice){ .name = key_type_name(i) };
		return true;
	}
	return false;
}

#define GROUP_ROWS(default_key) \
	{ "group-by", 'g', OPTION_CUSTOM, FIELD(key_type), .parse = parse_key_type, \
	  .choice = fleet_key_choice, \
	  .arg = "KEY", .default_text = default_key, .help = "group blocks by KEY" }, \
	{ "cumulative", 'c', OPTION_FLAG, FIELD(cumulative), \
	  .help = "count a block for every frame of its traceback, once per call in a recursion" }

const struct option_row fleet_group_rows[] = {
	GROUP_ROWS("lineno; traceback for folded, pprof"),
	{},
};

const struct option_row fleet_list_rows[] = {
	GROUP_ROWS("lineno"),
	{ "top", 'n', OPTION_COUNT, FIELD(top), .most = UINT32_MAX,
	  .arg = "N", .default_text = "10", .help = "show the first N rows; 0 shows all" },
	{ "full-names", 'v', OPTION_FLAG, FIELD(full_names),
	  .help = "print functions with parameters and all template arguments, and do not cut rows to the terminal" },
	{ "json", 'j', OPTION_CUSTOM, FIELD(format), .parse = parse_json,
	  .help = "print one JSON object with exact integers" },
	{},
};

/* ---- the command ------------------------------------------------------------------------------------ */

/* In the order of `allocsnap fleet --help`. */
static const struct command *const subcommands[] = {
	&cmd_fleet_index, &cmd_fleet_stats, &cmd_fleet_diff, &cmd_fleet_hosts,
	&cmd_fleet_leaks, &cmd_report_fleet, &cmd_fleet_export, &cmd_fleet_init,
	&cmd_fleet_push, &cmd_fleet_forget, NULL,
};

const struct command cmd_fleet = {
	.name = "fleet",
	.args = "COMMAND ...",
	.help = "compare many hosts: which lines grew, on which hosts, since which version",
	.detail = "'fleet index' reads snapshots into a catalogue, and again when there are new ones. The other "
		  "commands read only the catalogue, or a ClickHouse that 'fleet push' fills:\n"
		  "  allocsnap fleet index /srv/snapshots\n"
		  "  allocsnap fleet leaks --where comm=shopd",
	.example = "allocsnap fleet diff --baseline label.version=1 --candidate label.version=2",
	.subcommand = subcommands,
};
