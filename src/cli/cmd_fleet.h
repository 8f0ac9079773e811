/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CMD_FLEET_H
#define ALLOCSNAP_CMD_FLEET_H

/* What the commands of `allocsnap fleet` share: options, and a catalogue that a question is asked of. */

#include "cli/cmd_stats.h"
#include "engine/tally.h"
#include "fleet/dictionary.h"
#include "fleet/selection.h"
#include "cli/fleet_doubts.h"
#include "render.h"

struct fleet_answer;
struct fleet_question;
struct fleet_renderer;

struct fleet_options {
	const char *catalogue;
	struct string_list where;
	bool all_times;
	struct string_list strip_prefix;
	bool line_drift;
	struct stats_options stats;
};

#define FLEET_DEFAULTS .catalogue = "./allocsnap-fleet.db", .stats = { STATS_DEFAULTS }

extern const struct command cmd_fleet, cmd_fleet_index, cmd_fleet_stats, cmd_fleet_diff, cmd_fleet_hosts,
	cmd_fleet_trend, cmd_fleet_leaks;

/* --catalogue; --where; --strip-prefix and --line-drift; --all-times: fields of struct fleet_options. */
extern const struct option_row catalogue_rows[], where_rows[], names_rows[], times_rows[];

/* --group-by and --cumulative; --top and --json where a list has no other formats: of struct stats_options. */
extern const struct option_row fleet_group_rows[], fleet_list_rows[];

/* For a command's detail. */
#define SELECTION_DETAIL \
	"SEL says which snapshots: KEY OP VALUE with commas between, all of them true. Keys with patterns (= !=):\n" \
	"host comm exe build-id cgroup container boot kernel version trigger end path label.NAME; with\n" \
	"numbers (= != < <= > >=): pid size count time. A time is 2026-11-21 or 2026-11-21T03:15 (UTC, or\n" \
	"RFC 3339 with an offset), seconds since 1970, or a duration ago, -24h. end is what became of the process:\n" \
	"running, exited 0, killed by signal 9, replaced by exec, gone with an earlier boot.\n" \
	"Examples:  'host=web-*,comm=redis*'  'label.version=1.4,time>=-24h'  'time=2026-11-21'"

/* ---- a catalogue, and who is asked -------------------------------------------------------- */

struct fleet {
	const struct fleet_options *options;
	struct catalogue *catalogue;
	struct fleet_facts facts;
	struct dictionary dictionary;
	struct chosen chosen;
};

/*
 * The question, and the catalogue that it is put to. An exit status; what fails has been said. Ends with fleet_end(),
 * also after a failure.
 */
int fleet_begin(const struct command *command, const struct fleet_options *options, struct fleet *ret);
void fleet_end(struct fleet *fleet);

/*
 * All rows have been read: closes the catalogue, for which a commit of `fleet index` waits. Facts and dictionary stay. Before
 * anything is written: a pager may wait for hours.
 */
void fleet_let_go(struct fleet *fleet);

/* One option whose selections must all match. */
struct fleet_where {
	const char *option; /* "where" */
	const struct string_list *list;
};

#define FLEET_WHERE_MAX 2

/*
 * The snapshots that match all of them, which are FLEET_WHERE_MAX or less. None is a failure that has been said. Ends with
 * cohort_release(), also after a failure.
 */
int fleet_choose(const struct command *command, const struct fleet *fleet, const struct fleet_where *where,
		 size_t where_nr, enum cohort_times times, struct cohort *ret);

/* ---- answers ------------------------------------------------------------------------------ */

/* Of one cohort, or two: what a report of them has whatever its rows are, and the memory that it points into. */
struct fleet_report {
	struct report report;
	const struct snapshot *dictionary;
	struct report_cohort cohort[2];
	struct fleet_doubts doubts;
	struct report_loss *loss;
	size_t loss_nr, loss_alloc;
};

/* Also says losses and warnings. EXIT_DONE or EXIT_FAILED. Ends with fleet_report_release(), also after a failure. */
int fleet_report_make(const struct fleet *fleet, const struct cohort *const *cohort, size_t cohort_nr,
		      struct fleet_report *ret);
void fleet_report_release(struct fleet_report *report);

/* Hosts, trend and leaks: a list about one cohort. */
struct fleet_list {
	const struct command *command;
	enum cohort_times times;
	/* Puts the question, lets the fleet go, writes the answer with its rows; an exit status. */
	int (*run)(struct fleet *fleet, const struct fleet_question *question,
		   struct fleet_answer *answer, const struct fleet_renderer *format);
};

int fleet_list_run(const struct fleet_list *list, const struct fleet_options *options);

/* Of a command that answers with a list: what all of them take. */
#define FLEET_LIST_OPTIONS \
	.option = { { .row = catalogue_rows }, \
		    { .row = where_rows }, \
		    { fleet_group_rows, offsetof(struct fleet_options, stats) }, \
		    { fleet_list_rows, offsetof(struct fleet_options, stats) }, \
		    { .row = names_rows }, \
		    { filter_rows, offsetof(struct fleet_options, stats.select) }, \
		    { wrapper_rows, offsetof(struct fleet_options, stats.select) } }, \
	.defaults = &(const struct fleet_options){ FLEET_DEFAULTS }, \
	.options_size = sizeof(struct fleet_options)

#endif
