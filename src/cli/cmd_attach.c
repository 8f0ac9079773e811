// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap attach: records running processes until it is stopped, with a snapshot each interval. */
#include "cli/cmd_attach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/reason.h"
#include "cli/cmd_stats.h"
#include "cli/find_running_process.h"
#include "cli/recording_place.h"
#include "collect.h"
#include "collect/diagnosis/diagnosis.h"
#include "doctor/doctor.h"
#include "record/recorder.h"

struct attach_options {
	struct capture_options capture;
	struct string_list pid;
	bool is_dry;
};

static const struct option_row rows[] = {
	{ "pid", 'p', OPTION_LIST, offsetof(struct attach_options, pid), .arg = "PID",
	  .help = "the same as the argument PID; repeatable" },
	{},
};

static const struct option_row dry_rows[] = {
	{ "dry", 0, OPTION_FLAG, offsetof(struct attach_options, is_dry),
	  .help = "with --inject: print what would be done, or why it would be refused, and change nothing", .rank = 26,
	  .brief = "with --inject: print what would be done, or why not" },
	{},
};

/* The gravest thing that the doctor has advice about; NULL: nothing grave has advice. */
static const struct unseen *find_advice(const struct diagnosis *diagnosis)
{
	for (size_t i = 0; diagnosis && i < diagnosis->process.unseen_nr; i++)
		if (diagnosis->process.unseen[i].is_grave && diagnosis->process.unseen[i].todo)
			return &diagnosis->process.unseen[i];
	return NULL;
}

/* Nothing was found to probe: the doctor knows what the process has instead, and what can be done. */
static int log_nothing_to_probe(pid_t pid, const struct reason *why)
{
	struct diagnosis *diagnosis = diagnosis__new(pid, NULL);
	const struct unseen *advice = find_advice(diagnosis);

	if (advice && strstr(why->text, advice->why.text))
		log_failure("%s; to do: %s", why->text, advice->todo);
	else if (advice)
		log_failure("%s; %s: %s; to do: %s", why->text, advice->what, advice->why.text, advice->todo);
	else
		log_failure("%s", why->text);
	diagnosis__free(diagnosis);
	return EXIT_FAILED;
}

int inject_processes(struct collector *collector, const struct capture_options *options, const pid_t *pid, size_t nr)
{
	struct reason why = { "out of memory" };

	for (size_t i = 0; i < nr && options->inject_bytes; i++)
		if (collector__inject(collector, pid[i], options->inject_bytes, &why))
			return log_failure("%s", why.text);
	return EXIT_DONE;
}

int start_processes(struct collector *collector, const pid_t *pid, size_t nr)
{
	struct reason why = { "out of memory" };
	int err;

	for (size_t i = 0; i < nr; i++) {
		err = collector__start(collector, pid[i], &why);
		if (!err)
			continue;
		log_collector_notes(collector);
		return err == -ENOENT ? log_nothing_to_probe(pid[i], &why) : log_failure("%s", why.text);
	}
	return EXIT_DONE;
}

/* Each process once. */
static int add_attach_target(struct process_ids *targets, const char *text)
{
	pid_t pid;
	int status = find_running_process(text, &pid);

	return status || process_ids_have(targets, pid) ? status : process_ids_add(targets, pid);
}

static int find_attach_targets(struct process_ids *targets, const struct attach_options *options,
			       const struct arguments *args)
{
	int status = EXIT_DONE;

	if (!options->pid.item_nr && !args->item_nr)
		return log_refusal(&cmd_attach, "missing argument: %s %s", cmd_attach.name, cmd_attach.args);
	for (size_t i = 0; i < options->pid.item_nr && !status; i++)
		status = add_attach_target(targets, options->pid.item[i]);
	for (size_t i = 0; i < args->item_nr && !status; i++)
		status = add_attach_target(targets, args->item[i]);
	return status;
}

