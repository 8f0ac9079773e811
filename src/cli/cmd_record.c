// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap record: records every process of the machine that the rules admit, running now or started later. */
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/units.h"
#include "base/reason.h"
#include "cli/cmd_attach.h"
#include "cli/recording_place.h"
#include "collect.h"
#include "record/metrics.h"
#include "record/record.h"
#include "base/privileges.h"

extern const struct command cmd_record;

#define KEYS 5

struct record_command_options {
	struct capture_options capture;
	struct string_list include[KEYS]; /* enum admission_key */
	struct string_list exclude;	  /* "KEY=VALUE" */
	uint64_t min_bytes;
	uint64_t max_disk, keep_ns;
	const char *metrics;
};

#define FIELD(name) offsetof(struct record_command_options, name)

static int parse_min_bytes(const char *text, void *field, struct reason *why)
{
	uint64_t bytes;

	if (parse_size(text, &bytes))
		return reason_set(why, -EINVAL, "'%.100s' is not a size such as 4096, 64K, 10MiB or 1G",
				  text);
	*(uint64_t *)field = bytes;
	return 0;
}

static const struct option_row filter_process_rows[] = {
	{ "comm", 0, OPTION_LIST, FIELD(include[ADMISSION_COMM]), .arg = "GLOB",
	  .help = "record processes with this name: 'redis*'; repeatable, as all options of this group", .rank = 1,
	  .brief = "record processes with this name: 'redis*'; repeatable" },
	{ "exe", 0, OPTION_LIST, FIELD(include[ADMISSION_EXE]), .arg = "GLOB",
	  .help = "record processes whose program has this path: '/srv/*/bin/*'", .rank = 2,
	  .brief = "record processes of this program: '/srv/*/bin/*'" },
	{ "cgroup", 0, OPTION_LIST, FIELD(include[ADMISSION_CGROUP]), .arg = "GLOB",
	  .help = "record processes in this control group: '/system.slice/shop*'", .rank = 3,
	  .brief = "record processes in this control group: '/system.slice/*'" },
	{ "uid", 0, OPTION_LIST, FIELD(include[ADMISSION_UID]), .arg = "USER",
	  .help = "record processes of this effective user, a name or a number", .rank = 4,
	  .brief = "record processes of this user" },
	{ "pid", 0, OPTION_LIST, FIELD(include[ADMISSION_PID]), .arg = "PID",
	  .help = "record PID; with only --pid filters, probes affect only these processes", .rank = 5 },
	{ "exclude", 0, OPTION_LIST, FIELD(exclude), .arg = "KEY=VALUE",
	  .help = "skip processes that match; KEY is one of the options above: 'comm=ssh*', 'uid=root'", .rank = 6 },
	{ "min-bytes", 0, OPTION_CUSTOM, FIELD(min_bytes), .arg = "SIZE", .default_text = "64K",
	  .help = "skip processes that lived less than one interval, and children that hold nothing, if they never "
		  "held SIZE bytes",
	  .parse = parse_min_bytes },
	{},
};

static const struct option_row service_rows[] = {
	{ "max-disk", 0, OPTION_CUSTOM, FIELD(max_disk), .arg = "SIZE", .default_text = "no limit",
	  .help = "use at most SIZE bytes of disk for snapshots; older snapshots are thinned out",
	  .parse = parse_min_bytes, .rank = 12 },
	{ "keep", 0, OPTION_DURATION, FIELD(keep_ns), .arg = "DURATION", .default_text = "keep all",
	  .least = 1000000000, .most = 100ULL * 365 * 24 * 3600 * 1000000000,
	  .help = "remove snapshots older than DURATION, such as 7d", .rank = 13 },
	{ "metrics", 0, OPTION_STRING, FIELD(metrics), .arg = "FILE",
	  .help = "write FILE for Prometheus's textfile collector, after each pass and every 15 s", .rank = 15 },
	{},
};

static size_t count_rules(const struct record_command_options *options)
{
	size_t nr = options->exclude.item_nr;

	for (int key = 0; key < KEYS; key++)
		nr += options->include[key].item_nr;
	return nr;
}

/* The rule of --exclude KEY=VALUE. Returns false if there is no such key. */
static bool parse_exclude(const char *text, struct admission_rule *ret)
{
	static const char *const name[KEYS] = {
		[ADMISSION_COMM] = "comm", [ADMISSION_EXE] = "exe", [ADMISSION_CGROUP] = "cgroup",
		[ADMISSION_UID] = "uid", [ADMISSION_PID] = "pid",
	};
	size_t len = strcspn(text, "=");

	for (int key = 0; key < KEYS && text[len]; key++) {
		if (strlen(name[key]) != len || memcmp(name[key], text, len))
			continue;
		*ret = (struct admission_rule){ key, .excludes = true, .pattern = text + len + 1 };
		return true;
	}
	return false;
}

