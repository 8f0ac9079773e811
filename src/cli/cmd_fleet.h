/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CMD_FLEET_H
#define ALLOCSNAP_CLI_CMD_FLEET_H

/* The commands of `allocsnap fleet` share these options, and the catalogue that they read. */

#include "cli/cmd.h"
#include "cli/cmd_stats.h"
#include "engine/tally.h"
#include "fleet/cluster/cluster.h"
#include "fleet/selection.h"
#include "fleet/sum.h"
#include "fleet/dictionary.h"
#include "render.h"
#include "render/caveats.h"

struct catalogue_merge;
struct cluster_units;
struct fleet_answer;
struct fleet_question;

/* Options of commands that reach a ClickHouse. Rows for fields of struct cluster_options: --to; what CLUSTER_ROWS() has. */
extern const struct option_row cluster_to_rows[], cluster_rows[];

/* --database, --credentials, --ca-file and --timeout, of a struct cluster_options at this offset. */
#define CLUSTER_ROWS(at) \
	{ "database", 0, OPTION_STRING, (at) + offsetof(struct cluster_options, database), .arg = "NAME", \
	  .help = "use this database of the ClickHouse" }, \
	{ "credentials", 0, OPTION_STRING, (at) + offsetof(struct cluster_options, credentials), .arg = "FILE", \
	  .help = "read user=NAME and password=PASSWORD, or token=TOKEN, from FILE" }, \
	{ "ca-file", 0, OPTION_STRING, (at) + offsetof(struct cluster_options, ca_file), .arg = "FILE", \
	  .help = "trust the certificates in FILE instead of the system's" }, \
	{ "timeout", 0, OPTION_DURATION, (at) + offsetof(struct cluster_options, timeout_ns), .arg = "TIME", \
	  .help = "wait TIME for each answer of the ClickHouse", .least = 1000000, .most = 86400000000000 }

#define CLUSTER_DEFAULTS .database = CLUSTER_DATABASE, .timeout_ns = CLUSTER_TIMEOUT_NS

#define CREDENTIALS_DETAIL \
	"Credentials come from a file that other users cannot read, or from ALLOCSNAP_CLUSTER_USER and " \
	"ALLOCSNAP_CLUSTER_PASSWORD, or ALLOCSNAP_CLUSTER_TOKEN, in the environment."

/*
 * Opens a connection for a command, after a look at its tables if has_tables. Returns an exit status; failures have been
 * reported.
 */
int cluster_begin(const struct command *command, const struct cluster_options *options, bool has_tables,
		  struct cluster **ret);

struct fleet_options {
	const char *catalogue;
	struct string_list more; /* --catalogue of a question: these instead */
	struct cluster_options cluster; /* without a URL, the catalogue is asked */
	struct string_list where;
	bool all_times, all_processes;
	struct string_list strip_prefix;
	bool line_drift;
	struct stats_options stats;
};

#define FLEET_DEFAULTS .catalogue = "./allocsnap-fleet.db", .cluster = { CLUSTER_DEFAULTS }, .stats = { STATS_DEFAULTS }

extern const struct command cmd_fleet, cmd_fleet_index, cmd_fleet_stats, cmd_fleet_diff, cmd_fleet_hosts,
	cmd_fleet_leaks, cmd_fleet_export, cmd_report_fleet,
	cmd_fleet_init, cmd_fleet_push, cmd_fleet_forget;

/*
 * Rows for fields of struct fleet_options: --catalogue; --catalogue and --from, and what belongs to it; --where;
 * --strip-prefix and --line-drift; --all-times; --all-processes.
 */
extern const struct option_row catalogue_rows[], source_rows[], where_rows[], names_rows[], times_rows[], live_rows[];

/* Rows for fields of struct stats_options: --group-by and --cumulative; the same, --top and --json for lists. */
extern const struct option_row fleet_group_rows[], fleet_list_rows[];

/* For a command's detail, which has one paragraph a line (cli/cmd_help.h). */
#define SELECTION_DETAIL \
	"SEL selects snapshots: KEY OP VALUE, separated by commas; all must be true. Keys with patterns (= !=): " \
	"host comm exe build-id cgroup container boot kernel version trigger end path pod namespace label.NAME. Keys with " \
	"numbers (= != < <= > >=): pid size count time. A time is 2026-11-21 or 2026-11-21T03:15 (UTC, or RFC " \
	"3339 with an offset), seconds since 1970, or a duration ago: -24h. The values of end are: running, " \
	"exited 0, killed by signal 9, replaced by exec, gone with an earlier boot, not seen again. Examples:\n" \
	"  'host=web-*,comm=redis*'   'label.version=1.4,time>=-24h'\n" \
	"  'time=2026-11-21'"

/* ---- a catalogue and its snapshots -------------------------------------------------------- */

struct fleet {
	const struct fleet_options *options;
	struct cluster *cluster; /* NULL: there is a catalogue */
	struct cluster_units *units; /* of a cluster, after fleet_read() */
	bool wants_labels; /* of a cluster's snapshots */
	struct catalogue_merge *merge; /* NULL: there is one catalogue */
	struct catalogue *catalogue;
	struct fleet_facts facts;
	struct dictionary dictionary;
	struct chosen chosen;
	struct fleet_sum sum[2]; /* of a cluster's cohorts */
};