static int attach_to(const struct capture_options *options, const struct recording_options *recording,
		     const struct process_ids *targets)
{
	int signal_fd = signals_open(), status;
	struct collector *collector;

	if (signal_fd < 0)
		return EXIT_FAILED;
	collector = capture_open_collector(options);
	status = collector ? inject_processes(collector, options, targets->pid, targets->pid_nr) : EXIT_FAILED;
	status = status ?: start_processes(collector, targets->pid, targets->pid_nr) ?:
			   start_running_children(collector, options, targets->pid, targets->pid_nr);
	for (size_t i = 0; i < targets->pid_nr && status == EXIT_DONE; i++)
		log_other_file_name(targets->pid[i]);
	if (status == EXIT_DONE)
		status = recording_place_check(recording);
	if (status == EXIT_DONE)
		status = drop_privileges(collector, recording, 0);
	if (status == EXIT_DONE)
		status = recording_run_until_stopped(recording, collector, signal_fd);
	status = capture_close_collector(collector) ?: status;
	close(signal_fd);
	return status;
}

/* Prints the plan of an injection. */
static int plan_injection(pid_t pid, const struct capture_options *options)
{
	struct reason why = {};
	bool is_exact = options->inject_bytes == COLLECTOR_INJECT_EXACT;
	struct diagnosis *diagnosis = diagnosis__of_injection(pid, is_exact, options->domains, &why);
	const struct diagnosed_process *process = diagnosis ? &diagnosis->process : NULL;
	int status = diagnosis ? EXIT_DONE : log_failure("%s", why.text);

	if (!status && !process->injection && !process->exact)
		status = log_failure("cannot inject into process %d: %s", pid,
				     is_exact ? process->not_exact.text : process->not_injected.text);
	else if (!status)
		status = report_write_error(doctor_put_injection(stdout, diagnosis));
	diagnosis__free(diagnosis);
	return status;
}

static int plan_injections(const struct process_ids *targets, const struct capture_options *options)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < targets->pid_nr; i++)
		status = plan_injection(targets->pid[i], options) ?: status;
	return status;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct attach_options *options = command_options;
	struct recording_options recording = capture_recording_options(&options->capture);
	struct process_ids targets = {};
	int status = check_capture(&cmd_attach, &options->capture);

	if (!status && options->is_dry && !options->capture.inject_bytes)
		status = log_refusal(&cmd_attach, "--dry goes with --inject");
	status = status ?: find_attach_targets(&targets, options, args);
	if (!status && options->is_dry) {
		status = plan_injections(&targets, &options->capture);
		free(targets.pid);
		return status;
	}
	status = status ?: recording_place_refuse(&cmd_attach, &recording, targets.pid_nr,
						  options->capture.follow_forks);
	status = status ?: recording_place_look(&recording) ?: attach_to(&options->capture, &recording, &targets);
	free(targets.pid);
	return status;
}

/* As lines of the command's detail. */
#define ADVICE_DETAIL(when, command, what) "  " when ": " command "\n    " what "\n"

const struct command cmd_attach = {
	.name = "attach",
	.args = "PID|NAME…",
	.arg_max = UINT_MAX,
	.help = "record running processes: a snapshot of all live blocks at each interval",
	.detail = "NAME is the name of a process, or of its program's file. If several processes have it, they are "
		  "listed, and none is recorded.\n\n"
		  "Stops with a last snapshot on Ctrl-C, on SIGTERM, after --duration or --count, and when all "
		  "processes have exited. SIGUSR1 takes a snapshot now. SIGUSR2 clears the traces and the peak. The "
		  "paths of the written files go to standard output, one per line.\n\n"
		  "With -o FILE.snap, one snapshot is taken after the interval, and FILE.snap must not exist.\n"
		  SUDO_DETAIL "\n" FOLLOW_FORKS_DETAIL "\n" INJECT_DETAIL "\nWhich way, when:\n" WAYS_ADVICE(ADVICE_DETAIL) PROBE_DETAIL,
	.example = "sudo allocsnap attach redis-server --interval 30s --duration 10m",
	.option = { { rows, 0, "Which processes to record" }, { capture_children_rows, 0, "Which processes to record" },
		    CAPTURE_GROUPS(0), { capture_inject_rows, 0, "Cost and memory" }, { dry_rows, 0, "Cost and memory" } },
	.defaults = &(const struct attach_options){ .capture = CAPTURE_DEFAULTS },
	.options_size = sizeof(struct attach_options),
	.has_own_screen = true,
	.run = run,
};
