// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap doctor: reports whether recording works here, and what a recording would miss. */
#include <stdio.h>

#include "cli/cmd.h"
#include "cli/cmd_stats.h"
#include "cli/find_running_process.h"
#include "cli/pager.h"
#include "collect/diagnosis/diagnosis.h"
#include "doctor/doctor.h"

extern const struct command cmd_doctor;

struct doctor_options {
	bool json, verbose;
};

static const struct option_row rows[] = {
	{ "json", 'j', OPTION_FLAG, offsetof(struct doctor_options, json),
	  .help = "print one JSON object, schema allocsnap.doctor/1" },
	{ "verbose", 'v', OPTION_FLAG, offsetof(struct doctor_options, verbose),
	  .help = "also list probes, files, every check, and what no recording shows" },
	{},
};

static int print_diagnosis(const struct diagnosis *diagnosis, const struct doctor_options *options)
{
	int status;

	pager_begin();
	status = report_write_error(doctor_put(stdout, diagnosis, options->verbose, options->json));
	return status == EXIT_DONE && !diagnosis__records(diagnosis) ? EXIT_FAILED : status;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct doctor_options *options = command_options;
	struct diagnosis *diagnosis;
	struct reason why;
	pid_t pid = 0;
	int status = args->item_nr ? find_running_process(args->item[0], &pid) : EXIT_DONE;

	if (status)
		return status;
	diagnosis = diagnosis__new(pid, &why);
	if (!diagnosis)
		return log_failure("%s", why.text);
	status = print_diagnosis(diagnosis, options);
	diagnosis__free(diagnosis);
	return status;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.args = "[PID | NAME]",
	.arg_max = 1,
	.help = "check whether this machine or a process can be recorded, and what would be missed",
	.detail = "NAME is the name of a running process, as ps shows it, or of its program's file.\n\n"
		  "The exit status is 0 if recording would work, otherwise 1, and the report says why. Nothing is "
		  "attached to the process. Kernel features are tried on allocsnap itself.\n",
	.example = "sudo allocsnap doctor 4711",
	.option = { { .row = rows } },
	.options_size = sizeof(struct doctor_options),
	.pages = true,
	.run = run,
};