/* Returns EXIT_REFUSED, reported, if one of them is no rule. */
static int make_rules(const struct record_command_options *options, struct admission_rule *rule)
{
	for (int key = 0; key < KEYS; key++)
		for (size_t i = 0; i < options->include[key].item_nr; i++)
			*rule++ = (struct admission_rule){ key, .pattern = options->include[key].item[i] };
	for (size_t i = 0; i < options->exclude.item_nr; i++)
		if (!parse_exclude(options->exclude.item[i], rule++))
			return log_refusal(&cmd_record, "--exclude: '%.100s' is not KEY=VALUE with comm, exe, cgroup, "
					   "uid or pid as KEY", options->exclude.item[i]);
	return EXIT_DONE;
}

static int check_rules(const struct admission_rule *rule, size_t nr)
{
	struct reason why;

	if (nr > ADMISSION_RULES_MOST)
		return log_refusal(&cmd_record, "there can be %d rules at most", ADMISSION_RULES_MOST);
	for (size_t i = 0; i < nr; i++)
		if (admission_rule_check(&rule[i], &why))
			return log_refusal(&cmd_record, "%s", why.text);
	return EXIT_DONE;
}

static int record_with(const struct record_command_options *options, struct collector *collector,
		       bool is_system_wide, int signal_fd)
{
	struct record_options record = {
		.recording = capture_recording_options(&options->capture),
		.bounds = { .max_disk_bytes = options->max_disk, .keep_ns = options->keep_ns },
		.metrics = options->metrics,
	};
	uint64_t to_load = collector__loads_later(collector) ? CAPABILITY(CAP_PERFMON) : 0;
	int status = drop_privileges(collector, &record.recording, metrics_privileges(options->metrics) | to_load);

	record.recording.is_system_wide = is_system_wide;
	return status == EXIT_DONE ? record_system_wide(&record, collector, signal_fd) : status;
}

/* Whether what is recorded is left to us. */
static bool is_by_default(const struct capture_options *capture)
{
	return !capture->domains && !python_option_of(capture) && !capture->probe.item_nr;
}

/* ---- some processes by their PIDs ---- */

static bool is_by_pid(const struct record_command_options *options)
{
	size_t nr = options->include[ADMISSION_PID].item_nr;

	return nr && nr == count_rules(options);
}

static int start_listed_processes(struct collector *collector, const struct string_list *pids)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < pids->item_nr && !status; i++) {
		uint64_t id;
		pid_t pid;

		if (parse_count(pids->item[i], 1, INT32_MAX, &id))
			return log_refusal(&cmd_record, "'%s' is no PID", pids->item[i]);
		pid = id;
		status = start_processes(collector, &pid, 1);
	}
	return status;
}

/* Probes only these processes, as attach does: other processes do not pay for the probes. */
static int record_pids(const struct record_command_options *options, int signal_fd)
{
	struct capture_options capture = options->capture;
	const struct string_list *pids = &options->include[ADMISSION_PID];
	struct collector *collector;
	int status;

	capture.follow_forks = false;
	if (!capture.domains && !python_option_of(&capture))
		capture.domains = COLLECTOR_MALLOC | COLLECTOR_GO; /* as of all processes that record records */
	collector = capture_open_collector_with(&capture, &(struct collector_options){
		.unseen_pages = is_by_default(&options->capture),
	});
	if (!collector)
		return EXIT_FAILED;
	status = start_listed_processes(collector, pids);
	if (status == EXIT_DONE)
		status = record_with(options, collector, false, signal_fd);
	collector__close(collector);
	return status;
}

/* ---- all processes that the rules admit ---- */

static int record_by_rules(const struct record_command_options *options,
			   const struct admission_rule *rule, size_t rule_nr, int signal_fd)
{
	struct collector *collector;
	int status;

	collector = capture_open_collector_with(&options->capture, &(struct collector_options){
		.system_wide = true,
		.rule = rule,
		.rule_nr = rule_nr,
		.min_bytes = options->min_bytes,
		.unseen_pages = is_by_default(&options->capture),
	});
	if (!collector)
		return EXIT_FAILED;
	status = record_with(options, collector, true, signal_fd);
	collector__close(collector);
	return status;
}