/*
 * Checks the options, and opens the catalogue or the cluster: the facts of a catalogue, no names yet. Returns an exit status; failures have
 * been reported. fleet_end() frees *ret, also after a failure.
 */
int fleet_begin(const struct command *command, const struct fleet_options *options, struct fleet *ret);
void fleet_end(struct fleet *fleet);

/* The same for a command that asks no question; *fleet has its options. */
int fleet_open(struct fleet *fleet);

/* The catalogue's path, or the cluster's URL. */
const char *fleet_source_name(const struct fleet *fleet);

/* The answer of a cluster that a question needs. */
enum fleet_need {
	FLEET_SUMS, /* by what the question's keys need of tracebacks: fleet_add_up(), cluster_units__hosts() */
	FLEET_ROWS, /* cluster_rows__read() */
	FLEET_NAMES, /* of all tracebacks, and no rows */
};

/* After the cohorts have been chosen: reads their rows and the names. Returns an exit status. */
int fleet_read(struct fleet *fleet, const struct cohort *const *cohort, size_t cohort_nr, enum fleet_need need);

/* The sum of cohort number `at` of fleet_read(). Errors as of fleet_sum_make(). */
int fleet_add_up(struct fleet *fleet, const struct cohort *cohort, size_t at, struct fleet_sum *ret, struct reason *why);

/*
 * Closes the catalogue after all rows have been read, because `fleet index` cannot commit while it is open. Facts and
 * dictionary stay. To be called before anything is printed: a pager may wait for hours.
 */
void fleet_let_go(struct fleet *fleet);

/* One option whose selections must all match. */
struct fleet_where {
	const char *option; /* "where" */
	const struct string_list *list;
};

#define FLEET_WHERE_MAX 2

struct fleet_choice {
	struct fleet_where where[FLEET_WHERE_MAX]; /* all must match; an option without a name is none */
	enum cohort_times times;
	struct cohort *ret;
};

/*
 * Finds the snapshots of each choice, at most CLUSTER_CHOICES_MAX. If it finds none for one, it reports a failure.
 * cohort_release() frees each *ret, also after a failure.
 */
int fleet_choose(const struct command *command, struct fleet *fleet, const struct fleet_choice *choice, size_t choice_nr);

/* The same for one choice by --where. */
int fleet_choose_where(const struct command *command, struct fleet *fleet, enum cohort_times times, struct cohort *ret);

/* ---- reports ------------------------------------------------------------------------------ */

/* A report about one cohort or two: the parts that do not depend on its rows, and the memory that it points into. */
struct fleet_report {
	struct report report;
	const struct snapshot *dictionary;
	struct report_cohort cohort[2];
	struct warnings doubts;
	struct report_loss *loss;
	size_t loss_nr, loss_alloc;
};

/*
 * Makes the report and prints losses and warnings to stderr. Returns EXIT_DONE or EXIT_FAILED. fleet_report_release()
 * frees *ret, also after a failure.
 */
int fleet_report_make(const struct fleet *fleet, const struct cohort *const *cohort, size_t cohort_nr,
		      struct fleet_report *ret);
void fleet_report_release(struct fleet_report *report);

/*
 * Brings snapshots into a catalogue, and logs what could not be read: then *ret_is_whole is false. Returns an exit
 * status.
 */
int index_folders(const char *catalogue_path, const char *const *dir, size_t dir_nr, bool *ret_is_whole);

/* The lines that leak in the processes of some folders. Members as options of `fleet leaks`. */
struct folders_question {
	const char *const *folder;
	size_t folder_nr;
	const struct select_options *select;
	uint64_t last_ns, top;
	bool shows_all, full_names, is_json;
	const struct leak_limit *limit;
};

/* Answers as `fleet leaks` does, by a catalogue that is removed afterwards. Returns an exit status. */
int folders_leaks(const struct folders_question *question);

/* A command that lists rows about one cohort: hosts or leaks. */
struct fleet_list {
	const struct command *command;
	enum cohort_times times;
	/* Reads the rows, calls fleet_let_go() and prints *answer with the rows. Returns an exit status. */
	int (*run)(struct fleet *fleet, const struct fleet_question *question,
		   struct fleet_answer *answer, bool is_json);
	bool reads_files; /* run() filters blocks itself, by what the files say: the groups are unfiltered */
};

int fleet_list_run(const struct fleet_list *list, const struct fleet_options *options);

/* The options of all commands that list rows, and some more. */
#define FLEET_LIST_OPTIONS(...) \
	.option = { { source_rows, 0, "Which snapshots" }, \
		    { where_rows, 0, "Which snapshots" }, __VA_ARGS__ \
		    { fleet_list_rows, offsetof(struct fleet_options, stats), "Report" }, \
		    { names_rows, 0, "Report" }, \
		    { filter_rows, offsetof(struct fleet_options, stats.select), "Filters" }, \
		    { wrapper_rows, offsetof(struct fleet_options, stats.select), "Own frames" } }, \
	.defaults = &(const struct fleet_options){ FLEET_DEFAULTS }, \
	.options_size = sizeof(struct fleet_options), \
	.pages = true

#endif
