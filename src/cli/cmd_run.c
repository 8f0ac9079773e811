// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap run: starts a program and records it from its first allocation until it exits. */
#include "cli/cmd_attach.h"

#include <linux/capability.h>
#include <unistd.h>

#include "base/privileges.h"
#include "base/reason.h"
#include "collect.h"
#include "collect/process/launch.h"
#include "collect/build/snapshot_folder.h"
#include "record/recording_show.h"

#define RUN_FAILED 125 /* allocsnap failed, not the program; env(1) and docker(1) use the same status */

static int record_launched(const struct capture_options *options, struct collector *collector,
			   const char *const argv[], int signal_fd, pid_t *ret_pid)
{
	struct recording_options recording = capture_recording_options(options);
	struct reason why = { "out of memory" };

	if (store_check(recording.dir, &why) || collector__run(collector, argv, ret_pid, &why)) {
		log_collector_notes(collector);
		return log_failure("%s", why.text);
	}
	/* The program may change its user, and allocsnap still has to send it signals. */
	if (drop_privileges(collector, recording.dir, CAPABILITY(CAP_KILL)))
		return EXIT_FAILED;
	recording.child = *ret_pid;
	return recording_run_until_stopped(&recording, collector, signal_fd);
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct capture_options *options = command_options;
	int status = check_capture(&cmd_run, options), exit_status = RUN_FAILED, signal_fd;
	struct collector *collector;
	pid_t pid = 0;

	if (status)
		return status;
	signal_fd = signals_open();
	if (signal_fd < 0)
		return RUN_FAILED;
	collector = capture_open_collector(options);
	status = collector ? record_launched(options, collector, args->item, signal_fd, &pid) : EXIT_FAILED;
	collector__close(collector);
	if (pid) {
		signals_forward(signal_fd, pid);
		exit_status = launch_wait(pid);
	}
	close(signal_fd);
	return status == EXIT_DONE && exit_status >= 0 ? exit_status : RUN_FAILED;
}

const struct command cmd_run = {
	.name = "run",
	.args = "-- CMD ARG…",
	.arg_min = 1,
	.arg_max = UINT_MAX,
	.stop_at_first_arg = true,
	.help = "start a program and record it from its first allocation on",
	.detail = "The program is paused while its allocator is being probed. The exit status is that of the "
		  "program, 128 + N if signal N ended it, and 125 if allocsnap itself failed. Signals sent to "
		  "allocsnap are passed on to the program, except SIGUSR1, which takes a snapshot now, and SIGUSR2, "
		  "which clears the traces and the peak.\n"
		  FOLLOW_FORKS_DETAIL PROBE_DETAIL,
	.example = "sudo allocsnap run --interval 5s -- ./server --port 8080",
	.option = { CAPTURE_GROUPS(0) },
	.defaults = &capture_defaults,
	.options_size = sizeof(struct capture_options),
	.run = run,
};
