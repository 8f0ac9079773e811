// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap run: starts a program and records it from its first allocation until it exits. */
#include "cli/cmd_attach.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <unistd.h>

#include "base/privileges.h"
#include "base/reason.h"
#include "cli/preload_sampler.h"
#include "cli/recording_place.h"
#include "collect.h"
#include "process/launch.h"
#include "record/recorder.h"

/* As env(1) and docker(1) have them. 125: allocsnap itself failed. */
#define RUN_FAILED 125
#define RUN_NOT_EXECUTABLE 126
#define RUN_NOT_FOUND 127

static const struct option_row rows[] = {
	{ "user", 0, OPTION_STRING, offsetof(struct capture_options, run_user), .arg = "USER",
	  .help = "start the program as USER, with the groups, HOME, USER, LOGNAME and SHELL of this user", .rank = 17,
	  .brief = "start the program as USER" },
	{ "fast", 0, OPTION_CUSTOM, offsetof(struct capture_options, fast_bytes), .arg = "SIZE", .without_value = "512K",
	  .help = "preload liballocsnap-sampler.so, which takes one sample per SIZE bytes on average (default "
		  "512K) in the program itself; other blocks cost some nanoseconds",
	  .parse = parse_sample, .rank = 15,
	  .brief = "take samples in the program itself, by a preloaded library" },
	{ "exact", 0, OPTION_FLAG, offsetof(struct capture_options, exact),
	  .help = "functions in the program itself enter every block, for a small part of what traps cost: a Python's objects, from "
		  "the begin of its Python on; the heap of any other program from its first block on. Of the domains, "
		  "malloc stands for the heap of a Python, too, and python waits until the program has become one", .rank = 16,
	  .brief = "record every block in the program itself, for a small part of what traps cost" },
	{},
};

/* The started program. */
struct run_child {
	pid_t pid;	 /* 0: it was not started */
	int exit_status; /* if it was not started, or not recorded to the end */
	uint64_t fast_bytes; /* of struct capture_options */
	bool preloads_exact; /* to record its heap, if it runs no CPython */
	bool has_ended_early; /* a launcher that has started no program, or a program whose Python has not begun */
	struct collector *collector;
	int signal_fd;
};

/* While it runs, and is not recorded yet. */
static bool attend_child(void *child_)
{
	const struct run_child *child = child_;

	log_collector_notes(child->collector);
	signals_pass_on(child->signal_fd, child->pid);
	return false;
}

static int start_program(struct collector *collector, const char *const argv[], struct run_child *child)
{
	struct reason why = { "out of memory" };
	struct preload before = {};
	int err = child->fast_bytes ? preload_sampler(&before, child->fast_bytes, &why) :
		  child->preloads_exact ? preload_exact(&before, &why) : 0;

	if (!err) {
		collector__set_between(collector, attend_child, child);
		err = collector__run(collector, argv, &child->pid, &why);
		collector__set_between(collector, NULL, NULL);
		if (child->fast_bytes || child->preloads_exact)
			preload_restore(&before);
	}

	if (!err)
		return EXIT_DONE;
	child->has_ended_early = err == -ECHILD;
	if (child->pid < 0) {
		child->exit_status = err == -ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
		child->pid = 0;
	}
	log_collector_notes(collector);
	return log_failure("%s", why.text);
}

static int record_launched(const struct recording_options *options, struct collector *collector,
			   const char *const argv[], int signal_fd, struct run_child *child)
{
	struct recording_options recording = *options;

	if (recording_place_check(&recording) || start_program(collector, argv, child))
		return EXIT_FAILED;
	/* The program may change its user, and allocsnap still has to send it signals. */
	if (drop_privileges(collector, &recording, CAPABILITY(CAP_KILL)))
		return EXIT_FAILED;
	recording.child = child->pid;
	return recording_run_until_stopped(&recording, collector, signal_fd);
}

static int run_program(const struct capture_options *options, const struct recording_options *recording,
		       const char *const argv[])
{
	int signal_fd = signals_open(), status, exit_status = -1;
	struct run_child child = { .exit_status = RUN_FAILED, .fast_bytes = options->fast_bytes, .signal_fd = signal_fd };
	struct collector *collector;

	if (signal_fd < 0)
		return RUN_FAILED;
	collector = capture_open_collector_with(
		options, &(struct collector_options){ .run_interval_bytes = options->fast_bytes });
	child.collector = collector;
	child.preloads_exact = options->exact && options->domains != COLLECTOR_PYTHON;
	status = collector ? record_launched(recording, collector, argv, signal_fd, &child) : EXIT_FAILED;
	status = capture_close_collector(collector) ?: status;
	if (child.pid) {
		signals_forward(signal_fd, child.pid);
		exit_status = launch_wait(child.pid);
		if (exit_status < 0)
			log_failure("how the program has ended is not known: %s", strerror(-exit_status));
	}
	close(signal_fd);
	return (status == EXIT_DONE || child.has_ended_early) && exit_status >= 0 ? exit_status : child.exit_status;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct capture_options *options = command_options;
	struct recording_options recording = capture_recording_options(options);
	int status = check_capture(&cmd_run, options);

	if (!status && options->fast_bytes && is_sample_chosen(options))
		status = log_refusal(&cmd_run, "--fast and --sample exclude each other");
	if (!status && options->fast_bytes && python_option_of(options))
		status = log_refusal(&cmd_run, "--fast and %s exclude each other: its samples are of the heap", python_option_of(options));
	if (!status && options->fast_bytes && options->no_sampler)
		status = log_refusal(&cmd_run, "--fast and --no-sampler exclude each other");
	status = status ?: recording_place_refuse(&cmd_run, &recording, 1, options->follow_forks);
	if (!status && recording_place_look(&recording))
		status = RUN_FAILED;
	return status ?: run_program(options, &recording, args->item);
}

const struct command cmd_run = {
	.name = "run",
	.args = "-- CMD ARG…",
	.arg_min = 1,
	.arg_max = UINT_MAX,
	.stop_at_first_arg = true,
	.help = "start a program and record it from its first allocation on",
	.detail = "The program is paused while its allocator is being probed. The exit status is the "
		  "program's, 128 + N if signal N ended it, 127 if it was not found, 126 if it cannot be executed, and "
		  "125 if allocsnap itself failed. allocsnap passes signals on to the program, except SIGUSR1, which "
		  "takes a snapshot now, and SIGUSR2, which clears the traces and the peak.\n\n"
		  "With -o FILE.snap, one snapshot is taken, after the interval or at the end, whichever comes first, "
		  "and FILE.snap must not exist.\n\n"
		  "--exact records the program that CMD names; its children are not recorded. CPython 3.9 to 3.14 has its objects "
		  "recorded: some pointers of its allocators are replaced in its memory when its Python begins, and put back if the "
		  "recording ends first. Any other program has its heap recorded, by a preloaded library, and so has the program "
		  "that it becomes by exec, also if that is a Python. With --domain python, env, a shell, a script or the like runs on "
		  "until it has become a Python; a program that cannot become one is not started.\n"
		  SUDO_DETAIL "\n" FOLLOW_FORKS_DETAIL PROBE_DETAIL,
	.example = "sudo allocsnap run --interval 5s -- ./server --port 8080",
	.option = { { rows, 0, "The program" }, CAPTURE_GROUPS(0) },
	.defaults = &capture_defaults,
	.options_size = sizeof(struct capture_options),
	.has_own_screen = true,
	.run = run,
};
