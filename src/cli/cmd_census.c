// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap census: what lies in the heaps of a process now, without a recording. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/cmd_stats.h"
#include "cli/find_running_process.h"
#include "cli/pager.h"
#include "census/census.h"
#include "census/census_json.h"
#include "census/java_census.h"

extern const struct command cmd_census;

struct census_cmd_options {
	bool json;
	uint64_t top;
	uint64_t cpu_ns;
	uint32_t java;
};

static const struct option_choice java_kinds[] = {
	{ "all", "with those that the next collection will take away", JAVA_CENSUS_ALL },
	{ "live", "after a full collection of the heap, for which the program stands still", JAVA_CENSUS_LIVE },
	{},
};

static const struct option_row rows[] = {
	{ "json", 'j', OPTION_FLAG, offsetof(struct census_cmd_options, json),
	  .help = "print one JSON object, schema " CENSUS_SCHEMA "; of two, " CENSUS_DIFF_SCHEMA "; with --java, "
		  JAVA_CENSUS_SCHEMA },
	{ "top", 0, OPTION_COUNT, offsetof(struct census_cmd_options, top), .arg = "N",
	  .help = "list the first N rows of each table; 0 lists all" },
	{ "max-cpu", 0, OPTION_DURATION, offsetof(struct census_cmd_options, cpu_ns), .arg = "TIME",
	  .help = "stop reading after this much CPU time; what was not read is counted", .least = 1000000000,
	  .most = UINT64_C(3600000000000) },
	{ "java", 0, OPTION_CHOICE, offsetof(struct census_cmd_options, java), .arg = "KIND",
	  .help = "ask the Java virtual machine of the process for its objects by class, in place of reading its heap",
	  .choices = java_kinds },
	{},
};

/* A process has neither a folder nor this ending in its name. */
static bool is_file_name(const char *text)
{
	size_t len = strlen(text);

	return strchr(text, '/') || (len > 5 && !strcmp(text + len - 5, ".json"));
}

static int take_or_read(const char *text, const struct census_cmd_options *options, struct census *ret)
{
	struct reason why = {};
	pid_t pid;
	int status;

	if (is_file_name(text))
		return census_from_file(text, ret, &why) ? log_failure("%s: %s", text, why.text) : EXIT_DONE;
	status = find_running_process(text, &pid);
	if (status)
		return status;
	if (census_take(pid, &(struct census_options){ .cpu_ns = options->cpu_ns }, ret, &why))
		return log_failure("process %d: %s", pid, why.text);
	return EXIT_DONE;
}

static int put_java(const struct census_cmd_options *options, const struct arguments *args)
{
	struct java_census census = {};
	struct reason why = {};
	pid_t pid;
	int status;

	if (args->item_nr != 1)
		return log_refusal(&cmd_census, "--java is for one process");
	status = find_running_process(args->item[0], &pid);
	if (status)
		return status;
	if (java_census_take(pid, options->java, &census, &why))
		return log_failure("process %d: %s", pid, why.text);
	pager_begin();
	status = report_write_error(java_census_put(stdout, &census, options->top, options->json));
	java_census_release(&census);
	return status;
}

static int put_one(const struct census_cmd_options *options, const struct census *census)
{
	int status;

	pager_begin();
	status = report_write_error(census_put(stdout, census, options->top, options->json));
	return status ?: census->arena_nr ? status : EXIT_FAILED;
}

static int put_two(const struct census_cmd_options *options, const struct census *old, const struct census *new)
{
	pager_begin();
	return report_write_error(census_put_diff(stdout, old, new, options->top, options->json));
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct census_cmd_options *options = command_options;
	struct census census[2] = {};
	int status = EXIT_DONE;

	if (options->java)
		return put_java(options, args);
	for (size_t i = 0; i < args->item_nr && !status; i++)
		status = take_or_read(args->item[i], options, &census[i]);
	if (!status)
		status = args->item_nr == 1 ? put_one(options, &census[0]) : put_two(options, &census[0], &census[1]);
	census_release(&census[0]);
	census_release(&census[1]);
	return status;
}

const struct command cmd_census = {
	.name = "census",
	.args = "[OLD] PID|NAME|FILE",
	.arg_min = 1,
	.arg_max = 2,
	.help = "count what lies in the heap of a process now: in use, free, by size; nothing is recorded",
	.detail = "It reads the structures of glibc's allocator (2.26 and later), which hold every block, whenever it "
		  "was allocated. The process is not stopped, and nothing is attached to it: what changes meanwhile is "
		  "counted. Bytes are of whole chunks, 16 bytes or a few more than the program asked for.\n\n"
		  "FILE is the output of --json; it has a '/' in its name, or ends with '.json'. With two arguments it says what "
		  "changed from the first to the second one:\n\n"
		  "  sudo allocsnap census 4711 --json >monday.json\n"
		  "  sudo allocsnap census monday.json 4711\n\n"
		  "Of a Java virtual machine (HotSpot) --java counts the objects by class. The virtual machine does this itself, "
		  "and stops the program meanwhile.\n\n"
		  "The exit status is 1 if the process has no heap of glibc.\n",
	.example = "sudo allocsnap census 4711",
	.option = { { .row = rows } },
	.defaults = &(const struct census_cmd_options){ .top = 10, .cpu_ns = UINT64_C(60000000000) },
	.options_size = sizeof(struct census_cmd_options),
	.pages = true,
	.run = run,
};
