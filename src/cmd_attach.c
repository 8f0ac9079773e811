// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap attach: records running processes until told to stop, a snapshot each interval. */
#include "cmd.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/reason.h"
#include "base/units.h"
#include "collect/collector.h"
#include "collect/store.h"
#include "recording.h"

extern const struct command cmd_attach;

struct attach_options {
	struct recording_options recording;
	uint64_t traceback_limit, max_blocks, max_tracebacks;
};

#define FIELD(name) offsetof(struct attach_options, name)

static const struct option_row rows[] = {
	{ "output", 'o', OPTION_STRING, FIELD(recording.dir), .arg = "DIR",
	  .help = "write DIR/HOST/COMM.PID/TIME.snap (default ./allocsnap-data)" },
	{ "interval", 'i', OPTION_DURATION, FIELD(recording.interval_ns),
	  .arg = "TIME", .help = "a snapshot every TIME: 250ms 10s 5m 2h (default 10s)",
	  .least = 10000000 },
	{ "duration", 'd', OPTION_DURATION, FIELD(recording.duration_ns),
	  .arg = "TIME", .help = "end after TIME, with a last snapshot" },
	{ "count", 'n', OPTION_COUNT, FIELD(recording.count), .arg = "N",
	  .help = "end with the Nth snapshot", .least = 1 },
	{ "traceback-limit", 0, OPTION_COUNT, FIELD(traceback_limit),
	  .arg = "N", .help = "frames kept of a traceback, 1 to 127 (default 64)", .least = 1,
	  .most = COLLECTOR_TRACEBACK_LIMIT_MAX },
	{ "max-blocks", 0, OPTION_COUNT, FIELD(max_blocks), .arg = "N",
	  .help = "live blocks that the kernel keeps books of (default 4194304)", .least = 1,
	  .most = 1 << 30 },
	{ "max-tracebacks", 0, OPTION_COUNT, FIELD(max_tracebacks),
	  .arg = "N", .help = "distinct tracebacks that the kernel keeps (default 262144)",
	  .least = 1, .most = 1 << 26 },
	{},
};

static int add_targets(struct collector *collector, const struct arguments *args)
{
	struct reason why = { "out of memory" };
	uint64_t id;

	for (size_t i = 0; i < args->item_nr; i++) {
		if (parse_count(args->item[i], 1, INT32_MAX, &id))
			return say_refusal(&cmd_attach, "'%s' is no PID", args->item[i]);
		if (collector__add(collector, id, &why))
			return say_failure("%s", why.text);
	}
	return EXIT_DONE;
}

static struct collector *open_collector(const struct attach_options *options)
{
	struct collector_options collector_options = {
		.traceback_limit = options->traceback_limit,
		.max_blocks = options->max_blocks,
		.max_tracebacks = options->max_tracebacks,
	};
	struct reason why = { "out of memory" };
	struct collector *collector = collector__open(&collector_options, &why);

	if (!collector)
		say_failure("%s", why.text);
	return collector;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct attach_options *options = command_options;
	int signal_fd = open_signals(), status;
	struct collector *collector;
	struct reason why = {};

	if (signal_fd < 0)
		return say_failure("cannot wait for signals: %s", strerror(errno));
	collector = open_collector(options);
	status = collector ? add_targets(collector, args) : EXIT_FAILED;
	if (status == EXIT_DONE && store_check(options->recording.dir, &why))
		status = say_failure("%s", why.text);
	if (status == EXIT_DONE)
		status = record_until_told(&options->recording, collector, signal_fd);
	collector__close(collector);
	close(signal_fd);
	return status;
}

const struct command cmd_attach = {
	.name = "attach",
	.args = "PID…",
	.arg_min = 1,
	.arg_max = UINT_MAX,
	.help = "record running processes: a snapshot of every live block, each interval",
	.detail = "Ends with a last snapshot on Ctrl-C, SIGTERM, after --duration or --count, and when the\n"
		  "processes have ended. SIGUSR1 takes a snapshot now. The paths of the files written go to\n"
		  "standard output, one a line.\n",
	.option = { { rows } },
	.defaults = &(const struct attach_options){
		.recording = { .dir = "./allocsnap-data", .interval_ns = 10000000000 },
	},
	.options_size = sizeof(struct attach_options),
	.run = run,
};