static int record_processes(const struct record_command_options *options, const struct admission_rule *rule,
			    size_t rule_nr, int signal_fd)
{
	return is_by_pid(options) ? record_pids(options, signal_fd) :
				    record_by_rules(options, rule, rule_nr, signal_fd);
}

/* ---- the command ---- */

static int run(const void *command_options, const struct arguments *args)
{
	const struct record_command_options *options = command_options;
	size_t rule_nr = count_rules(options);
	struct admission_rule *rule = calloc(rule_nr + 1, sizeof(*rule));
	int status = rule ? make_rules(options, rule) ?: check_rules(rule, rule_nr) : log_failure("out of memory");
	const struct recording_options recording = capture_recording_options(&options->capture);
	int signal_fd = -1;

	(void)args;
	if (status == EXIT_DONE && recording.file)
		status = log_refusal(&cmd_record, "-o DIR must be a folder; attach and run take -o FILE.snap");
	if (status == EXIT_DONE)
		status = check_capture(&cmd_record, &options->capture);
	if (status == EXIT_DONE) {
		signal_fd = signals_open();
		status = signal_fd < 0 ? EXIT_FAILED : EXIT_DONE;
	}
	if (status == EXIT_DONE)
		status = recording_place_check(&recording);
	if (status == EXIT_DONE)
		status = record_processes(options, rule, rule_nr, signal_fd);
	if (signal_fd >= 0)
		close(signal_fd);
	free(rule);
	return status;
}

const struct command cmd_record = {
	.name = "record",
	.args = "",
	.help = "record every process, running now or started later: a snapshot of each per interval",
	.detail = "Without filters, every process on the machine is recorded, except allocsnap's own. With filters, "
		  "a process is recorded if it matches one filter of each kind given and no --exclude. In a "
		  "GLOB, * matches any text, including slashes, and ? matches any byte.\n\n"
		  "New processes are recorded from their start or their exec on. Running processes are recorded "
		  "from now on. A process that moves to another control group, or changes its name or user, is "
		  "checked again within five seconds and recorded if it matches now. A recorded process stays "
		  "recorded until it calls exec, and its snapshots stay in one folder.\n\n"
		  "Every process that uses the same allocator file pays for the probes, recorded or not. Some files "
		  "are probed from the start, and a line names each of them: with --exe PATH (without * and ?) that "
		  "program and the C library beside its loader, otherwise the C library of PID 1. Other files are "
		  "probed when a recorded process has mapped them. Earlier allocations of that process are unknown, "
		  "and functions_late in its snapshots counts the functions probed late.\n\n"
		  "If a program runs CPython, the pools for its small objects are recorded beside its heap, at "
		  "Python's lines and nearly no cost; --domain malloc leaves them out. --domain python records each "
		  "object of the processes that run CPython, and probes only these processes. A new or forked process "
		  "is probed some milliseconds after its start, which is a gap in its snapshots. With --domain "
		  "python,malloc, the other processes are recorded by their heap.\n\n"
		  "A process whose memory nothing else sees (no file that it maps has a known allocator, and no other source is for "
		  "it) has its resident pages recorded, one in eight, by the code that needed each page first. Any --domain, --probe "
		  "or --min-size, or --max-overhead below 10, leaves them out.\n\n"
		  "Each interval takes one snapshot of every process, all at the same instant. A process that exits "
		  "between passes gets its last snapshot in the next pass. SIGUSR1 takes snapshots now. Ctrl-C and "
		  "SIGTERM take last snapshots and exit; a second signal, or one minute, cuts that short.\n\n"
		  "The exit status is 1 if the last snapshot of a process was lost, or if snapshots or metrics "
		  "cannot be written at the end. Files that other programs write to the directory do not count for "
		  "--max-disk.\n"
		  SUDO_DETAIL PROBE_DETAIL,
	.brief = "Every process that uses the same allocator file pays for the probes, recorded or not, unless all filters "
		 "are --pid. Ctrl-C or SIGTERM ends the recording, with last snapshots.\n",
	.example = "sudo allocsnap record -o /var/lib/allocsnap --cgroup '/system.slice/*'",
	.option = { { filter_process_rows, 0, "Which processes to record" },
		    { service_rows, 0, "Disk space and metrics" }, CAPTURE_GROUPS(0) },
	.defaults = &(const struct record_command_options){
		.capture.recording = { .dir = DATA_DIR, .interval_ns = 60000000000,
				       .is_compact = true },
		.min_bytes = 65536,
	},
	.options_size = sizeof(struct record_command_options),
	.has_own_screen = true,
	.run = run,
};
