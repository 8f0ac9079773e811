// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/cmd_fleet.h"

/* ---- options of several of its commands ---------------------------------------------------------- */

#define FIELD(name) offsetof(struct fleet_options, name)

const struct option_row catalogue_rows[] = {
	{ "catalogue", 'C', OPTION_STRING, FIELD(catalogue),
	  .arg = "FILE", .help = "the catalogue (default ./allocsnap-fleet.db)" },
	{},
};

const struct option_row where_rows[] = {
	{ "where", 'w', OPTION_LIST, FIELD(where),
	  .arg = "SEL", .help = "only snapshots that SEL matches (see below); repeatable: all of them" },
	{},
};

const struct option_row times_rows[] = {
	{ "all-times", 0, OPTION_FLAG, FIELD(all_times),
	  .help = "all snapshots of a process, not only the latest that matches" },
	{},
};

const struct option_row names_rows[] = {
	{ "strip-prefix", 0, OPTION_LIST, FIELD(strip_prefix),
	  .arg = "P", .help = "take P from the beginning of paths; repeatable: the first that fits" },
	{ "line-drift", 0, OPTION_FLAG, FIELD(line_drift),
	  .help = "lines by their distance from their function's first: the same in other builds" },
	{},
};

#undef FIELD
#define FIELD(name) offsetof(struct stats_options, name)

/* Those that are known of a sum of many snapshots. */
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

const struct option_row fleet_group_rows[] = {
	{ "group-by", 'g', OPTION_CUSTOM, FIELD(key_type), .parse = parse_key_type,
	  .choice = fleet_key_choice,
	  .arg = "KEY", .help = "what makes a group (default lineno; traceback for folded):" },
	{ "cumulative", 'c', OPTION_FLAG, FIELD(cumulative),
	  .help = "add a block to every frame of its traceback, again in a recursion" },
	{},
};

const struct option_row fleet_list_rows[] = {
	{ "top", 'n', OPTION_COUNT, FIELD(top), .most = UINT32_MAX,
	  .arg = "N", .help = "rows to show (default 10); 0: all" },
	{ "json", 'j', OPTION_CUSTOM, FIELD(format), .parse = parse_json,
	  .help = "one object, exact integers" },
	{},
};

/* ---- the command ------------------------------------------------------------------------------------ */

/* In the order of `allocsnap fleet --help`. */
static const struct command *const subcommands[] = {
	&cmd_fleet_index, &cmd_fleet_stats, &cmd_fleet_diff, &cmd_fleet_hosts, &cmd_fleet_trend,
	&cmd_fleet_leaks, NULL,
};

const struct command cmd_fleet = {
	.name = "fleet",
	.args = "COMMAND ...",
	.help = "many snapshots of many hosts: which lines grew, on which, since which version",
	.detail = "Snapshots are brought into a catalogue once, and again when there are new ones; the other commands\n"
		  "ask the catalogue alone:\n"
		  "  allocsnap fleet index /srv/snapshots\n"
		  "  allocsnap fleet diff --baseline label.version=1.3 --candidate label.version=1.4\n"
		  "  allocsnap fleet leaks --where comm=shopd",
	.subcommand = subcommands,
};
