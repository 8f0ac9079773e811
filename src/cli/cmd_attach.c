// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap attach: records running processes until it is stopped, with a snapshot each interval. */
#include "cli/cmd_attach.h"

#include <stdint.h>
#include <unistd.h>

#include "base/reason.h"
#include "base/units.h"
#include "collect.h"
#include "collect/build/snapshot_folder.h"
#include "record/recording_show.h"

extern const struct command cmd_attach;

int start_processes(const struct command *command, struct collector *collector, const char *const pid[], size_t nr)
{
	struct reason why = { "out of memory" };
	uint64_t id;

	for (size_t i = 0; i < nr; i++) {
		if (parse_count(pid[i], 1, INT32_MAX, &id))
			return log_refusal(command, "'%s' is no PID", pid[i]);
		if (collector__start(collector, id, &why)) {
			log_collector_notes(collector);
			return log_failure("%s", why.text);
		}
	}
	return EXIT_DONE;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct capture_options *options = command_options;
	const struct recording_options recording = capture_recording_options(options);
	int signal_fd, status = check_capture(&cmd_attach, options);
	struct collector *collector;
	struct reason why = {};

	if (status)
		return status;
	signal_fd = signals_open();
	if (signal_fd < 0)
		return EXIT_FAILED;
	collector = capture_open_collector(options);
	status = collector ? start_processes(&cmd_attach, collector, args->item, args->item_nr) : EXIT_FAILED;
	if (status == EXIT_DONE && store_check(options->recording.dir, &why))
		status = log_failure("%s", why.text);
	if (status == EXIT_DONE)
		status = drop_privileges(collector, options->recording.dir, 0);
	if (status == EXIT_DONE)
		status = recording_run_until_stopped(&recording, collector, signal_fd);
	collector__close(collector);
	close(signal_fd);
	return status;
}

const struct command cmd_attach = {
	.name = "attach",
	.args = "PID…",
	.arg_min = 1,
	.arg_max = UINT_MAX,
	.help = "record running processes: a snapshot of all live blocks at each interval",
	.detail = "Stops with a last snapshot on Ctrl-C, on SIGTERM, after --duration or --count, and when all "
		  "processes have exited. SIGUSR1 takes a snapshot now. SIGUSR2 clears the traces and the peak. The "
		  "paths of the written files go to standard output, one per line.\n"
		  FOLLOW_FORKS_DETAIL PROBE_DETAIL,
	.example = "sudo allocsnap attach 4711 --interval 30s --duration 10m",
	.option = { CAPTURE_GROUPS(0) },
	.defaults = &capture_defaults,
	.options_size = sizeof(struct capture_options),
	.run = run,
};
